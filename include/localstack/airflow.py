"""Airflow as ``airflow standalone``, in a session of its own: it leaves its children behind if only itself is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from include.localstack.settings import LOGIN, ROOT, STACK_TAG, Settings, StackError, listening, write_private
from include.node import processes

READY_TIMEOUT_S = 180
COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class Api:
    """Airflow's REST API with the demo login."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{settings.port}", timeout=30, trust_env=False)
        self._logged_in = False

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("POST", path, body)

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("PATCH", path, body)

    def health(self) -> dict[str, str]:
        """Return component -> status; empty while nothing answers."""
        try:
            found = self.client.get("/api/v2/monitor/health").json()
        except (httpx.HTTPError, ValueError):
            return {}
        return {name: str((found.get(name) or {}).get("status")) for name in COMPONENTS}

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        if not self._logged_in:
            login = {"username": LOGIN, "password": self.settings.password()}
            token = self.client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            self.client.headers["Authorization"] = f"Bearer {token}"
            self._logged_in = True
        answer = self.client.request(method, f"/api/v2{path}", json=body)
        if answer.is_error:
            raise StackError(f"Airflow refused {method} {path} ({answer.status_code}): {answer.text[:2000]}")
        return answer.json()


def check_port(settings: Settings) -> None:
    """Raise StackError if something else listens where Airflow shall."""
    if listening(settings.port):
        raise StackError(
            f"VERL_REGRESSION_PORT = {settings.port}: the port is in use. Fix: end what uses it (`ss -ltnp` names it), or choose "
            "another: VERL_REGRESSION_PORT=8081 make demo"
        )


def start(settings: Settings, environment: dict[str, str]) -> None:
    """Start Airflow and wait until it is healthy. Raises StackError if it does not get there."""
    settings.password()
    _write_shim(settings)
    with settings.airflow_log.open("ab") as log:
        process = subprocess.Popen(
            ["airflow", "standalone"],
            executable=str(settings.state / "bin" / "airflow"),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    write_private(settings.state / "airflow.pid", str(process.pid))
    api = Api(settings)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while set(api.health().values()) != {"healthy"}:
        if process.poll() is not None or time.monotonic() > deadline:
            raise StackError(
                f"Airflow did not become healthy ({api.health()}); the end of {settings.airflow_log}:\n"
                + processes.tail(settings.airflow_log, 30)
            )
        time.sleep(0.5)


def running(settings: Settings) -> int | None:
    """Return the pid of our ``airflow standalone``, or None. A pid that another program got since does not count."""
    try:
        pid = int((settings.state / "airflow.pid").read_text())
    except (OSError, ValueError):
        return None
    return pid if processes.environment_of(pid).get(STACK_TAG) == settings.tag("airflow") else None


def stop(settings: Settings, grace_s: float = 20) -> None:
    """Stop Airflow's session: TERM to the group, then KILL, then whatever of it is left elsewhere."""
    pid = running(settings)
    if pid is not None:
        os.killpg(pid, signal.SIGTERM)

    def ours() -> list[int]:
        return processes.where(lambda environment: environment.get(STACK_TAG) == settings.tag("airflow"))

    processes.stop_all(ours, grace_s)
    (settings.state / "airflow.pid").unlink(missing_ok=True)


def _write_shim(settings: Settings) -> None:
    """Put an ``airflow`` before the real one that starts scheduler and triggerer without their log servers.

    Those listen on every interface and have no setting for it (airflow/utils/serve_logs/core.py: host=""). On one machine the UI
    reads the log files themselves. ``airflow standalone`` finds its components by name on PATH, and so finds this one.
    """
    real = Path(sys.executable).parent / "airflow"
    shim = settings.state / "bin" / "airflow"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(f'#!/bin/sh\ncase "$1" in scheduler | triggerer) set -- "$@" --skip-serve-logs ;; esac\nexec "{real}" "$@"\n')
    shim.chmod(0o755)
