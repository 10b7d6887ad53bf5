"""Writing results. Every function is idempotent: the key says what a row is about, a second write replaces the first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table, delete, update
from sqlalchemy.dialects.postgresql import insert

from include.regression.config import RunSpec
from include.regression.store.engine import engine
from include.regression.store.tables import (
    evaluation_items,
    evaluation_repeats,
    findings,
    preflights,
    runs,
    stages,
    train_metrics,
    verdicts,
)

if TYPE_CHECKING:
    from include.regression.judge.verdict import Judged
    from include.regression.parsers.ais_bench import Repeat
    from include.regression.parsers.verl_metrics import Step
    from include.regression.preflight import Finding, Observed


def _upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], keep: Iterable[str] = ()) -> None:
    """Insert rows, or replace those whose primary key exists; columns in ``keep`` stay as they were first written."""
    if not rows:
        return
    statement = insert(table)
    keys = [column.name for column in table.primary_key.columns]
    spared = {*keys, *keep}
    changed = {name: statement.excluded[name] for name in rows[0] if name not in spared}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), list(rows))


def start_run(spec: RunSpec, dag_id: str, dag_run_id: str, plan: str | None = None) -> None:
    """Record that a run has begun, with its plan; a run that is cleared and resolved again keeps its start."""
    row = {
        "run": spec.run,
        "dag_id": dag_id,
        "dag_run_id": dag_run_id,
        "suite": spec.suite.name,
        "suite_version": spec.suite.version,
        "release": spec.release.name,
        "cluster": spec.cluster.name,
        "spec": spec.model_dump(mode="json"),
        "state": "running",
        "verdict": None,
        "reason": None,
        "started_at": datetime.now(UTC),
        "finished_at": None,
        "plan": plan,
    }
    with engine().begin() as connection:
        _upsert(connection, runs, [row], keep=["started_at"])


def record_environment(run: str, environments: dict[str, Any]) -> None:
    """Record what the node and its environments are made of; the fingerprint is the hash of the environments' stamps."""
    stamps = [str(environments[name]["stamp"]) for name in sorted(environments) if "stamp" in environments[name]]
    fingerprint = hashlib.sha256("".join(stamps).encode()).hexdigest()
    with engine().begin() as connection:
        values = {"environment": environments, "fingerprint": fingerprint}
        connection.execute(update(runs).where(runs.c.run == run).values(**values))


def set_base(run: str, base_run: str, fingerprint: str) -> None:
    """Record whose base-model evaluation counts for this run."""
    with engine().begin() as connection:
        statement = update(runs).where(runs.c.run == run).values(base_run=base_run, base_fingerprint=fingerprint)
        connection.execute(statement)


def set_verdict(run: str, verdict: str) -> None:
    """Record the judge's word."""
    with engine().begin() as connection:
        connection.execute(update(runs).where(runs.c.run == run).values(verdict=verdict))


def finish_run(run: str, state: str, reason: str | None) -> None:
    """Record how a run ended."""
    values = {"state": state, "reason": reason, "finished_at": datetime.now(UTC)}
    with engine().begin() as connection:
        connection.execute(update(runs).where(runs.c.run == run).values(**values))


def record_stage(run: str, task: str, map_index: int, attempt: int, stage: str, state: str, message: str | None = None) -> None:
    """Record the state of one attempt of a task; its start is the first time it was seen."""
    now = datetime.now(UTC)
    row = {
        "run": run,
        "task": task,
        "map_index": map_index,
        "attempt": attempt,
        "stage": stage,
        "state": state,
        "message": message,
        "started_at": now,
        "finished_at": None if state == "running" else now,
    }
    with engine().begin() as connection:
        _upsert(connection, stages, [row], keep=["started_at"])


def save_steps(run: str, attempt: int, steps: Sequence[Step]) -> None:
    """Write the metrics of some training steps."""
    rows = [
        {"run": run, "attempt": attempt, "step": step.step, "key": key, "value": value}
        for step in steps
        for key, value in step.values.items()
    ]
    with engine().begin() as connection:
        _upsert(connection, train_metrics, rows)


def save_repeat(run: str, model: str, dataset: str, number: int, attempt: int, seed: int | None, repeat: Repeat) -> None:
    """Write a repeat that counts, with one row per question."""
    key = {"run": run, "model": model, "dataset": dataset, "repeat": number, "attempt": attempt}
    row = {
        **key,
        "valid": True,
        "reason": None,
        "accuracy": repeat.accuracy,
        "correct": repeat.correct,
        "questions": len(repeat.items),
        "seed": seed,
        "seconds": repeat.seconds,
        "folder": repeat.folder,
    }
    items = [
        {
            **key,
            "question": item.question,
            "prompt_id": hashlib.sha256(item.prompt.encode()).hexdigest(),
            "prompt": _storable(item.prompt),
            "prediction": _storable(item.prediction),
            "extracted": None if item.extracted is None else _storable(item.extracted),
            "reference": None if item.reference is None else _storable(item.reference),
            "correct": item.correct,
            "prompt_tokens": item.prompt_tokens,
            "output_tokens": item.output_tokens,
        }
        for item in repeat.items
    ]
    with engine().begin() as connection:
        _upsert(connection, evaluation_repeats, [row])
        _upsert(connection, evaluation_items, items)


def save_invalid_repeat(
    run: str, model: str, dataset: str, number: int, attempt: int, seed: int | None, questions: int, reason: str
) -> None:
    """Write an attempt at a repeat that does not count, with its reason and without a score."""
    row = {"run": run, "model": model, "dataset": dataset, "repeat": number, "attempt": attempt}
    row |= {"valid": False, "reason": _storable(reason), "accuracy": None, "correct": None, "questions": questions, "seed": seed}
    row |= {"seconds": None, "folder": None}
    with engine().begin() as connection:
        _upsert(connection, evaluation_repeats, [row])


def save_verdicts(run: str, judged: Sequence[Judged]) -> None:
    """Write the verdicts of a run in place of earlier ones."""
    rows = [
        {
            "run": run,
            "metric": entry.metric,
            "position": position,
            "verdict": entry.verdict,
            "text": entry.text,
            "numbers": entry.numbers,
        }
        for position, entry in enumerate(judged)
    ]
    with engine().begin() as connection:
        connection.execute(delete(verdicts).where(verdicts.c.run == run))
        _upsert(connection, verdicts, rows)


def save_preflight(
    cluster: str,
    started_at: datetime,
    seconds: float,
    observed: Sequence[Observed],
    found: Sequence[Finding],
    run: str | None = None,
    suite: str | None = None,
    release: str | None = None,
) -> None:
    """Write what a preflight saw and found; ``run`` is the run it was made for, ``suite`` and ``release`` what it was asked for."""
    key = {"cluster": cluster, "started_at": started_at}
    row = {**key, "run": run, "suite": suite, "release": release, "seconds": seconds}
    row["facts"] = [seen.model_dump(mode="json") for seen in observed]
    rows = [{**key, "position": position, **finding._asdict()} for position, finding in enumerate(found)]
    with engine().begin() as connection:
        _upsert(connection, preflights, [row])
        connection.execute(delete(findings).where(findings.c.cluster == cluster, findings.c.started_at == started_at))
        _upsert(connection, findings, rows)


def _storable(text: str) -> str:
    """Postgres text cannot hold NUL; a model can say it."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")
