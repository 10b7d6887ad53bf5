"""Which ports the nodes of a cluster use among themselves, in groups that a firewall opens or closes together."""

from __future__ import annotations

from typing import NamedTuple

from include.regression.config import Cluster

#: Linux' default range of ports that the kernel chooses (ip_local_port_range, ip(7)); torch's rendezvous and gloo take such ones.
CHOSEN_BY_KERNEL = (32768, 60999)
#: NPUs talk to each other on a network of their own; between hosts only this range is used (CANN, HCCL environment variables).
HCCL_RANGE = "HCCL_HOST_SOCKET_PORT_RANGE"


class Group(NamedTuple):
    """Ports that belong together. ``tried`` are those that the preflight connects to, ``opens`` what a firewall must let in."""

    name: str
    tried: tuple[int, ...]
    opens: tuple[str, ...]


def groups(cluster: Cluster, node: str, chosen: int | None) -> list[Group]:
    """List the groups of ports on which the other nodes reach ``node``; ``chosen`` is a listener's that the kernel chose."""
    ports = cluster.ray_ports
    named = ports.of_every_node | (ports.of_head if node == cluster.head.name else {})
    low, high = ports.workers_from, ports.workers_to
    found = [
        Group("Ray's own ports", tuple(sorted(named.values())), tuple(str(port) for port in sorted(named.values()))),
        Group("Ray's worker range", (low, (low + high) // 2, high), (f"{low}-{high}",)),
    ]
    first, _, last = cluster.env.get(HCCL_RANGE, "").partition("-")
    if first.isdigit() and last.isdigit():
        found.append(Group("HCCL's range", (int(first), int(last)), (f"{first}-{last}",)))
    if chosen is not None:
        low, high = CHOSEN_BY_KERNEL
        found.append(Group("ports chosen by the kernel (torch, gloo)", (chosen,), (f"{low}-{high}",)))
    return found


def named_ports(cluster: Cluster, node: str) -> dict[int, str]:
    """Ports that must be free on a node, and the setting each comes from."""
    ports = cluster.ray_ports
    named = {port: f"ray_ports.{name}" for name, port in ports.of_every_node.items()}
    if node == cluster.head.name:
        named |= {port: f"ray_ports.{name}" for name, port in ports.of_head.items()}
        named[cluster.server_port] = "server_port"
    return named
