"""Who reaches whom, on which ports, and which nodes see the same work folder.

Sent over SSH and run from standard input, like probe.py. ``listen`` opens short-lived listeners and leaves a marker, an empty file,
in the work folder, until its standard input ends: neither outlives the SSH connection. ``connect`` tries all targets at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import sys
from typing import Any

MARK = "VERL-REGRESSION-REACH"
TIMEOUT_S = 2.0
AT_ONCE = 400


def listen(question: dict[str, Any]) -> None:
    """Listen on ``address``: on all of ``ports`` that are free, and on one that the kernel chooses; print which.

    A port in use needs no listener: what holds it takes connections as well.
    """
    held = []
    for port in [*question["ports"], 0]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((question["address"], port))
            listener.listen(512)
            held.append(listener)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    marker = os.path.join(question["work_dir"], f".preflight-{question['token']}-{question['node']}")
    try:
        with contextlib.suppress(OSError):
            os.makedirs(question["work_dir"], exist_ok=True)
            open(marker, "w").close()
        print(f"\n{MARK}\n{json.dumps({'chosen': held[-1].getsockname()[1], 'marked': os.path.exists(marker)})}", flush=True)
        sys.stdin.buffer.read()
    finally:
        with contextlib.suppress(OSError):
            os.remove(marker)


async def attempt(address: str, port: int) -> str:
    """Connect once: ok, refused (nobody listens, or a firewall that answers), timeout (one that drops), unreachable (no route)."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), TIMEOUT_S)
        writer.close()
        return "ok"
    except (asyncio.TimeoutError, TimeoutError):  # noqa: UP041 - two classes before Python 3.11
        return "timeout"
    except ConnectionError:
        return "refused"
    except OSError:
        return "unreachable"


async def connect(question: dict[str, Any]) -> dict[str, Any]:
    """Try every port of every target, {name: {address, ports}}; say which of the others' markers are seen in the work folder."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(address: str, port: int) -> str:
        async with gate:
            return await attempt(address, port)

    tried = [(name, target["address"], port) for name, target in question["targets"].items() for port in target["ports"]]
    results = await asyncio.gather(*(one(address, port) for _, address, port in tried))
    links: dict[str, dict[str, str]] = {name: {} for name in question["targets"]}
    for (name, _, port), result in zip(tried, results):  # noqa: B905 - strict= came with Python 3.10
        links[name][str(port)] = result
    begins = f".preflight-{question['token']}-"
    try:
        seen = [name[len(begins) :] for name in os.listdir(question["work_dir"]) if name.startswith(begins)]
    except OSError:
        seen = []
    return {"links": links, "seen": sorted(seen)}


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    if sys.argv[1] == "listen":
        listen(asked)
    else:
        print(f"\n{MARK}\n{json.dumps(asyncio.run(connect(asked)))}", flush=True)
