"""Start Ray on a node, as the head of a run's cluster or as one of its workers.

Runs in the training environment, whose ``ray`` it uses. Ray stays as a process of its own, tagged (see :mod:`node.processes`).
With ``--token`` (the head's), a fresh token is written to a file that only this user can read. Result: pid, seconds.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from pathlib import Path

from . import processes
from .ports import in_use
from .result import stop_with, write_result


def start(arguments: argparse.Namespace) -> int:
    """Start ``ray start --block`` in a session of its own; returns its pid."""
    processes.stop(os.environ[processes.HOME], arguments.job)
    for port in arguments.port:
        if in_use(port, arguments.address):
            stop_with(f"port {port} is in use on this node; free it, or change ray_ports in the cluster file")
    if arguments.token:
        token_file = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        token_file.parent.mkdir(parents=True, exist_ok=True)
        token_file.touch(mode=0o600)
        token_file.write_text(secrets.token_hex(32))
    print("$", " ".join(arguments.command), flush=True)
    return processes.start(arguments.command, arguments.log, {processes.JOB: arguments.job})


def wait(arguments: argparse.Namespace, pid: int) -> None:
    """Wait until Ray listens on the ports that show that it is up."""
    deadline = time.monotonic() + arguments.timeout
    while not all(in_use(port, arguments.address) for port in arguments.ready):
        if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > deadline:
            stop_with(f"Ray does not listen on {arguments.address} after {arguments.timeout:g} s:\n{processes.tail(arguments.log)}")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True)
    parser.add_argument("--address", required=True, help="this node's")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--token", action="store_true", help="make a new token: this node is the head")
    parser.add_argument("--port", type=int, action="append", default=[], help="port that must be free; repeatable")
    parser.add_argument("--ready", type=int, action="append", default=[], help="port that Ray listens on once it is up; repeatable")
    parser.add_argument("command", nargs="+", help="Ray's command line, after --")
    arguments = parser.parse_args()
    began = time.monotonic()
    pid = start(arguments)
    try:
        wait(arguments, pid)
    except BaseException:
        processes.stop(os.environ[processes.HOME], arguments.job)
        raise
    print(f"Ray is up at {arguments.address}, process {pid}")
    write_result({"pid": pid, "seconds": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
