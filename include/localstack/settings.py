"""Where the stack on this machine keeps its state, and the environment its parts run in."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The user's setting: where the state lies.
STATE_VARIABLE = "VERL_REGRESSION_STATE"
#: Set for what the stack starts and by nobody else: "STATE#PART", so that `make down` finds it and never a shell of the user's.
STACK_TAG = "VERL_REGRESSION_STACK"
LOGIN = "admin"
NODE_CONNECTION = "laptop_node"
#: Gigabytes that the demo needs free; measured, see README.
DISK_GB = 12


class StackError(Exception):
    """The stack cannot be started; the message names field, value and fix."""


@dataclass(frozen=True)
class Settings:
    """Paths below one state folder, and the address of Airflow's UI."""

    state: Path
    port: int

    @classmethod
    def from_environment(cls) -> Settings:
        """Read VERL_REGRESSION_STATE (default: .state) and VERL_REGRESSION_PORT (default: 8080)."""
        state = Path(os.environ.get(STATE_VARIABLE) or ROOT / ".state").resolve()
        port = os.environ.get("VERL_REGRESSION_PORT", "8080")
        if not port.isdigit() or not 1024 <= int(port) <= 65535:
            raise StackError(f"VERL_REGRESSION_PORT = {port!r}: not a port. Fix: set it to a number from 1024 to 65535.")
        return cls(state, int(port))

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def tag(self, part: str) -> str:
        """Value of STACK_TAG for ``airflow`` or ``node``."""
        return f"{self.state}#{part}"

    @property
    def node(self) -> Path:
        return self.state / "node"

    @property
    def work_dir(self) -> Path:
        """The demo node's work folder."""
        return self.node / "work"

    @property
    def airflow_home(self) -> Path:
        return self.state / "airflow"

    @property
    def airflow_log(self) -> Path:
        return self.state / "airflow.log"

    @property
    def node_log(self) -> Path:
        return self.node / "node.log"

    @property
    def password_file(self) -> Path:
        return self.airflow_home / "simple_auth_manager_passwords.json.generated"

    def password(self) -> str:
        """Return the demo login's password, made once, readable by this user alone."""
        if not self.password_file.exists():
            write_private(self.password_file, json.dumps({LOGIN: secrets.token_urlsafe(9)}))
        return str(json.loads(self.password_file.read_text())[LOGIN])


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(text)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def airflow_environment(settings: Settings, airflow_db: str, results_db: str, connection: str) -> dict[str, str]:
    """Build the environment of Airflow: configuration, databases, the node's connection, and nothing listening beyond loopback."""
    variables = {
        STACK_TAG: settings.tag("airflow"),
        # Airflow's components set their process titles, which would overwrite the environment block that holds the tag.
        "SPT_NOENV": "1",
        "VERL_REGRESSION_DB": results_db,
        "VERL_REGRESSION_WORK_DIR": str(settings.work_dir),
        "VERL_REGRESSION_PYTHON": os.environ.get("VERL_REGRESSION_PYTHON") or _base_python(),
        f"AIRFLOW_CONN_{NODE_CONNECTION.upper()}": connection,
        "AIRFLOW_HOME": str(settings.airflow_home),
        # The folder before the venv's holds the shim that keeps Airflow's log servers off (see airflow.py).
        "PATH": f"{settings.state / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "5",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{settings.port}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": airflow_db,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(settings.port),
        "AIRFLOW__API__BASE_URL": settings.url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "60",
        "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "asyncssh=WARNING paramiko=WARNING httpx=WARNING",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PYTHON"))}
    return {**inherited, **variables, "PYTHONUNBUFFERED": "1"}


def _base_python() -> str:
    """The interpreter that this venv was made from: the node is this machine."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
