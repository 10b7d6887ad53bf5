"""nvidia-smi's csv."""

from __future__ import annotations

import pytest

from include.regression.parsers.nvidia_smi import NvidiaSmiFailed, parse_nvidia_smi


def test_gpus() -> None:
    idle, busy = parse_nvidia_smi(
        "0, NVIDIA A100-SXM4-80GB, 570.86.15, 4, 81920\n1, NVIDIA A100-SXM4-80GB, 570.86.15, 70211, 81920\n"
    )
    assert (idle.number, idle.driver, idle.total_mb, idle.busy) == (0, "570.86.15", 81920, False)
    assert busy.busy


@pytest.mark.parametrize(
    "text", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "No devices were found"]
)
def test_no_gpus(text: str) -> None:
    with pytest.raises(NvidiaSmiFailed, match=text[:20] or "no output"):
        parse_nvidia_smi(text)
