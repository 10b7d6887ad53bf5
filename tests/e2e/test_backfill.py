"""Releases through the front doors: a real backfill over three releases, a reprocessed one, a dry run, and the comparison.

The backfill trains and evaluates for real, shortened by the form's own fields, each release in its own environment.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from include.regression.store import queries
from include.regression.store.engine import engine
from include.regression.store.tables import runs
from tests.e2e.conftest import DAG_ID, Demo, wait_for

pytestmark = pytest.mark.e2e

SHORT = {"steps": 6, "repeats": 1, "datasets": ["aime2024"], "baseline": "v0.9.1"}


def runs_since(demo: Demo) -> list[dict[str, Any]]:
    """All runs after the demo's, oldest first."""
    with engine().connect() as connection:
        found = connection.execute(select(runs).where(runs.c.started_at > demo.run["started_at"]).order_by(runs.c.started_at))
        return [dict(row) for row in found.mappings()]


def backfill(demo: Demo, start: str, conf: dict[str, Any], *options: str, seconds: float) -> list[dict[str, Any]]:
    """Backfill from ``start`` to its end, with Airflow's own command line; returns the runs that it made."""
    before = runs_since(demo)
    command = ["backfill", "create", "--dag-id", DAG_ID, "--from-date", start, "--to-date", "2026-12-01", "--max-active-runs", "1"]
    done = demo.stack("airflow", *command, "--dag-run-conf", json.dumps(conf), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: all(entry["completed_at"] for entry in demo.api.get(f"/backfills?dag_id={DAG_ID}")["backfills"]), seconds)
    after = runs_since(demo)
    assert after[: len(before)] == before, "older runs are as they were"
    return after[len(before) :]


@pytest.fixture(scope="module")
def filled(demo: Demo) -> list[dict[str, Any]]:
    """The runs of a backfill over v0.8.0, v0.9.0 and v0.9.1."""
    return backfill(demo, "2026-06-01", SHORT, seconds=1200)


def test_every_release_in_the_range_has_one_run_in_order(filled: list[dict[str, Any]]) -> None:
    assert [run["release"] for run in filled] == ["v0.8.0", "v0.9.0", "v0.9.1"]
    assert all(run["started_at"] < run["finished_at"] for run in filled)
    assert all(first["finished_at"] < second["started_at"] for first, second in pairwise(filled))


def test_a_release_that_the_suite_does_not_apply_to_is_skipped_with_the_reason(demo: Demo, filled: list[dict[str, Any]]) -> None:
    assert filled[0]["state"] == "not_applicable"
    assert "no registry of platforms" in filled[0]["reason"]
    assert demo.api.get(f"/dags/{DAG_ID}/dagRuns/{filled[0]['dag_run_id']}")["state"] == "success"
    assert not Path(demo.spec.work_dir, "runs", filled[0]["run"]).exists()


def test_each_release_ran_in_an_environment_of_its_own(filled: list[dict[str, Any]]) -> None:
    found = {run["release"]: run["environment"]["train"] for run in filled[1:]}
    for release, environment in found.items():
        assert environment["packages"]["verl"] == release[1:]
        assert environment["directory"].endswith(f"train-train-cpu-{release}")
    assert filled[1]["fingerprint"] != filled[2]["fingerprint"]


def test_the_results_of_both_are_in_postgres(filled: list[dict[str, Any]]) -> None:
    for run in filled[1:]:
        assert run["verdict"] in ("passed", "inconclusive", "regressed")
        assert run["spec"]["changes"] == {**SHORT, "keep_checkpoint": False, "dry_run": False}
        rewards = queries.train_metrics_of(run["run"], ["critic/rewards/mean"])["critic/rewards/mean"]
        assert sorted(rewards) == [1, 2, 3, 4, 5, 6]
        (repeat,) = queries.repeats_of(run["run"], "trained")
        assert repeat["valid"]
        assert repeat["dataset"] == "aime2024"
        assert {row["metric"] for row in queries.verdicts_of(run["run"])} == {
            "reward",
            "throughput",
            "time_per_step",
            "accuracy/aime2024",
        }
        assert "actor_rollout_ref.rollout.mode=async" in run["plan"]


def test_the_baseline_stands_beside_the_verdict_in_the_judges_log(demo: Demo, filled: list[dict[str, Any]]) -> None:
    content = demo.api.get(f"/dags/{DAG_ID}/dagRuns/{filled[1]['dag_run_id']}/taskInstances/judge/logs/1?full_content=true")[
        "content"
    ]
    said = "\n".join(str(entry.get("event")) for entry in content if isinstance(entry, dict))
    assert "runs side by side" in said
    assert demo.run["run"] in said
    assert filled[1]["run"] in said


def test_the_comparison_shows_both_releases(demo: Demo, filled: list[dict[str, Any]]) -> None:
    said = demo.stack("compare", "v0.9.0", "v0.9.1").stdout
    print(said)
    for word in (filled[1]["run"], filled[2]["run"], "reward by step", "throughput", "time_per_step", "accuracy/aime2024"):
        assert word in said
    assert "│ verl" in said, "the environments' difference"


def test_reprocessing_makes_a_new_run_beside_the_old_one(demo: Demo, filled: list[dict[str, Any]]) -> None:
    (again,) = backfill(demo, "2026-09-01", {"dry_run": True}, "--reprocess-behavior", "completed", seconds=180)
    assert again["release"] == "v0.9.1"
    assert again["run"] != filled[2]["run"]


def test_a_dry_run_stores_the_plan_and_touches_no_node(demo: Demo) -> None:
    dag_run_id = demo.trigger({"dry_run": True, "release": "v0.9.0", "steps": 9})
    run = wait_for(lambda: (row := queries.run_of(DAG_ID, dag_run_id)) and row["finished_at"] and row, 120)
    assert run["state"] == "planned"
    assert "trainer.total_training_steps=9" in run["plan"]
    assert not Path(demo.spec.work_dir, "runs", run["run"]).exists()
    state = wait_for(
        lambda: (found := demo.api.get(f"/dags/{DAG_ID}/dagRuns/{dag_run_id}")["state"]) in ("success", "failed") and found, 60
    )
    assert state == "success"
    tasks = demo.api.get(f"/dags/{DAG_ID}/dagRuns/{dag_run_id}/taskInstances")["task_instances"]
    assert {task["task_id"] for task in tasks if task["state"] == "success"} <= {"training.ready", "teardown.close_run"}
    assert {task["state"] for task in tasks} <= {"success", "skipped", "removed"}


def test_input_at_fault_is_refused_by_the_first_task(demo: Demo) -> None:
    dag_run_id = demo.trigger({"steps": 2})
    wait_for(lambda: demo.api.get(f"/dags/{DAG_ID}/dagRuns/{dag_run_id}")["state"] == "failed", 120)
    assert "train at least 5 steps" in demo.log_of(dag_run_id, "resolve")
    assert queries.run_of(DAG_ID, dag_run_id) is None
