"""npu-smi's tables of several drivers, in the real format (sources: the public reports they were taken from)."""

from __future__ import annotations

import pytest

from include.regression.parsers.npu_smi import NpuSmiFailed, parse_npu_smi
from tests.conftest import DATA


def sample(name: str) -> str:
    return (DATA / "npu_smi" / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "chips", "unhealthy", "busy", "processes"),
    [
        ("910B2_a2_8x64g_idle_healthy", 8, [], [], 0),
        ("910B4_a2_8x32g_idle_healthy", 8, [], [], 0),
        ("910B2_one_alarm", 8, [(5, 0, "Alarm")], [], 0),
        ("910B3_warning_and_critical", 8, [(2, 0, "Warning"), (6, 0, "Critical")], [], 0),
        ("910B2_health_unknown", 8, [(7, 0, "UNKNOWN")], [], 0),
        ("910B2_busy_4_cards_vllm", 8, [], [(0, 0), (1, 0), (2, 0), (3, 0)], 4),
        ("910B2_two_processes_one_card", 8, [], [(0, 0)], 2),
        ("910B2_process_with_empty_name", 8, [], [(0, 0)], 1),
        ("910B2_hbm_used_but_no_process_listed", 8, [], [(0, 0), (1, 0)], 0),
        ("910B4_single_card_container", 1, [], [], 0),
        ("A3_16chips_idle_healthy", 16, [], [], 0),
        ("A3_16chips_busy", 16, [], [(npu, chip) for npu in range(8) for chip in (0, 1)], 16),
        ("A3_one_chip_critical", 16, [(3, 1, "Critical")], [], 0),
        ("910ProB_old_narrow_table", 1, [], [(0, 0)], 1),
        ("new_driver_process_id_in_container_column", 2, [], [(0, 0)], 1),
    ],
)
def test_tables(name: str, chips: int, unhealthy: list[tuple[int, int, str]], busy: list[tuple[int, int]], processes: int) -> None:
    found = parse_npu_smi(sample(name))
    assert len(found.chips) == chips
    assert [(chip.npu, chip.chip, chip.health) for chip in found.unhealthy] == unhealthy
    assert [(chip.npu, chip.chip) for chip in found.busy] == busy
    assert len(found.processes) == processes


def test_details() -> None:
    found = parse_npu_smi(sample("910B2_a2_8x64g_idle_healthy"))
    assert found.version == "25.2.0"
    assert {chip.hbm_total_mb for chip in found.chips} == {65536}
    assert {chip.hbm_total_mb for chip in parse_npu_smi(sample("910B4_a2_8x32g_idle_healthy")).chips} == {32768}
    assert [chip.npu for chip in parse_npu_smi(sample("910B4_single_card_container")).chips] == [5]
    assert parse_npu_smi(sample("new_driver_process_id_in_container_column")).processes[0].in_container == 157
    assert parse_npu_smi(sample("910B2_process_with_empty_name")).processes[0].name == ""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("error_not_installed", "missing"),
        ("error_8005", "-8005"),
        ("error_8020_device_used", "-8020"),
        ("error_libdrvdsmi_missing", "library"),
    ],
)
def test_failures(name: str, fault: str) -> None:
    with pytest.raises(NpuSmiFailed) as caught:
        parse_npu_smi(sample(name))
    assert caught.value.fault == fault


def test_something_else_is_no_table() -> None:
    with pytest.raises(NpuSmiFailed, match="Permission denied"):
        parse_npu_smi("Permission denied")
