"""The stack's own refusals, and what a node may see of the control plane's environment: nothing."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from include.localstack import airflow, demo, node, postgres, stack
from include.localstack.settings import STACK_TAG, Settings, StackError, airflow_environment
from tests.conftest import ROOT


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "state", 8099)


@pytest.mark.parametrize("port", ["80", "http", "70000"])
def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("VERL_REGRESSION_PORT", port)
    with pytest.raises(StackError, match=rf"VERL_REGRESSION_PORT = '{port}'.*Fix"):
        Settings.from_environment()


def test_a_port_in_use_is_refused_before_anything_starts(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = Settings(settings.state, taken.getsockname()[1])
        with pytest.raises(StackError, match=r"the port is in use\. Fix"):
            stack.up(busy)
    assert not settings.state.exists()


def test_a_full_disk_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack.shutil, "disk_usage", lambda _: SimpleNamespace(free=3e9))
    with pytest.raises(StackError, match=r"3\.0 GB are free there, 12 are needed\. Fix: free disk space"):
        stack.check_disk(settings)


def test_an_external_postgres_that_is_down_is_named_without_its_password(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERL_REGRESSION_POSTGRES", "postgresql://ci:geheim@127.0.0.1:1")
    with pytest.raises(StackError) as caught:
        postgres.start(settings)
    assert "VERL_REGRESSION_POSTGRES" in str(caught.value)
    assert "start that server" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_login_on_the_node_knows_nothing_of_airflow() -> None:
    shell = {
        "HOME": "/root",
        "PATH": "/bin",
        "PIP_INDEX_URL": "file:///mirror",
        "UV_INDEX": "x",
        "AIRFLOW_HOME": "/a",
        "AIRFLOW_CONN_NODE": "secret",
        "PYTHONPATH": "/work",
        "VERL_REGRESSION_DB": "postgresql://",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    seen = node.login_environment(shell, "state#node")
    assert set(seen) == {"HOME", "PATH", "PIP_INDEX_URL", "UV_INDEX", STACK_TAG}


def test_airflow_listens_on_loopback_only(settings: Settings) -> None:
    variables = airflow_environment(settings, "db", "results", "{}")
    assert variables["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert variables["SPT_NOENV"] == "1", "the API server would hide its tag, and `make down` would not wait for its end"
    airflow._write_shim(settings)
    assert "--skip-serve-logs" in (settings.state / "bin" / "airflow").read_text()
    assert variables["PATH"].startswith(str(settings.state / "bin"))


def test_the_password_is_made_once_and_readable_by_its_owner_alone(settings: Settings) -> None:
    password = settings.password()
    assert settings.password() == password
    assert stat.S_IMODE(settings.password_file.stat().st_mode) == 0o600


def test_disk_counts_hard_links_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 100_000)
    before = demo.disk_bytes(tmp_path)
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert demo.disk_bytes(tmp_path) == before >= 100_000


def test_make_without_python_311_says_what_to_do() -> None:
    done = subprocess.run(["make", "setup", "PYTHON=/no/such/python"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "PYTHON = '/no/such/python': not Python 3.11. Fix: install Python 3.11" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--release", "v9.9"], "release = 'v9.9': unknown. Fix: did you mean 'v0.9.1'?"),
        (["--suite", "tiny"], "suite = 'tiny': unknown"),
        (["--cluster", "lap"], "cluster = 'lap': unknown. Fix: did you mean 'laptop'?"),
    ],
)
def test_the_demo_refuses_bad_names_before_it_starts_anything(tmp_path: Path, arguments: list[str], message: str) -> None:
    environment = {**os.environ, "VERL_REGRESSION_STATE": str(tmp_path / "state")}
    command = [sys.executable, "-m", "include.localstack", "demo", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()
