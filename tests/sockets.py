"""What processes listen on, from proc(5): net/tcp and net/tcp6, state 0A."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: 127.0.0.1, ::ffff:127.0.0.1 and ::1, as the kernel writes them.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def listening(pids: Iterable[int]) -> tuple[list[str], list[str]]:
    """List the sockets that these processes listen on, and those of them that are not on loopback only."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    lines = [line for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    found = [fields[1] for fields in map(str.split, lines) if fields[3] == "0A" and fields[9] in inodes]
    return found, [address for address in found if address.split(":")[0] not in LOOPBACK]
