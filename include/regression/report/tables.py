"""Releases side by side as tables, for a terminal and for a task's log."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table

from include.regression.report.comparison import Entry, metrics_of, package_differences

STYLES = {"success": "green", "passed": "green", "failed": "red", "regressed": "red", "inconclusive": "yellow"}
BLOCKS = "▁▂▃▄▅▆▇█"
#: Columns of a drawn curve.
CURVE_WIDTH = 24


def state(word: str) -> str:
    """Colour a state or a verdict."""
    style = STYLES.get(word)
    return f"[{style}]{word}[/{style}]" if style else word


def curve(values: Mapping[int, float | None], low: float, high: float) -> str:
    """Draw a metric over its steps between two values; each character is the mean of its share of the steps, a gap is no number."""
    steps = sorted(values)
    width = min(CURVE_WIDTH, len(steps))
    drawn = ""
    for column in range(width):
        share = steps[column * len(steps) // width : (column + 1) * len(steps) // width]
        numbers = [value for step in share if (value := values[step]) is not None]
        if not numbers:
            drawn += " "
            continue
        height = (sum(numbers) / len(numbers) - low) / ((high - low) or 1)
        drawn += BLOCKS[min(len(BLOCKS) - 1, max(0, int(height * len(BLOCKS))))]
    return drawn


def comparison(entries: Sequence[Entry]) -> Group:
    """Runs side by side: state, reward curves on one scale, all metrics, and what their environments differ in."""
    table = Table(title="runs side by side", title_justify="left")
    table.add_column("metric")
    for entry in entries:
        table.add_column(f"{entry.release}\n{entry.run}")
    table.add_row("state", *(state(entry.state) for entry in entries))
    numbers = [value for entry in entries for value in entry.rewards.values() if value is not None]
    if numbers:
        low, high = min(numbers), max(numbers)
        table.add_row(f"reward by step\n({low:.3f} to {high:.3f})", *(curve(entry.rewards, low, high) for entry in entries))
    for metric in metrics_of(entries):
        table.add_row(metric, *(entry.texts.get(metric, "-") for entry in entries))
    differences = Table(title="what the train environments differ in", title_justify="left")
    differences.add_column("package")
    for entry in entries:
        differences.add_column(entry.release)
    for name, versions in package_differences(entries).items():
        differences.add_row(name, *(version or "-" for version in versions))
    return Group(table, differences)


def matrix(table: Mapping[str, Mapping[str, str | None]]) -> Group:
    """Suites x releases: what applies, and the reasons why the rest does not."""
    reasons: list[str] = []
    suites, releases = list(table), list(next(iter(table.values()), {}))
    grid = Table(title="what applies (a number is the reason why not, below)", title_justify="left")
    for column in ("release", *suites):
        grid.add_column(column)
    for release in releases:
        cells = []
        for suite in suites:
            reason = table[suite][release]
            if reason is not None and reason not in reasons:
                reasons.append(reason)
            cells.append("[green]yes[/green]" if reason is None else f"not applicable ({reasons.index(reason) + 1})")
        grid.add_row(release, *cells)
    return Group(grid, *(f"({number}) {reason}" for number, reason in enumerate(reasons, 1)))


def as_text(what: RenderableType, width: int = 150) -> str:
    """Render for a log file."""
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(what)
    return str(console.file.getvalue())  # type: ignore[attr-defined]
