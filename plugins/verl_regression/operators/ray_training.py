"""The training as a Ray job, submitted by Ray's own client through an SSH tunnel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import BaseOperator, Context

from include.regression.commands import ray as ray_commands
from include.regression.commands import train
from include.regression.config import RunSpec
from verl_regression.memory import Job, JobMemory
from verl_regression.node import NodeConnection
from verl_regression.triggers.ray_training import RayTrainingTrigger, job_client


class TrainingFailed(Exception):
    """The Ray job of the training did not succeed; the message carries Ray's state and the end of the log."""


class RayTraining(BaseOperator):
    """Submit the training and defer until it ends; its metrics reach Postgres while it runs.

    A retry waits for a job that still runs, or takes one that succeeded unseen; otherwise it submits a new attempt with folders
    of its own. Returns the attempt and its checkpoint folder.
    """

    template_fields = ("spec",)

    def __init__(self, *, spec: Any, **kwargs: Any) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.spec = spec

    def execute(self, context: Context) -> None:
        spec = RunSpec.model_validate(self.spec)
        memory, ti = JobMemory(context), context["ti"]
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node, _jobs(node, spec) as client:
            before = memory.recall()
            if before is not None:
                state = _state(client, train.job(spec, before.attempt).submission_id)
                self.log.info("the Ray job of attempt %d is %s", before.attempt, state)
                if state in ("PENDING", "RUNNING", "SUCCEEDED"):
                    self._wait(spec, before)
            attempt = max(ti.try_number, before.attempt + 1 if before else 1)
            job = train.job(spec, attempt)
            started = Job(attempt, time.time() + job.timeout_s)
            memory.remember(started)
            self.log.info("submitting %s:\n%s", job.submission_id, job.entrypoint)
            client.submit_job(
                entrypoint=job.entrypoint,
                submission_id=job.submission_id,
                runtime_env=job.runtime_env,
                metadata=job.metadata,
            )
        self._wait(spec, started)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        spec = RunSpec.model_validate(self.spec)
        memory = JobMemory(context)
        started = memory.recall()
        assert started is not None, "a task that was deferred remembers its job"
        job = train.job(spec, started.attempt)
        if event["status"] != "SUCCEEDED":
            kept = ", ".join(ray_commands.kept_logs(spec, node) for node in spec.cluster.nodes)
            raise TrainingFailed(f"Ray says {event['status']}: {event['message']}; Ray's logs are kept in {kept}")
        memory.forget()
        return {"attempt": started.attempt, "checkpoint_dir": job.checkpoint_dir, "metrics_file": job.metrics_file}

    def _wait(self, spec: RunSpec, started: Job) -> None:
        job, cluster = train.job(spec, started.attempt), spec.cluster
        self.defer(
            trigger=RayTrainingTrigger(
                ssh_conn_id=cluster.head.ssh_conn_id,
                host=cluster.head.address,
                port=cluster.ray_ports.dashboard,
                token_command=ray_commands.read_token(spec),
                run=spec.run,
                attempt=started.attempt,
                submission_id=job.submission_id,
                metrics_file=job.metrics_file,
                console=job.console,
                log_file=job.log_file,
                poll_s=cluster.poll_s,
                deadline=started.deadline,
            ),
            method_name="execute_complete",
        )


@contextmanager
def _jobs(node: NodeConnection, spec: RunSpec) -> Iterator[Any]:
    """Yield Ray's job client for the run's head; the dashboard is reached through the node's SSH connection."""
    token = node.sh(ray_commands.read_token(spec)).strip()
    dashboard = spec.cluster.ray_ports.dashboard
    with node.hook.get_tunnel(remote_port=dashboard, remote_host=spec.cluster.head.address) as tunnel:
        yield job_client(tunnel.local_bind_port, token)


def _state(client: Any, submission_id: str) -> str:
    """Return the job's state in Ray's words, or GONE if this Ray cluster does not know it."""
    try:
        return str(client.get_job_status(submission_id).value)
    except RuntimeError as error:
        if "not exist" in str(error) or "404" in str(error):
            return "GONE"
        raise
