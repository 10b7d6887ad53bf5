"""Start the Ray head of a run and prove that it has what the training will ask for.

Runs in the training environment, whose ``ray`` it uses. The head stays as a process of its own, tagged (see
:mod:`node.processes`); a fresh token is written to a file that only this user can read. Result: nodes, resources, seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from pathlib import Path

from . import processes
from .ports import in_use
from .result import stop_with, write_result


def start(arguments: argparse.Namespace) -> int:
    """Start ``ray start --head --block`` in a session of its own; returns its pid."""
    home = os.environ[processes.HOME]
    processes.stop(home, arguments.job)
    for port in arguments.port:
        if in_use(port):
            stop_with(f"port {port} is in use on this node; free it, or change ray_ports in the cluster file")
    token_file = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    token_file.parent.mkdir(parents=True, exist_ok=True)
    token_file.touch(mode=0o600)
    token_file.write_text(secrets.token_hex(32))
    print("$", " ".join(arguments.command), flush=True)
    return processes.start(arguments.command, arguments.log, {processes.JOB: arguments.job})


def count(address: str, timeout_s: float, pid: int, log: Path) -> dict[str, object]:
    """Join the cluster as a driver, count what it offers and run one task on it."""
    import ray

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            break
        except ConnectionError as error:
            if os.waitpid(pid, os.WNOHANG)[0] or time.monotonic() > deadline:
                stop_with(f"the Ray head at {address} is not up ({error}):\n{processes.tail(log)}")
            time.sleep(0.5)
    ran_on = ray.get(ray.remote(num_cpus=0)(lambda: os.getpid()).remote(), timeout=timeout_s)
    print(f"a task ran in process {ran_on}")
    nodes = [
        {"address": node["NodeManagerAddress"], "alive": node["Alive"], "resources": node["Resources"]} for node in ray.nodes()
    ]
    return {"nodes": nodes, "resources": ray.cluster_resources()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True)
    parser.add_argument("--address", required=True, help="HOST:PORT of the head")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--require", type=json.loads, required=True, help="JSON: resource to the least amount needed")
    parser.add_argument("--port", type=int, action="append", default=[], help="port that must be free; repeatable")
    parser.add_argument("command", nargs="+", help="the head's command line, after --")
    arguments = parser.parse_args()
    began = time.monotonic()
    pid = start(arguments)
    try:
        found = count(arguments.address, arguments.timeout, pid, arguments.log)
        resources = found["resources"]
        assert isinstance(resources, dict)
        for resource, least in arguments.require.items():
            if resources.get(resource, 0) < least:
                stop_with(f"Ray offers {resource} = {resources.get(resource, 0)}, the run needs {least}; see the cluster file")
    except BaseException:
        processes.stop(os.environ[processes.HOME], arguments.job)
        raise
    print(f"Ray is up with {json.dumps(resources)}", file=sys.stdout)
    write_result({**found, "pid": pid, "seconds": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
