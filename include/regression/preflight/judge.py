"""From what was observed to findings, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from include.regression.preflight.device_checks import check_devices
from include.regression.preflight.findings import SEVERITIES, Finding, error
from include.regression.preflight.need import Need
from include.regression.preflight.network_checks import check_network
from include.regression.preflight.node_checks import check_node, unreachable
from include.regression.preflight.observed import Observed
from include.regression.preflight.pair_checks import check_together


def judge(need: Need, observed: Sequence[Observed]) -> list[Finding]:
    """Judge a cluster. ``observed`` holds every node once, in the order of the cluster file.

    A node that could not be asked has that one finding; it is left out of what the nodes are compared in.
    """
    findings = list(_findings(need, observed))
    order = {node.name: number for number, node in enumerate(need.cluster.nodes)}
    return sorted(findings, key=lambda found: (SEVERITIES.index(found.severity), order.get(found.node, -1)))


def _findings(need: Need, observed: Sequence[Observed]) -> Iterator[Finding]:
    asked = []
    for node, seen in zip(need.cluster.nodes, observed, strict=True):
        if seen.fault:
            yield unreachable(node, seen.fault)
        elif seen.facts:
            asked.append((node, seen, seen.facts))
            yield from check_node(need, node, seen.facts)
            yield from check_devices(need, node, seen.facts)
    yield from check_together(need, asked)
    yield from check_network(need, asked)
    cluster = need.cluster
    total = cluster.logical_cpus * len(cluster.nodes)
    if total < need.logical_cpus:
        each = -(-need.logical_cpus // len(cluster.nodes))
        yield error(
            cluster.head.name,
            "cpus",
            f"Ray is told {total} logical CPUs, verl's actors reserve {need.logical_cpus} for {cluster.devices} devices: "
            "they would wait in silence for ever",
            f"set logical_cpus in {need.where} to {each} or more",
        )
