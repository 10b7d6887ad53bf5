"""Reading results."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Float, Integer, cast, func, select

from include.regression.store.engine import engine
from include.regression.store.tables import evaluation_items, evaluation_repeats, runs, stages, train_metrics, verdicts

Row = dict[str, Any]


def run_of(dag_id: str, dag_run_id: str) -> Row | None:
    """Return the run of an Airflow DAG run, or None if it never got as far as being resolved."""
    statement = select(runs).where(runs.c.dag_id == dag_id, runs.c.dag_run_id == dag_run_id)
    with engine().connect() as connection:
        row = connection.execute(statement).mappings().first()
    return dict(row) if row else None


def newest_judged_runs(suite: str) -> list[Row]:
    """List the newest judged run of each release of a suite, oldest run first."""
    newest = select(runs).where(runs.c.suite == suite, runs.c.verdict.is_not(None)).distinct(runs.c.release)
    with engine().connect() as connection:
        found = connection.execute(newest.order_by(runs.c.release, runs.c.started_at.desc())).mappings()
        return sorted((dict(row) for row in found), key=lambda row: row["started_at"])


def stages_of(run: str) -> list[Row]:
    """List all task attempts of a run in the order in which they began."""
    statement = select(stages).where(stages.c.run == run).order_by(stages.c.started_at, stages.c.task, stages.c.map_index)
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def newest_attempts(run: str) -> list[Row]:
    """List the newest attempt of each task of a run, in the order in which they began."""
    newest: dict[tuple[str, int], Row] = {}
    for row in stages_of(run):
        key = (row["task"], row["map_index"])
        if key not in newest or row["attempt"] > newest[key]["attempt"]:
            newest[key] = row
    return list(newest.values())


def train_metrics_of(run: str, keys: list[str]) -> dict[str, dict[int, float | None]]:
    """Return key -> step -> value of the newest training attempt."""
    newest = select(func.max(train_metrics.c.attempt)).where(train_metrics.c.run == run).scalar_subquery()
    columns = (train_metrics.c.key, train_metrics.c.step, train_metrics.c.value)
    wanted = (train_metrics.c.run == run, train_metrics.c.attempt == newest, train_metrics.c.key.in_(keys))
    found: dict[str, dict[int, float | None]] = defaultdict(dict)
    with engine().connect() as connection:
        for key, step, value in connection.execute(select(*columns).where(*wanted).order_by(train_metrics.c.step)):
            found[key][step] = value
    return dict(found)


def repeats_of(run: str, model: str) -> list[Row]:
    """List the attempts at the repeats of a run's ``base`` or ``trained`` model."""
    table = evaluation_repeats
    statement = select(table).where(table.c.run == run, table.c.model == model)
    with engine().connect() as connection:
        ordered = statement.order_by(table.c.dataset, table.c.repeat, table.c.attempt)
        return [dict(row) for row in connection.execute(ordered).mappings()]


def shares_of(run: str, model: str) -> dict[str, dict[str, float]]:
    """Return data set -> question (prompt_id) -> share of valid repeats answered rightly.

    Of several attempts at a repeat, the newest valid one counts.
    """
    item, repeat = evaluation_items, evaluation_repeats
    newest = (
        select(repeat.c.dataset, repeat.c.repeat, func.max(repeat.c.attempt).label("attempt"))
        .where(repeat.c.run == run, repeat.c.model == model, repeat.c.valid)
        .group_by(repeat.c.dataset, repeat.c.repeat)
        .subquery()
    )
    share = func.avg(cast(cast(item.c.correct, Integer), Float))
    statement = (
        select(item.c.dataset, item.c.prompt_id, share)
        .join(
            newest,
            (item.c.dataset == newest.c.dataset) & (item.c.repeat == newest.c.repeat) & (item.c.attempt == newest.c.attempt),
        )
        .where(item.c.run == run, item.c.model == model)
        .group_by(item.c.dataset, item.c.prompt_id)
    )
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with engine().connect() as connection:
        for dataset, prompt_id, value in connection.execute(statement):
            found[dataset][prompt_id] = float(value)
    return dict(found)


def evaluated_base(fingerprint: str, repeats: int, datasets: list[str]) -> str | None:
    """Return the newest run that holds a complete base-model evaluation of this fingerprint, or None."""
    repeat = evaluation_repeats
    complete = (
        select(repeat.c.run, repeat.c.dataset)
        .where(repeat.c.model == "base", repeat.c.valid, repeat.c.repeat <= repeats)
        .group_by(repeat.c.run, repeat.c.dataset)
        .having(func.count(repeat.c.repeat.distinct()) >= repeats)
        .subquery()
    )
    statement = (
        select(runs.c.run)
        .join(complete, complete.c.run == runs.c.run)
        .where(runs.c.base_fingerprint == fingerprint, runs.c.base_run == runs.c.run, complete.c.dataset.in_(datasets))
        .group_by(runs.c.run, runs.c.started_at)
        .having(func.count() == len(datasets))
        .order_by(runs.c.started_at.desc())
    )
    with engine().connect() as connection:
        return connection.execute(statement).scalars().first()


def verdicts_of(run: str) -> list[Row]:
    """List what was judged, in order."""
    statement = select(verdicts).where(verdicts.c.run == run).order_by(verdicts.c.position)
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
