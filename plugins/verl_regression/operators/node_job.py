"""Long work on a node: a detached job that a deferred task waits for, and finds again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

from airflow.providers.ssh.utils.remote_job import RemoteJobPaths, build_posix_wrapper_command
from airflow.sdk import BaseOperator, Context

from include.regression.commands import environments
from include.regression.commands.shell import JOB_TAG, Command
from include.regression.config import RunSpec
from verl_regression.memory import Job, JobMemory
from verl_regression.node import NodeConnection, NodeError, strict, with_environment
from verl_regression.triggers.node_job import NodeJobTrigger

#: Reconnects that the trigger tolerates: with its back-off of up to a minute, an hour or two without network.
MAX_RECONNECTS = 100

Collect = Callable[..., dict[str, Any]]


class NodeJob(BaseOperator):
    """Run a rendered command on the head node as a detached job and defer until it ends.

    ``render(spec, **arguments)`` makes the command; with ``per_attempt`` it also gets ``attempt``, for work that must not meet an
    earlier attempt's files. ``collect(spec, result, **arguments, attempt=...)`` turns the job's result (one JSON object) into
    what the task returns, and may raise to say that the result does not count.

    A retry finds the job of the attempt before: still running, it is waited for; finished, its result is taken; failed or lost,
    a new one is started. So a dead worker, triggerer or SSH link never makes a second copy.
    """

    template_fields = ("spec", "arguments")

    def __init__(
        self,
        *,
        spec: Any,
        render: Callable[..., Command],
        arguments: Any = None,
        collect: Collect | None = None,
        per_attempt: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.spec = spec
        self.render = render
        self.arguments = arguments or {}
        self.collect = collect
        self.per_attempt = per_attempt

    def execute(self, context: Context) -> None:
        spec = RunSpec.model_validate(self.spec)
        _label(context, self.arguments)
        memory, ti = JobMemory(context), context["ti"]
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node:
            before = memory.recall()
            if before is not None:
                state = _state(node, self._paths(spec, ti, before.attempt))
                self.log.info("the job of attempt %d is %s", before.attempt, state)
                if state in ("running", "0"):
                    self._wait(spec, ti, before)
            attempt = max(ti.try_number, before.attempt + 1 if before else 1)
            paths = self._paths(spec, ti, attempt)
            command = self._command(spec, attempt)
            job = Job(attempt, time.time() + command.timeout_s)
            memory.remember(job)
            environment = {**command.environment, "RESULT_FILE": f"{paths.job_dir}/result.json"}
            wrapper = build_posix_wrapper_command(f"(\n{strict(command.script)}\n)", paths)
            self.log.info("attempt %d on %s, log %s:\n%s", attempt, spec.cluster.head.name, paths.log_file, command.script)
            node.sh(with_environment(f"rm -rf {shlex.quote(paths.job_dir)}\n{wrapper}", environment))
        self._wait(spec, ti, job)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take the job's end: the rest of its log, its exit status, its result."""
        spec = RunSpec.model_validate(self.spec)
        _label(context, self.arguments)
        memory = JobMemory(context)
        job = memory.recall()
        assert job is not None, "a task that was deferred remembers its job"
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node:
            log = _rest_of(node, event)
            if log:
                self.log.info("%s", log)
            if event.get("exit_code") != 0:
                reason = event["message"] if event.get("exit_code") is None else f"exit status {event['exit_code']}"
                raise NodeError(f"{reason}; the end of {event['log_file']} on {spec.cluster.head.name}:\n{log[-3000:]}")
            result = node.read_json(f"{event['job_dir']}/result.json")
        if self.collect is not None:
            extra = {"attempt": job.attempt} if self.per_attempt else {}
            result = self.collect(spec, result, **self.arguments, **extra)
        memory.forget()
        return result

    def _command(self, spec: RunSpec, attempt: int) -> Command:
        extra = {"attempt": attempt} if self.per_attempt else {}
        return self.render(spec, **self.arguments, **extra)

    def _paths(self, spec: RunSpec, ti: Any, attempt: int) -> RemoteJobPaths:
        mapped = f".{ti.map_index}" if ti.map_index is not None and ti.map_index >= 0 else ""
        return RemoteJobPaths(f"{ti.task_id}{mapped}.attempt-{attempt}", "posix", f"{spec.run_dir}/jobs")

    def _wait(self, spec: RunSpec, ti: Any, job: Job) -> None:
        command, paths = self._command(spec, job.attempt), self._paths(spec, ti, job.attempt)
        stop = environments.stop(spec, job=command.environment[JOB_TAG].partition("/")[2])
        self.defer(
            trigger=NodeJobTrigger(
                ssh_conn_id=spec.cluster.head.ssh_conn_id,
                remote_host=None,
                job_id=paths.job_id,
                job_dir=paths.job_dir,
                log_file=paths.log_file,
                exit_code_file=paths.exit_code_file,
                remote_os="posix",
                poll_interval=spec.cluster.poll_s,
                max_reconnect_attempts=MAX_RECONNECTS,
                pid_file=paths.pid_file,
                stop_command=f"bash -c {shlex.quote(with_environment(stop.script, stop.environment))}",
                deadline=job.deadline,
            ),
            method_name="execute_complete",
        )


def _label(context: Context, arguments: dict[str, Any]) -> None:
    """Name a mapped task by what it works on, for ``map_index_template="{{ label }}"``."""
    context["label"] = " ".join(str(arguments[key]) for key in ("dataset", "number") if key in arguments)  # type: ignore[typeddict-unknown-key]


def _state(node: NodeConnection, paths: RemoteJobPaths) -> str:
    """Look at a job: its exit status, "running", or "gone". A job that was started a moment ago has yet to write its pid."""
    folder, code, pid = (shlex.quote(path) for path in (paths.job_dir, paths.exit_code_file, paths.pid_file))
    script = f"""
for _ in $(seq 50); do test -d {folder} && ! test -s {pid} || break; sleep 0.1; done
if test -s {code}; then cat {code}; elif kill -0 "$(cat {pid})" 2>/dev/null; then echo running; else echo gone; fi"""
    return node.sh(script).strip()


def _rest_of(node: NodeConnection, event: dict[str, Any]) -> str:
    """Read what the trigger has not logged: its last chunk, and what lies beyond it."""
    log_file = shlex.quote(event["log_file"])
    beyond = node.sh(f"tail -c +{int(event['log_offset']) + 1} {log_file} | tail -c 200000 || true")
    return (str(event.get("log_chunk") or "") + beyond).strip()
