"""A real Ray head over real SSH: up with a token and on loopback only, a job followed into Postgres, stopped without a trace."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from airflow.sdk.exceptions import TaskDeferred

from include.localstack.settings import Settings
from include.node import processes
from include.regression.commands import ray as ray_commands
from include.regression.commands import train
from include.regression.config import RunSpec
from include.regression.store import queries, writes
from tests.integration.airflow_context import StateStore, context, event_of
from tests.integration.conftest import our_environment, spec_on_node
from tests.sockets import listening
from verl_regression.node import NodeConnection
from verl_regression.operators import ray_training
from verl_regression.operators.node_command import NodeCommand, PrepareNode
from verl_regression.operators.ray_training import RayTraining, TrainingFailed
from verl_regression.operators.ray_up import RayUp
from verl_regression.triggers.ray_training import RayTrainingTrigger

#: Writes metrics as verl's file logger does, a step at a time.
TRAINER = """
import json, os, pathlib, time
path = pathlib.Path(os.environ["VERL_FILE_LOGGER_PATH"])
path.parent.mkdir(parents=True, exist_ok=True)
with path.open("wb", buffering=0) as log:
    for step in range(1, 6):
        log.write(json.dumps({"step": step, "data": {"critic/rewards/mean": step / 10}}).encode() + b"\\n")
        print("step", step, "token", os.environ["RAY_AUTH_MODE"], flush=True)
        time.sleep(0.3)
"""


#: As rendered for verl; the tests replace what it runs, not how it is submitted.
REAL_JOB = train.job


@pytest.fixture(scope="module")
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """Of module scope: the head serves all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def up(settings: Settings, ssh_connection: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunSpec]:
    assert ssh_connection
    spec = spec_on_node(settings, monkeypatch)
    raw = spec.model_dump(mode="json")
    with our_environment(spec):
        PrepareNode(task_id="node", spec=raw).execute({})  # type: ignore[arg-type]
        found = RayUp(task_id="ray", spec=raw).execute({})  # type: ignore[arg-type]
        assert found["resources"]["NPU"] == 1
        assert found["resources"]["CPU"] == spec.cluster.logical_cpus
        yield spec
        stop = NodeCommand(task_id="stop_ray", spec=raw, render=ray_commands.stop, everywhere=True)
        assert stop.execute({})["laptop"]["left"] == []  # type: ignore[arg-type]
    assert processes.tagged(spec.work_dir, spec.run) == []
    assert not Path(ray_commands.temp_dir(spec)).exists()
    assert list(Path(ray_commands.kept_logs(spec, spec.cluster.head)).glob("gcs_server*")), "the logs are kept"


def job_of(spec: RunSpec, attempt: int, code: str) -> train.RayJob:
    real = REAL_JOB(spec, attempt)
    return train.RayJob(**{**real.__dict__, "entrypoint": shlex.join([sys.executable, "-c", code])})


def submit(spec: RunSpec, store: StateStore, try_number: int = 1) -> RayTrainingTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        RayTraining(task_id="train", spec=spec.model_dump(mode="json")).execute(context(store, try_number))
    _, arguments = deferred.value.trigger.serialize()
    return RayTrainingTrigger(**json.loads(json.dumps(arguments)))


def test_nothing_listens_beyond_loopback(up: RunSpec) -> None:
    found, exposed = listening(processes.tagged(up.work_dir, up.run))
    assert len(found) >= 5
    assert exposed == []


def test_without_the_token_ray_answers_nobody(up: RunSpec) -> None:
    url = f"http://127.0.0.1:{up.cluster.ray_ports.dashboard}/api/jobs/"
    assert httpx.get(url, trust_env=False).status_code in (401, 403)
    token_file = Path(ray_commands.token_file(up))
    assert token_file.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("store")
def test_metrics_reach_postgres_while_the_job_runs(up: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    writes.start_run(up, "dag", "dag-run")
    monkeypatch.setattr(ray_training.train, "job", lambda spec, attempt: job_of(spec, attempt, TRAINER))
    store = StateStore()
    trigger = submit(up, store)
    assert submit(up, store, try_number=2).submission_id == trigger.submission_id, "a retry waits for the same job"
    assert event_of(trigger)["status"] == "SUCCEEDED"
    rewards = queries.train_metrics_of(up.run, ["critic/rewards/mean"])["critic/rewards/mean"]
    assert rewards == {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5}
    result = RayTraining(task_id="train", spec=up.model_dump(mode="json")).execute_complete(
        context(store), {"status": "SUCCEEDED", "message": ""}
    )
    assert result["attempt"] == 1
    assert store == {}


@pytest.mark.usefixtures("store")
def test_a_release_without_file_logger_has_its_metrics_in_the_log(up: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    release = up.release.model_copy(update={"launcher": up.release.launcher.model_copy(update={"file_logger": False})})
    older = up.model_copy(update={"release": release})
    writes.start_run(older, "dag", "dag-run")
    line = "(TaskRunner pid=7) step:{0} - critic/rewards/mean:0.{0}00 - timing_s/step:1.000"
    code = f"for n in range(1, 4): print({line!r}.format(n), flush=True)"
    monkeypatch.setattr(ray_training.train, "job", lambda spec, attempt: job_of(spec, attempt, code))
    assert event_of(submit(older, StateStore(), try_number=7))["status"] == "SUCCEEDED"
    rewards = queries.train_metrics_of(older.run, ["critic/rewards/mean"])["critic/rewards/mean"]
    assert rewards == {1: 0.1, 2: 0.2, 3: 0.3}


@pytest.mark.usefixtures("store")
def test_a_failed_job_is_a_new_attempt_next_time(up: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = up.model_copy(update={"run": "it-2"})
    link_run(up, failing)
    monkeypatch.setattr(ray_training.train, "job", lambda spec, attempt: job_of(spec, attempt, "raise SystemExit(3)"))
    store = StateStore()
    event = event_of(submit(failing, store))
    assert event["status"] == "FAILED"
    with pytest.raises(TrainingFailed, match="Ray says FAILED"):
        RayTraining(task_id="train", spec=failing.model_dump(mode="json")).execute_complete(context(store), event)
    assert submit(failing, store, try_number=2).submission_id.endswith(".train.2")


def test_a_cleared_training_is_stopped(up: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared = up.model_copy(update={"run": "it-3"})
    link_run(up, cleared)
    monkeypatch.setattr(ray_training.train, "job", lambda spec, attempt: job_of(spec, attempt, "import time; time.sleep(600)"))
    trigger = submit(cleared, StateStore())
    asyncio.run(trigger.on_kill())
    assert event_of(trigger)["status"] == "STOPPED"


def test_a_training_over_its_time_is_stopped(up: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    late = up.model_copy(update={"run": "it-4"})
    link_run(up, late)
    monkeypatch.setattr(ray_training.train, "job", lambda spec, attempt: job_of(spec, attempt, "import time; time.sleep(600)"))
    trigger = submit(late, StateStore())
    trigger.deadline = time.time() - 1
    assert event_of(trigger)["status"] == "TIMEOUT"


def link_run(up: RunSpec, other: RunSpec) -> None:
    """Let another run use the head that is up: it finds the token where it looks for its own."""
    with NodeConnection("laptop_node") as node:
        source, target = Path(ray_commands.token_file(up)).parent, Path(ray_commands.token_file(other)).parent
        node.sh(f"mkdir -p {target.parent} && ln -sfn {source} {target}")
