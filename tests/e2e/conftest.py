"""The stack and the one complete run that all end-to-end tests look at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from include.localstack import postgres
from include.localstack.airflow import Api
from include.localstack.settings import Settings, free_port
from include.regression.config import RunSpec
from include.regression.store.engine import engine
from include.regression.store.tables import runs
from tests.conftest import ROOT

DAG_ID = "verl_regression.tiny_grpo_cpu"
DEMO_TIMEOUT_S = 25 * 60


@dataclass
class Demo:
    settings: Settings
    environment: dict[str, str]
    output: str
    exit_code: int
    run: dict[str, Any]
    spec: RunSpec

    @property
    def api(self) -> Api:
        return Api(self.settings)

    def log_of(self, dag_run_id: str, task: str) -> str:
        """Return what the first try of a task wrote to its log, one line per entry."""
        path = f"/dags/{DAG_ID}/dagRuns/{dag_run_id}/taskInstances/{task}/logs/1?full_content=true"
        return "\n".join(json.dumps(entry, ensure_ascii=False) for entry in self.api.get(path)["content"])

    def trigger(self, conf: dict[str, Any]) -> str:
        """Trigger a run; returns its DAG run id."""
        return str(self.api.post(f"/dags/{DAG_ID}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def stack(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return call(self.environment, *arguments, timeout=timeout)


def wait_for(look: Callable[[], Any], seconds: float) -> Any:
    """Look every second until something is found; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"not within {seconds} s")


def call(environment: dict[str, str], *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "include.localstack", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    folder = Path(tempfile.mkdtemp(prefix="vr-e2e-"))
    folder.chmod(0o755)
    settings = Settings(folder, free_port())
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "VERL_REGRESSION"))}
    environment |= {"VERL_REGRESSION_STATE": str(folder), "VERL_REGRESSION_PORT": str(settings.port), "COLUMNS": "160"}
    try:
        done = call(environment, "demo", timeout=DEMO_TIMEOUT_S)
        print(done.stdout[-20000:], done.stderr[-5000:])
        os.environ["VERL_REGRESSION_DB"] = postgres.start(settings)[1]
        run = newest_run()
        yield Demo(settings, environment, done.stdout, done.returncode, run, RunSpec.model_validate(run["spec"]))
    finally:
        call(environment, "down", timeout=300)
        os.environ.pop("VERL_REGRESSION_DB", None)
        shutil.rmtree(folder, ignore_errors=True)


def newest_run() -> dict[str, Any]:
    with engine().connect() as connection:
        return dict(connection.execute(select(runs).order_by(runs.c.started_at.desc())).mappings().first() or {})
