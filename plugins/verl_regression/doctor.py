"""A preflight from asking to storing: what the task of a run, the DAG ``cluster_doctor`` and ``make doctor`` do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import RenderableType

from include.regression.config import Catalogue, ConfigError, RunSpec, draft
from include.regression.preflight import Finding, Need, need_of
from include.regression.report import preflight as report
from include.regression.store import writes
from verl_regression.inspection import inspect


class NotReady(Exception):
    """A cluster has errors; the message holds each with its fix."""

    def __init__(self, cluster: str, errors: Sequence[Finding]) -> None:
        lines = [f"{found.node}: {found.check}: {found.cause}. Fix: {found.fix}" for found in errors]
        super().__init__(f"cluster {cluster} is not ready: " + "\n".join(lines))


def need(cluster: str, suite: str | None = None, release: str | None = None) -> Need:
    """Say what is needed of a cluster, for a suite and release or on its own. Raises ConfigError for a name that does not exist."""
    catalogue = Catalogue()
    if suite:
        return need_of(catalogue.cluster(cluster), draft(catalogue, "doctor", suite, release, cluster))
    if release:
        raise ConfigError("release", release, "means nothing without a suite", "name the suite as well, or leave both out")
    return need_of(catalogue.cluster(cluster))


def examine(wanted: Need, suite: str | None = None, spec: RunSpec | None = None) -> tuple[RenderableType, list[Finding]]:
    """Ask all nodes, judge, store; return the tables and the findings. Raises nothing for a bad cluster: see :func:`refuse`."""
    started_at, began = datetime.now(UTC), time.monotonic()
    observed, findings = inspect(wanted)
    seconds = round(time.monotonic() - began, 1)
    name = wanted.cluster.name
    writes.save_preflight(
        name, started_at, seconds, observed, findings, run=spec.run if spec else None, suite=suite, release=wanted.release
    )
    return report.tables(wanted, observed, findings), findings


def refuse(cluster: str, findings: Sequence[Finding]) -> None:
    """Raise NotReady if there is an error among the findings."""
    errors = [found for found in findings if found.severity == "error"]
    if errors:
        raise NotReady(cluster, errors)
