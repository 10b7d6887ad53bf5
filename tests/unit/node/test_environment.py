"""Building node environments: reuse, interruption, and where packages come from. Real uv, an empty lock."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from include.node import environment


@pytest.fixture
def wanted(tmp_path: Path, tools: Path) -> argparse.Namespace:
    lock = tmp_path / "empty.txt"
    lock.write_text("# nothing\n")
    return argparse.Namespace(
        into=tmp_path / "env",
        lock=lock,
        python=sys.executable,
        tools=tools,
        plugin=[],
        smoke=["json"],
        accelerator=False,
        wheels=None,
        wheel=[],
        source=[],
        mirror=[],
    )


def test_it_is_built_once_and_reused_while_the_lock_is_the_same(wanted: argparse.Namespace) -> None:
    first = environment.build(wanted)
    assert first["reused"] is False
    assert subprocess.run([wanted.into / "bin" / "python", "-c", "import json"], check=True)
    wanted.lock.write_text("# another comment is no other lock\n")
    second = environment.build(wanted)
    assert second["reused"] is True
    assert second["stamp"] == first["stamp"]


def test_a_killed_build_never_looks_finished_and_is_swept_away(wanted: argparse.Namespace) -> None:
    leftover = wanted.into.with_name("env.building-12345")
    (leftover / "bin").mkdir(parents=True)
    environment.build(wanted)
    assert not leftover.exists()
    assert (wanted.into / environment.STAMP).exists()


def test_a_failing_import_leaves_no_environment(wanted: argparse.Namespace, capfd: pytest.CaptureFixture[str]) -> None:
    wanted.smoke = ["no_such_module"]
    with pytest.raises(SystemExit):
        environment.build(wanted)
    assert not wanted.into.exists()
    assert "No module named 'no_such_module'" in capfd.readouterr().out


def test_an_environment_of_another_lock_is_replaced(wanted: argparse.Namespace) -> None:
    environment.build(wanted)
    (wanted.into / environment.STAMP).write_text(json.dumps({"stamp": "older"}))
    (wanted.into / "relic").touch()
    assert environment.build(wanted)["reused"] is False
    assert not (wanted.into / "relic").exists()


def test_the_stamp_covers_plugins(wanted: argparse.Namespace, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "code.py").write_text("x = 1\n")
    before = environment.stamp_of(wanted.lock, [plugin], sys.executable)
    (plugin / "code.py").write_text("x = 2\n")
    assert environment.stamp_of(wanted.lock, [plugin], sys.executable) != before


@pytest.mark.parametrize(
    ("variables", "options", "added"),
    [
        ({}, ["--torch-backend", "cpu"], {}),
        ({"PIP_INDEX_URL": "file:///mirror"}, ["--torch-backend", "cpu"], {"UV_DEFAULT_INDEX": "file:///mirror"}),
        ({"PIP_INDEX_URL": "a", "UV_DEFAULT_INDEX": "b"}, ["--torch-backend", "cpu"], {}),
        ({"UV_TORCH_BACKEND": "auto"}, [], {}),
        ({"UV_TORCH_BACKEND": "cpu", "PIP_CERT": "/ca.pem"}, [], {"SSL_CERT_FILE": "/ca.pem"}),
        ({"UV_TORCH_BACKEND": "cpu", "PIP_CERT": "/ca.pem", "SSL_CERT_FILE": "/b"}, [], {}),
        ({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/none"}, ["--find-links", "/none"], {"UV_NO_INDEX": "1"}),
    ],
)
def test_pips_settings_become_uvs(variables: dict[str, str], options: list[str], added: dict[str, str]) -> None:
    assert environment.index_options(variables) == (options, added)


def test_a_folder_with_a_torch_wheel_makes_pytorchs_index_unnecessary(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl").touch()
    assert environment.index_options({"PIP_FIND_LINKS": str(tmp_path)}) == (["--find-links", str(tmp_path)], {})


def test_uv_on_the_path_is_used(wanted: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert environment.find_uv(wanted.tools, sys.executable) == str(uv)
