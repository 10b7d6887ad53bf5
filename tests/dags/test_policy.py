"""Policy: what every DAG must have, and what parsing them may cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from include.regression.config import Catalogue
from tests.conftest import ROOT

#: Modules whose import at parse time would break the budget; they belong inside the task that needs them.
HEAVY = ("ray", "torch", "scipy", "pandas", "plotly", "alembic")


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.fixture(scope="module")
def suites(dags: dict[str, Any]) -> dict[str, Any]:
    """The DAGs that qualify a release, without those that look after clusters."""
    return {name: dag for name, dag in dags.items() if name.startswith("verl_regression.")}


def test_every_suite_has_its_dag(dags: dict[str, Any]) -> None:
    suites = {path.stem for path in (ROOT / "include" / "suites").glob("*.yaml")}
    assert {f"verl_regression.{suite}" for suite in suites} <= set(dags)


def test_every_dag_has_owner_tags_and_a_runbook(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        assert dag.doc_md
        assert "| stage |" in dag.doc_md
        assert dag.tags
        assert dag.max_active_runs == 1
        assert dag.dagrun_timeout
        for task in dag.tasks:
            assert task.owner not in ("", "airflow"), task.task_id


def test_what_is_set_up_is_torn_down(suites: dict[str, Any]) -> None:
    for dag in suites.values():
        teardowns = [task for task in dag.tasks if task.is_teardown]
        assert teardowns
        for task in dag.tasks:
            if task.is_setup:
                assert any(t.task_id in task.get_flat_relative_ids(upstream=False) for t in teardowns), task.task_id


def test_deferrable_tasks_are_retried(suites: dict[str, Any]) -> None:
    """A worker may die between a trigger's event and the task that takes it; only a retry finds the job again."""
    from verl_regression.operators.node_job import NodeJob
    from verl_regression.operators.ray_training import RayTraining

    found = 0
    for dag in suites.values():
        for task in dag.tasks:
            kind = task.operator_class if task.is_mapped else type(task)
            if isinstance(kind, type) and issubclass(kind, NodeJob | RayTraining):
                found += 1
                assert task.retries >= 1, task.task_id
    assert found >= 8


def test_a_backfill_goes_over_all_releases_that_have_a_date(suites: dict[str, Any]) -> None:
    """Also those that the suite does not apply to: their runs say why, and no release is passed over in silence."""
    for dag in suites.values():
        assert list(dag.timetable.releases)[:2] == ["v0.4.0", "v0.4.1"]
        assert list(dag.timetable.releases)[-2:] == ["v0.9.0", "v0.9.1"]


def test_the_form_is_typed_and_in_sections(suites: dict[str, Any]) -> None:
    for dag in suites.values():
        schemas = {name: dag.params.get_param(name).schema for name in dag.params}
        assert set(schemas) == {"release", "cluster", "dry_run", "steps", "datasets", "repeats", "baseline", "keep_checkpoint"}
        for schema in schemas.values():
            assert schema["type"]
            assert schema["section"]
            assert schema["title"]
        assert {"newest", "main", "v0.4.0", "v0.9.1"} <= set(schemas["release"]["enum"])


def test_every_dag_shows_which_releases_apply_and_why_not(dags: dict[str, Any]) -> None:
    said = dags["verl_regression.qwen3_30b_a3b_gspo_megatron_a3"].doc_md
    assert "| v0.8.0 | 2026-06-01 | yes |" in said
    assert "Megatron on Ascend is not supported by verl v0.5.0" in said
    assert "calls MindSpeed optional" in said


def test_a_run_cannot_outlast_its_budget(suites: dict[str, Any]) -> None:
    for name, dag in suites.items():
        suite = Catalogue().suite(name.removeprefix("verl_regression."))
        assert dag.dagrun_timeout.total_seconds() == suite.budget.minutes * 60


def test_the_judge_is_a_leaf_that_can_fail_the_run(suites: dict[str, Any]) -> None:
    """Teardowns are no leaves for Airflow: what decides the run's colour must be a task of its own, after the mapped ones."""
    for dag in suites.values():
        judge = dag.get_task("judge")
        assert judge.retries == 0
        assert {task.task_id for task in judge.downstream_list if not task.is_teardown} == set()
        assert "evaluation.repeat" in judge.upstream_task_ids


def test_training_waits_for_the_base_models_repeats_themselves(suites: dict[str, Any]) -> None:
    for dag in suites.values():
        assert "base_evaluation.repeat" in dag.get_task("training.ready").upstream_task_ids


def test_dags_survive_serialization(dags: dict[str, Any]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_parsing_takes_less_than_a_second_and_imports_nothing_heavy() -> None:
    """In a process that has Airflow imported, as the DAG processor has."""
    script = f"""
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
before = set(sys.modules)
began = time.process_time()
DagBag({str(ROOT / "dags")!r})
print(json.dumps([time.process_time() - began, sorted(set(sys.modules) - before)]))
"""
    # Where compiling anew at every import is forced, compiling would be what is measured.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in modules if name.split(".")[0] in HEAVY] == []
    assert seconds < 1.0


def test_a_broken_file_shows_itself_and_spoils_no_other(tmp_path: Path, dags: dict[str, Any]) -> None:
    """A copy of the project with a torn suite and a release that cannot be read."""
    import shutil

    shutil.copytree(ROOT / "include", tmp_path / "include", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dags", tmp_path / "dags")
    (tmp_path / "include" / "suites" / "torn.yaml").write_text("version: [1\n")
    (tmp_path / "include" / "releases" / "v0.5.0.yaml").write_text("released: soon\n")
    script = f"""
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(tmp_path / "dags")!r})
print([name for name in bag.dags if "broken" in bag.dags[name].tags], len(bag.dags), bag.import_errors)
print(bag.dags["verl_regression.torn"].doc_md, bag.dags["verl_regression.tiny_grpo_cpu"].doc_md)
"""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'plugins'}"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    said = done.stdout
    assert f"['verl_regression.torn'] {len(dags) + 1} {{}}" in said, done.stderr[-2000:]
    assert "include/suites/torn.yaml" in said
    assert "include/releases/v0.5.0.yaml:1: released = 'soon'" in said
