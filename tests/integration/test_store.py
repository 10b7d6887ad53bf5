"""The store on a real Postgres: writing twice changes nothing, odd numbers survive, the schema is the migrations' schema."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime
from typing import Any

import numpy
import pytest
from sqlalchemy import func, select, text

from include.regression.config import RunSpec
from include.regression.judge.verdict import Judged
from include.regression.parsers.ais_bench import Item, Repeat
from include.regression.parsers.verl_metrics import Step, as_number
from include.regression.preflight import Finding, Observed
from include.regression.store import DatabaseDown, engine, migrate, queries, writes
from include.regression.store.tables import metadata

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("store")


def counts() -> dict[str, int]:
    with engine().connect() as connection:
        counted = {name: select(func.count()).select_from(table) for name, table in metadata.tables.items()}
        return {name: connection.execute(statement).scalar_one() for name, statement in counted.items()}


def a_repeat(right: int, of: int = 4) -> Repeat:
    items = tuple(Item(n, f"What is {n}?", "\\boxed{1}", "1", "1" if n < right else "2", n < right, 30, 5) for n in range(of))
    return Repeat(100 * right / of, items, 12.5, "/folder")


def write_everything(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.record_environment(spec.run, {"train": {"stamp": "a"}, "eval": {"stamp": "b"}})
    writes.record_stage(spec.run, "training.train", -1, 1, "training", "running")
    writes.record_stage(spec.run, "training.train", -1, 1, "training", "success")
    writes.save_steps(spec.run, 1, [Step(1, {"critic/rewards/mean": 0.5, "x": None})])
    writes.save_repeat(spec.run, "trained", "aime2024", 1, 1, None, a_repeat(3))
    writes.save_invalid_repeat(spec.run, "trained", "aime2024", 2, 1, None, 4, "2 requests failed")
    writes.save_verdicts(spec.run, [Judged("reward", "passed", "rose", {"slope": 0.1})])
    writes.set_base(spec.run, spec.run, "fingerprint")
    finding = Finding("laptop", "disk", "error", "0.1 GB are free", "free some")
    writes.save_preflight("laptop", NOON, 2.5, [Observed(node="laptop")], [finding, finding], spec.run)


def test_writing_twice_changes_nothing(spec: RunSpec) -> None:
    write_everything(spec)
    first, run = counts(), queries.run_of("dag", "dag-run")
    assert first == {
        "runs": 1,
        "stages": 1,
        "train_metrics": 2,
        "evaluation_repeats": 2,
        "evaluation_items": 4,
        "verdicts": 1,
        "preflights": 1,
        "findings": 2,
    }
    write_everything(spec)
    again = queries.run_of("dag", "dag-run")
    assert counts() == first
    assert run is not None
    assert again is not None
    assert again["started_at"] == run["started_at"], "a cleared run keeps its start"
    assert again["fingerprint"] == run["fingerprint"]


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, numpy.float32(0.25), numpy.float64("nan"), numpy.int64(7), True, None]
)
def test_odd_numbers_survive(spec: RunSpec, value: Any) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.save_steps(spec.run, 1, [Step(1, {"k": as_number(value)})])
    stored = queries.train_metrics_of(spec.run, ["k"])["k"][1]
    if value is None:
        assert stored is None
    elif math.isnan(float(value)):
        assert stored is not None
        assert math.isnan(stored)
    else:
        assert stored == float(value)


def test_the_newest_training_attempt_counts(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.save_steps(spec.run, 1, [Step(1, {"k": 1.0}), Step(2, {"k": 1.0})])
    writes.save_steps(spec.run, 2, [Step(1, {"k": 5.0})])
    assert queries.train_metrics_of(spec.run, ["k"]) == {"k": {1: 5.0}}


def test_shares_count_the_newest_valid_attempt_of_each_repeat(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.save_repeat(spec.run, "trained", "aime2024", 1, 1, None, a_repeat(4))
    writes.save_repeat(spec.run, "trained", "aime2024", 1, 2, None, a_repeat(0))
    writes.save_repeat(spec.run, "trained", "aime2024", 2, 1, None, a_repeat(2))
    writes.save_invalid_repeat(spec.run, "trained", "aime2024", 2, 2, None, 4, "server died")
    assert sorted(queries.shares_of(spec.run, "trained")["aime2024"].values()) == [0.0, 0.0, 0.5, 0.5]
    assert queries.shares_of(spec.run, "base") == {}


def test_a_base_evaluation_is_reused_only_when_complete_and_of_the_same_fingerprint(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.set_base(spec.run, spec.run, "f")
    writes.save_repeat(spec.run, "base", "aime2024", 1, 1, None, a_repeat(2))
    assert queries.evaluated_base("f", 2, ["aime2024"]) is None, "one of two repeats"
    writes.save_repeat(spec.run, "base", "aime2024", 2, 1, None, a_repeat(2))
    assert queries.evaluated_base("f", 2, ["aime2024"]) == spec.run
    assert queries.evaluated_base("f", 2, ["aime2024", "math500"]) is None, "one of two data sets"
    assert queries.evaluated_base("g", 2, ["aime2024"]) is None


def test_text_that_postgres_cannot_hold_is_kept_readable(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    item = Item(0, "q\0", "a\0b", None, None, False, 1, 1)
    writes.save_repeat(spec.run, "base", "aime2024", 1, 1, None, Repeat(0.0, (item,), 1.0, "/f"))
    with engine().connect() as connection:
        assert connection.execute(text("select prediction from evaluation_items")).scalar_one() == "a\N{SYMBOL FOR NULL}b"


def test_a_fault_of_the_cluster_is_told_from_one_of_the_software(spec: RunSpec) -> None:
    writes.start_run(spec, "dag", "dag-run")
    writes.record_stage(spec.run, "training.train", -1, 1, "training", "retrying", "lost")
    writes.record_stage(spec.run, "training.train", -1, 2, "training", "success")
    assert [row["state"] for row in queries.newest_attempts(spec.run)] == ["success"]


def test_the_migrations_make_the_tables() -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with engine().connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_several_may_migrate_at_once(results_url: str) -> None:
    faults: list[BaseException] = []

    def once() -> None:
        try:
            migrate(results_url)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert faults == []


def test_postgres_down_is_a_clear_error() -> None:
    with pytest.raises(DatabaseDown, match=r"127\.0\.0\.1:1/regression does not answer") as caught:
        migrate("postgresql+psycopg2://ci:geheim@127.0.0.1:1/regression")
    assert "geheim" not in str(caught.value)


def test_no_address_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERL_REGRESSION_DB")
    with pytest.raises(DatabaseDown, match="VERL_REGRESSION_DB is not set"):
        engine()
