"""Start the inference server and wait until it serves the right model at the right length.

The server runs on as a process of its own (tagged, see :mod:`node.processes`); this script ends when it is ready. Ready means:
/health answers 200 and /v1/models shows the expected name, folder and max_model_len. Result: pid, seconds until ready, what
/v1/models said.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from . import processes
from .ports import in_use
from .result import stop_with, write_result

POLL_S = 0.5


def get(url: str) -> tuple[int, bytes]:
    """GET without a proxy; (0, b"") if nothing answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def served_model(port: int) -> dict[str, Any] | None:
    """Return the first entry of /v1/models, or None while the server is not ready."""
    if get(f"http://127.0.0.1:{port}/health")[0] != 200:
        return None
    status, body = get(f"http://127.0.0.1:{port}/v1/models")
    models = json.loads(body).get("data", []) if status == 200 else []
    return models[0] if models else None


def mismatch(model: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Name the first of id, root and max_model_len in which the server differs from what was asked for."""
    for key, value in expected.items():
        if model.get(key) != value:
            return f"the server's {key} is {model.get(key)!r}, expected {value!r}"
    return None


def wait_until_ready(pid: int, port: int, log: Path, timeout_s: float) -> dict[str, Any]:
    """Poll until the server is ready; stop with its log's tail if it dies or is too slow."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        model = served_model(port)
        if model is not None:
            return model
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            stop_with(f"the server ended with {os.waitstatus_to_exitcode(status)} before it was ready:\n{processes.tail(log)}")
        time.sleep(POLL_S)
    stop_with(f"the server was not ready after {timeout_s:.0f} s (serving.ready_timeout_s):\n{processes.tail(log)}")
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="tag of the server's processes, RUN/server-MODEL")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--timeout", type=float, required=True, help="seconds until it must be ready")
    parser.add_argument("--expect", type=json.loads, required=True, help="JSON: id, root and max_model_len it must show")
    parser.add_argument("command", nargs="+", help="the server's command line, after --")
    arguments = parser.parse_args()
    home = os.environ[processes.HOME]
    leftover = processes.stop(home, arguments.job)
    if leftover["found"]:
        print(f"stopped {len(leftover['found'])} processes that an earlier attempt of this task had left")
    if in_use(arguments.port):
        stop_with(f"port {arguments.port} is in use on this node; free it, or set server_port in the cluster file")
    began = time.monotonic()
    print("$", " ".join(arguments.command), flush=True)
    pid = processes.start(arguments.command, arguments.log, {processes.JOB: arguments.job})
    try:
        model = wait_until_ready(pid, arguments.port, arguments.log, arguments.timeout)
        fault = mismatch(model, arguments.expect)
        if fault:
            stop_with(f"{fault}; an evaluation against it would measure something else")
    except BaseException:
        processes.stop(home, arguments.job)
        raise
    seconds = round(time.monotonic() - began, 1)
    print(f"ready after {seconds} s: {model['id']}, max_model_len {model['max_model_len']}, {model['root']}")
    write_result({"pid": pid, "ready_after_s": seconds, "served": model})


if __name__ == "__main__":
    main()
