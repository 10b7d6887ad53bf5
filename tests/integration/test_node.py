"""Jobs on a node over real SSH: what ends, what fails, what is lost, what is found again, and what is left: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from airflow.sdk.exceptions import TaskDeferred
from paramiko.ssh_exception import SSHException

from include.localstack.settings import Settings
from include.node import processes
from include.regression.commands.shell import Command, job_environment
from include.regression.config import RunSpec
from tests.integration.airflow_context import StateStore, context, event_of
from verl_regression.node import NodeConnection, NodeError
from verl_regression.operators.node_command import NodeCommand, PrepareNode
from verl_regression.operators.node_job import NodeJob
from verl_regression.triggers.node_job import NodeJobTrigger


@pytest.fixture
def prepared(on_node: RunSpec) -> RunSpec:
    """A node with the kit on it."""
    PrepareNode(task_id="node", spec=on_node.model_dump(mode="json")).execute({})  # type: ignore[arg-type]
    return on_node


def script(text: str, timeout_s: int = 60) -> Any:
    """A render function for a script."""
    return lambda spec, **_: Command(text, job_environment(spec, "work"), timeout_s)


def job(spec: RunSpec, render: Any, **options: Any) -> NodeJob:
    return NodeJob(task_id="task", spec=spec.model_dump(mode="json"), render=render, **options)


def started(operator: NodeJob, store: StateStore, try_number: int = 1) -> NodeJobTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context(store, try_number))
    trigger = deferred.value.trigger
    assert isinstance(trigger, NodeJobTrigger)
    # The triggerer makes it anew from what is stored.
    _, arguments = trigger.serialize()
    return NodeJobTrigger(**json.loads(json.dumps(arguments)))


def test_a_job_returns_its_result_and_its_whole_log(prepared: RunSpec) -> None:
    text = 'echo first; echo second >&2\necho \'{"answer": 42}\' > "$RESULT_FILE"\necho last'
    operator, store = job(prepared, script(text)), StateStore()
    event = event_of(started(operator, store))
    assert operator.execute_complete(context(store), event) == {"answer": 42}
    assert store == {}, "a task that is cleared after its success starts anew"
    log = Path(event["log_file"]).read_text()
    assert log.split() == ["first", "second", "last"]


def test_a_failing_line_in_the_middle_fails_the_job_and_shows_its_end(prepared: RunSpec) -> None:
    operator, store = job(prepared, script("echo before\nfalse\necho after")), StateStore()
    event = event_of(started(operator, store))
    with pytest.raises(NodeError, match="exit status 1") as caught:
        operator.execute_complete(context(store), event)
    assert "before" in str(caught.value)
    assert "after" not in str(caught.value)


def test_exit_and_a_failing_pipe_are_failures_too(prepared: RunSpec) -> None:
    assert event_of(started(job(prepared, script("exit 3")), StateStore()))["exit_code"] == 3
    assert event_of(started(job(prepared, script("false | cat")), StateStore()))["exit_code"] == 1


def test_a_retry_waits_for_the_job_that_still_runs(prepared: RunSpec, tmp_path: Path) -> None:
    text = f"echo x >> {tmp_path}/starts\nsleep 2\necho '{{}}' > \"$RESULT_FILE\""
    operator, store = job(prepared, script(text)), StateStore()
    started(operator, store)
    event = event_of(started(operator, store, try_number=2))
    assert event["exit_code"] == 0
    assert (tmp_path / "starts").read_text() == "x\n", "one copy, not two"
    assert started(operator, store, try_number=3).job_id.endswith("attempt-1"), "finished unseen: its result is taken"


def test_a_retry_of_a_failed_job_is_a_new_attempt(prepared: RunSpec) -> None:
    operator, store = job(prepared, script("exit 1")), StateStore()
    event_of(started(operator, store))
    second = started(operator, store, try_number=2)
    assert second.job_id.endswith("attempt-2")
    event_of(second)


def test_a_job_whose_process_is_killed_is_noticed(prepared: RunSpec) -> None:
    trigger = started(job(prepared, script("sleep 60")), StateStore())
    pid = wait_for_pid(trigger)
    os.killpg(pid, signal.SIGKILL)
    event = event_of(trigger)
    assert event["exit_code"] is None
    assert "gone and left no exit status" in event["message"]


def test_a_job_over_its_time_is_stopped(prepared: RunSpec) -> None:
    trigger = started(job(prepared, script("setsid sleep 60 & sleep 61", timeout_s=1)), StateStore())
    wait_for_pid(trigger)
    event = event_of(trigger)
    assert "time is over" in event["message"]
    assert processes.tagged(prepared.work_dir, f"{prepared.run}/work") == []


def test_a_cleared_task_leaves_nothing_running(prepared: RunSpec) -> None:
    trigger = started(job(prepared, script("setsid sleep 60 & sleep 61")), StateStore())
    wait_for_pid(trigger)
    assert processes.tagged(prepared.work_dir, f"{prepared.run}/work")
    asyncio.run(trigger.on_kill())
    assert processes.tagged(prepared.work_dir, f"{prepared.run}/work") == []


def wait_for_pid(trigger: NodeJobTrigger) -> int:
    deadline = time.monotonic() + 10
    file = Path(trigger.pid_file)
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return int(file.read_text())


def test_short_commands_return_their_result(prepared: RunSpec) -> None:
    render = script('echo "{\\"tag\\": \\"$VERL_REGRESSION_JOB\\"}" > "$RESULT_FILE"')
    operator = NodeCommand(task_id="short", spec=prepared.model_dump(mode="json"), render=render)
    assert operator.execute({}) == {"tag": f"{prepared.run}/work"}  # type: ignore[arg-type]


@pytest.mark.usefixtures("on_node")
def test_a_short_command_that_fails_shows_its_output() -> None:
    with NodeConnection("laptop_node") as node, pytest.raises(NodeError, match=r"exit status 7[\s\S]*why"):
        node.sh("echo why >&2; exit 7")


@pytest.mark.usefixtures("on_node")
def test_many_short_commands_at_once_keep_their_output_and_status() -> None:
    def twenty(_: int) -> list[str]:
        with NodeConnection("laptop_node") as node:
            return [outcome(node) for _ in range(20)]

    def outcome(node: NodeConnection) -> str:
        with pytest.raises(NodeError) as caught:
            node.sh("echo why >&2; exit 7")
        return str(caught.value)

    with ThreadPoolExecutor(6) as pool:
        outcomes = [text for texts in pool.map(twenty, range(6)) for text in texts]
    assert set(outcomes) == {"exit status 7 on 127.0.0.1:\nwhy"}


def test_another_host_key_is_refused(ssh_connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    connection = json.loads(ssh_connection)
    connection["extra"]["host_key"] = " ".join(other.split()[:2])
    monkeypatch.setenv("AIRFLOW_CONN_IMPOSTOR", json.dumps(connection))
    with pytest.raises(SSHException, match="does not match"), NodeConnection("impostor"):
        pass


def test_another_user_key_is_refused(settings: Settings, ssh_connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = settings.node / "stranger_key"
    key.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    key.chmod(0o600)
    connection = json.loads(ssh_connection)
    connection["extra"]["key_file"] = str(key)
    monkeypatch.setenv("AIRFLOW_CONN_STRANGER", json.dumps(connection))
    with pytest.raises(SSHException), NodeConnection("stranger"):
        pass


@pytest.mark.usefixtures("on_node")
def test_the_node_does_not_see_airflows_environment() -> None:
    with NodeConnection("laptop_node") as node:
        seen = node.sh("env")
    assert "AIRFLOW" not in seen
    assert "PYTHONPATH" not in seen
