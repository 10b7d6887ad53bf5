"""Releases of one suite side by side: rewards, throughput, time per step, accuracies, and what their environments differ in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from include.regression.config.errors import unknown
from include.regression.config.metrics import REWARD
from include.regression.store import queries


@dataclass(frozen=True)
class Entry:
    """The newest judged run of one release.

    ``numbers`` are its verdicts' numbers by metric, ``rewards`` maps steps to the mean reward, ``packages`` and ``sources`` (name
    -> commit) are its train environment.
    """

    release: str
    run: str
    state: str
    texts: dict[str, str]
    numbers: dict[str, dict[str, float | None]]
    rewards: dict[int, float | None]
    packages: dict[str, str]
    sources: dict[str, str]


def compare(suite: str, releases: Sequence[str] = ()) -> list[Entry]:
    """Collect the newest judged run of each release (all of them if none is named), in the order in which they are named.

    Raises ConfigError for a release that has no judged run of this suite.
    """
    found = {row["release"]: row for row in queries.newest_judged_runs(suite)}
    for release in releases:
        if release not in found:
            raise unknown("release", release, found, where=f"judged runs of suite {suite}")
    return [_entry(found[release]) for release in (releases or found)]


def baseline_of(suite: str, release: str) -> Entry:
    """Return the newest judged run of the release that another run is compared with. Raises ConfigError if it has none."""
    found = {row["release"]: row for row in queries.newest_judged_runs(suite)}
    if release not in found:
        raise unknown("baseline", release, found, where=f"judged runs of suite {suite}")
    return _entry(found[release])


def entry_of(dag_id: str, dag_run_id: str) -> Entry:
    """Return the entry of one run."""
    run = queries.run_of(dag_id, dag_run_id)
    assert run is not None, f"{dag_run_id} was never resolved"
    return _entry(run)


def _entry(run: dict[str, Any]) -> Entry:
    judged = queries.verdicts_of(run["run"])
    train = (run["environment"] or {}).get("train", {})
    return Entry(
        release=run["release"],
        run=run["run"],
        state=run["state"],
        texts={row["metric"]: row["text"] for row in judged},
        numbers={row["metric"]: row["numbers"] for row in judged},
        rewards=queries.train_metrics_of(run["run"], [REWARD]).get(REWARD, {}),
        packages=train.get("packages", {}),
        sources=train.get("sources", {}),
    )


def metrics_of(entries: Sequence[Entry]) -> list[str]:
    """List all metrics, in the order in which they were judged."""
    return list(dict.fromkeys(metric for entry in entries for metric in entry.texts))


def package_differences(entries: Sequence[Entry]) -> dict[str, list[str | None]]:
    """Map each package (or source) whose version (commit) differs to its versions, None where it is not installed."""
    installed = [{**entry.packages, **{f"{name} (commit)": at[:12] for name, at in entry.sources.items()}} for entry in entries]
    names = sorted({name for packages in installed for name in packages})
    versions = {name: [packages.get(name) for packages in installed] for name in names}
    return {name: found for name, found in versions.items() if len(set(found)) > 1}
