"""What the nodes must agree on: clock, versions, and the work folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from include.regression.config import Node
from include.regression.preflight.findings import Finding, Severity, error
from include.regression.preflight.need import Need
from include.regression.preflight.node_checks import CLOCK_LIMIT_S
from include.regression.preflight.observed import NodeFacts, Observed

Asked = Sequence[tuple[Node, Observed, NodeFacts]]


def check_together(need: Need, asked: Asked) -> Iterator[Finding]:
    """Yield where nodes that answered differ."""
    yield from _clocks(asked)
    yield from _versions(need, asked)
    if len(asked) > 1:
        yield from _shared(need, asked)


def _clocks(asked: Asked) -> Iterator[Finding]:
    """The middle of all clocks, the control plane's among them, is taken for right."""
    if not asked:
        return
    right = median([0.0, *(seen.clock_s for _, seen, _ in asked)])
    fix = "`timedatectl set-ntp true` on the node (or `chronyc makestep`); its clock must be kept by NTP"
    for node, seen, _ in asked:
        off = seen.clock_s - right
        if abs(off) - seen.clock_error_s > CLOCK_LIMIT_S:
            cause = f"its clock is {abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} the others (allowed: {CLOCK_LIMIT_S:g} s)"
            yield error(node.name, "clock", cause, fix)
    if abs(right) > CLOCK_LIMIT_S:
        cause = (
            f"the clock of the machine that runs Airflow is {abs(right):.1f} s {'behind' if right > 0 else 'ahead of'} the nodes'"
        )
        yield error("control plane", "clock", cause, fix.replace("on the node", "on the machine that runs Airflow"))


def _versions(need: Need, asked: Asked) -> Iterator[Finding]:
    for python in need.pythons:
        fix = f"install the same Python on all nodes, or name one that they share in {need.where}"
        yield from _differ(asked, "python", f"{python} is Python", lambda facts, p=python: facts.pythons.get(p), "error", fix)  # type: ignore[misc]
    for name, folder in need.environments.items():
        fix = f"remove {folder} on this node: the next run builds it anew from the lock"

        def python_of(facts: NodeFacts, folder: str = folder) -> str | None:
            environment = facts.environments.get(folder)
            return environment.python if environment else None

        yield from _differ(asked, "python", f"the {name} environment has Python", python_of, "error", fix)
        packages = sorted({key for _, _, facts in asked if (e := facts.environments.get(folder)) for key in e.packages})
        for package in packages:

            def version_of(facts: NodeFacts, folder: str = folder, package: str = package) -> str | None:
                environment = facts.environments.get(folder)
                return environment.packages.get(package, "none") if environment else None

            yield from _differ(asked, package, f"the {name} environment has {package}", version_of, "error", fix)
    yield from _differ(asked, "architecture", "is", lambda facts: facts.machine, "error", "use nodes of one architecture")
    same = "set up the nodes alike; seldom the cause of a fault, but numbers may differ"
    yield from _differ(asked, "os", "runs", lambda facts: facts.os, "note", same)
    yield from _differ(asked, "kernel", "runs kernel", lambda facts: facts.kernel, "note", same)
    for part in ("driver", "firmware", "cann"):
        fix = f"install the same {part} on all nodes"
        yield from _differ(asked, part, f"has {part}", lambda facts, p=part: facts.software.get(p), "error", fix)  # type: ignore[misc]


def _differ(
    asked: Asked, check: str, what: str, value_of: Callable[[NodeFacts], str | None], severity: Severity, fix: str
) -> Iterator[Finding]:
    """Name the nodes that differ from what most have (the head's, if there is no most)."""
    values = [(node, value) for node, _, facts in asked if (value := value_of(facts)) is not None]
    counts = Counter(value for _, value in values)
    if len(counts) < 2:
        return
    most = max(counts.values())
    usual = next(value for _, value in values if counts[value] == most)
    example = next(node.name for node, value in values if value == usual)
    for node, value in values:
        if value != usual:
            yield Finding(node.name, check, severity, f"{what} {value}; {example} and most others: {usual}", fix)


def _shared(need: Need, asked: Asked) -> Iterator[Finding]:
    """Every node must see the markers of all; the head's view is the right one."""
    folder = need.cluster.work_dir
    head, seen_by_head = asked[0][0], set(asked[0][1].seen)
    for node, seen, _ in asked[1:]:
        if asked[0][1].marked and seen.marked and (node.name not in seen_by_head or head.name not in seen.seen):
            yield error(
                node.name,
                "shared folder",
                f"work_dir {folder} is not shared: {node.name} and {head.name} do not see each other's files there",
                f"mount on {node.name} what {head.name} has there (`findmnt -T {folder}` on both), or choose a shared work_dir",
            )
