"""Whether a port is taken."""

from __future__ import annotations

import socket


def in_use(port: int, address: str = "127.0.0.1") -> bool:
    """Tell whether something accepts connections on a port of this node's ``address``."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0
