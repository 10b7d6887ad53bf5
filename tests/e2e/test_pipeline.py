"""The whole pipeline for real: verl, Ray, vLLM, AISBench, SSH, Postgres and Airflow on this machine, as ``make demo`` runs it.

The run is made once; then its rows are held against what verl and ais_bench wrote on the node. Two more runs are cut short, one by
marking it failed, one by stopping the stack, and must leave nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from include.localstack.settings import STACK_TAG, StackError
from include.node import processes
from include.regression.commands import ray as ray_commands
from include.regression.config import RunSpec
from include.regression.store import queries
from include.regression.store.engine import engine
from include.regression.store.tables import evaluation_items, train_metrics
from tests.e2e.conftest import DAG_ID, Demo, wait_for
from tests.sockets import listening

pytestmark = pytest.mark.e2e


def test_the_demo_passes_and_says_so(demo: Demo) -> None:
    assert demo.exit_code == 0, demo.output[-6000:]
    assert demo.run["state"] == demo.run["verdict"] == "passed"
    for word in ("passed", "reward", "throughput", "accuracy/aime2024", "accuracy/math500", "peak memory", "make down", "login"):
        assert word in demo.output


def test_every_step_that_verl_wrote_is_in_postgres(demo: Demo) -> None:
    file = Path(demo.spec.run_dir) / "training" / "attempt-1" / "metrics.jsonl"
    written = {
        (record["step"], key): value
        for record in map(json.loads, file.read_text().splitlines())
        for key, value in record["data"].items()
    }
    with engine().connect() as connection:
        columns = (train_metrics.c.step, train_metrics.c.key, train_metrics.c.value)
        rows = connection.execute(select(*columns).where(train_metrics.c.run == demo.run["run"])).all()
    stored = {(step, key): value for step, key, value in rows}
    assert stored.keys() == written.keys()
    assert {step for step, _ in stored} == set(range(1, demo.spec.suite.training.steps + 1))
    for key, value in written.items():
        if isinstance(value, int | float):
            assert stored[key] == pytest.approx(float(value), rel=1e-12)


def test_every_answer_and_score_of_ais_bench_is_in_postgres(demo: Demo) -> None:
    repeats = [row for model in ("base", "trained") for row in queries.repeats_of(demo.run["run"], model)]
    evaluation = demo.spec.suite.evaluation
    assert len(repeats) == len(evaluation.datasets) * (evaluation.repeats + evaluation.base_repeats)
    for repeat in repeats:
        assert repeat["valid"], repeat["reason"]
        results = json.loads(next(Path(repeat["folder"]).glob("results/*/*.json")).read_text())
        assert repeat["accuracy"] == results["accuracy"]
        key = [evaluation_items.c[name] == repeat[name] for name in ("run", "model", "dataset", "repeat", "attempt")]
        with engine().connect() as connection:
            items = connection.execute(select(evaluation_items).where(*key).order_by(evaluation_items.c.question)).mappings().all()
        assert len(items) == demo.spec.dataset(repeat["dataset"]).questions
        for item in items:
            detail = results["details"][str(item["question"])]
            assert item["prediction"] == detail["origin_prediction"]
            assert item["reference"] == detail["references"][0]
            assert item["correct"] is detail["correct"][0]
            assert item["prompt_id"] == hashlib.sha256(detail["prompt"].encode()).hexdigest()
            assert item["prompt_tokens"] > 20
            assert item["output_tokens"] >= 0
        assert repeat["correct"] == sum(item["correct"] for item in items)


def test_it_learned(demo: Demo) -> None:
    base, trained = queries.shares_of(demo.run["base_run"], "base"), queries.shares_of(demo.run["run"], "trained")
    for dataset in ("aime2024", "math500"):
        before, after = (sum(found[dataset].values()) / len(found[dataset]) for found in (base, trained))
        assert 0.2 <= before <= 0.7
        assert after > before + 0.1
        assert base[dataset].keys() == trained[dataset].keys()
    verdicts = {row["metric"]: row for row in queries.verdicts_of(demo.run["run"])}
    assert verdicts["reward"]["numbers"]["slope_low"] > 0
    # The last step, which saves the checkpoint, is left out.
    assert verdicts["throughput"]["numbers"]["steps"] == demo.spec.suite.training.steps - demo.spec.suite.training.warmup_steps - 1
    assert math.isfinite(verdicts["time_per_step"]["numbers"]["mean"])


def test_repeats_differ_as_samples_do(demo: Demo) -> None:
    """Seen with one seed for all requests of a repeat: 75 %, then 0 %. Independent answers stay within chance of each other."""
    for row in queries.repeats_of(demo.run["run"], "trained"):
        others = [r["accuracy"] for r in queries.repeats_of(demo.run["run"], "trained") if r["dataset"] == row["dataset"]]
        assert max(others) - min(others) < 25


def test_every_stage_is_recorded(demo: Demo) -> None:
    states = {row["task"]: row["state"] for row in queries.newest_attempts(demo.run["run"])}
    assert "training.convert_weights" not in states, "FSDP needs none"
    assert set(states.values()) == {"success"}
    for task in ("resolve", "cluster_setup.ray", "training.train", "hf_conversion.merge", "evaluation.repeat", "judge"):
        assert task in states
    assert demo.run["environment"]["train"]["packages"]["verl"] == "0.9.1"
    assert demo.run["fingerprint"]


def assert_nothing_left(spec: RunSpec) -> None:
    assert processes.tagged(spec.work_dir, "") == []
    assert not Path(ray_commands.temp_dir(spec)).exists()


def test_nothing_is_left_running_after_success(demo: Demo) -> None:
    assert_nothing_left(demo.spec)


def test_no_part_of_the_stack_listens_beyond_loopback(demo: Demo) -> None:
    tags = {demo.settings.tag("airflow"), demo.settings.tag("node")}
    pids = processes.where(lambda environment: environment.get(STACK_TAG) in tags)
    assert len(pids) >= 5
    found, exposed = listening(pids)
    assert f"0100007F:{demo.settings.port:04X}" in found
    assert exposed == []


def test_a_backfill_would_make_one_run_per_release(demo: Demo) -> None:
    wanted = {"dag_id": DAG_ID, "from_date": "2026-08-01T00:00:00Z", "to_date": "2026-12-01T00:00:00Z", "max_active_runs": 1}
    wanted["reprocess_behavior"] = "completed"
    found = demo.api.post("/backfills/dry_run", wanted)["backfills"]
    assert [entry["partition_key"] for entry in found] == ["v0.9.0", "v0.9.1"]


def test_an_unknown_release_is_refused_by_airflow_itself(demo: Demo) -> None:
    with pytest.raises(StackError, match=r"unknown verl release"):
        demo.api.post(f"/dags/{DAG_ID}/dagRuns", {"logical_date": None, "partition_key": "v9.9"})
    with pytest.raises(StackError, match=r"release"):
        demo.api.post(f"/dags/{DAG_ID}/dagRuns", {"logical_date": None, "conf": {"release": "v9.9"}})


def begin_another(demo: Demo) -> tuple[str, dict[str, Any]]:
    """Trigger a run and wait until its training is a Ray job on the node."""
    dag_run_id = demo.trigger({})

    def training() -> dict[str, Any] | None:
        run = queries.run_of(DAG_ID, dag_run_id)
        return run if run and processes.tagged(demo.spec.work_dir, f"{run['run']}/train") else None

    return dag_run_id, wait_for(training, 240)


def test_a_run_marked_failed_leaves_nothing(demo: Demo) -> None:
    dag_run_id, run = begin_another(demo)
    assert run["base_run"] == demo.run["run"], "the base model's evaluation is reused"
    demo.api.patch(f"/dags/{DAG_ID}/dagRuns/{dag_run_id}", {"state": "failed"})
    ended = wait_for(lambda: (row := queries.run_of(DAG_ID, dag_run_id)) and row["finished_at"] and row, 180)
    assert ended["state"] == "failed"
    assert_nothing_left(RunSpec.model_validate(run["spec"]))


def test_stopping_the_stack_leaves_nothing(demo: Demo) -> None:
    _, run = begin_another(demo)
    assert demo.stack("down").returncode == 0
    assert processes.tagged(demo.spec.work_dir, "") == []
    tags = {demo.settings.tag("airflow"), demo.settings.tag("node")}
    assert processes.where(lambda environment: environment.get(STACK_TAG) in tags) == []
    assert not (demo.settings.state / "postgres" / "postmaster.pid").exists()
    assert run["state"] == "running"
