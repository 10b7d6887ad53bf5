"""Releases of one suite side by side: rewards, throughput, time per step, accuracies, and what their environments differ in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from include.regression.config.errors import unknown
from include.regression.store import queries


@dataclass(frozen=True)
class Entry:
    """The newest judged run of one release. ``numbers`` are its verdicts' numbers by metric; ``packages`` its train environment."""

    release: str
    run: str
    state: str
    texts: dict[str, str]
    numbers: dict[str, dict[str, float | None]]
    packages: dict[str, str]


def compare(suite: str, releases: Sequence[str] = ()) -> list[Entry]:
    """Collect the newest judged run of each release (all of them if none is named), in the order in which they are named.

    Raises ConfigError for a release that has no judged run of this suite.
    """
    found = {row["release"]: row for row in queries.newest_judged_runs(suite)}
    for release in releases:
        if release not in found:
            raise unknown("release", release, found, where=f"judged runs of suite {suite}")
    return [_entry(found[release]) for release in (releases or found)]


def _entry(run: dict[str, Any]) -> Entry:
    judged = queries.verdicts_of(run["run"])
    environment = run["environment"] or {}
    return Entry(
        release=run["release"],
        run=run["run"],
        state=run["state"],
        texts={row["metric"]: row["text"] for row in judged},
        numbers={row["metric"]: row["numbers"] for row in judged},
        packages=environment.get("train", {}).get("packages", {}),
    )


def metrics_of(entries: Sequence[Entry]) -> list[str]:
    """List all metrics, in the order in which they were judged."""
    return list(dict.fromkeys(metric for entry in entries for metric in entry.texts))


def package_differences(entries: Sequence[Entry]) -> dict[str, list[str | None]]:
    """Map each package whose version is not the same everywhere to its versions, None where it is not installed."""
    names = sorted({name for entry in entries for name in entry.packages})
    versions = {name: [entry.packages.get(name) for entry in entries] for name in names}
    return {name: found for name, found in versions.items() if len(set(found)) > 1}
