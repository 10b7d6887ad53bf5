"""Gather what the control plane must know of a node before it uses it. Result: see :func:`gather`."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

from .result import write_result


def gather(pythons: list[str], work_dir: Path, ports: list[int]) -> dict[str, object]:
    """Return the facts as one JSON object.

    ``pythons`` maps each interpreter to its version, null where it does not run; ``free_disk_gb`` is of the file system that
    holds ``work_dir``; ``available_memory_gb`` is MemAvailable of /proc/meminfo; ``ports_in_use`` are those of ``ports`` that
    something listens on.
    """
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "pythons": {python: python_version(python) for python in pythons},
        "available_memory_gb": round(available_memory_gb(), 1),
        "free_disk_gb": round(shutil.disk_usage(nearest_existing(work_dir)).free / 1e9, 1),
        "work_dir_writable": os.access(nearest_existing(work_dir), os.W_OK),
        "ports_in_use": [port for port in ports if in_use(port)],
    }


def python_version(python: str) -> str | None:
    """Ask an interpreter for its version, as "3.11.7"."""
    try:
        command = [python, "-c", "import platform; print(platform.python_version())"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def available_memory_gb() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024 / 1e9
    return 0.0


def nearest_existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def in_use(port: int) -> bool:
    """Tell whether something accepts connections on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", required=True, help="interpreter to look at; repeatable")
    parser.add_argument("--work-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, action="append", default=[])
    arguments = parser.parse_args()
    write_result(gather(arguments.python, arguments.work_dir, arguments.port))


if __name__ == "__main__":
    main()
