"""What a preflight found, as a table per node."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from include.regression.preflight import Finding, Need, NodeFacts, Observed

STYLES = {"error": "red", "warning": "yellow", "note": "blue"}


def tables(need: Need, observed: Sequence[Observed], findings: Sequence[Finding]) -> Group:
    """Make a table per node, in the cluster file's order: what it is, and its findings with cause and fix."""
    titles = {seen.node: _title(need, seen) for seen in observed}
    # A finding may also be the control plane's own, as a wrong clock.
    titles |= {found.node: found.node for found in findings if found.node not in titles}
    return Group(*(_node(title, [found for found in findings if found.node == node]) for node, title in titles.items()))


def summary(findings: Sequence[Finding]) -> str:
    """Count the findings: "1 error, 2 warnings"; and say how it stands."""
    counts = {severity: sum(found.severity == severity for found in findings) for severity in STYLES}
    said = ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items() if count)
    return f"{said}: {'not ready' if counts['error'] else 'ready'}" if said else "no findings: ready"


def _title(need: Need, seen: Observed) -> str:
    address = next(node.address for node in need.cluster.nodes if node.name == seen.node)
    return f"{seen.node}  {address}  {_what(seen.facts) if seen.facts else 'could not be asked'}"


def _node(title: str, findings: Sequence[Finding]) -> Table | Text:
    if not findings:
        return Text.from_markup(f"{escape(title)}\n  [green]ok[/green]")
    table = Table(title=escape(title), title_justify="left", show_lines=True)
    for column in ("severity", "check", "cause", "fix"):
        table.add_column(column, overflow="fold")
    for found in findings:
        style = STYLES[found.severity]
        table.add_row(f"[{style}]{found.severity}[/{style}]", found.check, escape(found.cause), escape(found.fix))
    return table


def _what(facts: NodeFacts) -> str:
    parts = [f"{facts.user}@{facts.host}", facts.os, facts.machine, f"kernel {facts.kernel}", f"{facts.cpus} CPUs"]
    parts.append(f"{facts.available_memory_gb:g} of {facts.memory_gb:g} GB memory")
    parts.append(f"{facts.disk.free_gb:g} GB disk free")
    parts += [f"Python {version}" for version in sorted({version for version in facts.pythons.values() if version})]
    parts += [f"{name} {version}" for name, version in sorted(facts.software.items())]
    return ", ".join(parts)
