"""Ray on all nodes of a cluster: started, proven, and taken down again where it cannot be proven."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from airflow.sdk import BaseOperator, Context

from include.regression.commands import ray
from include.regression.config import Node, RunSpec
from verl_regression.node import NodeConnection, NodeError, on_each
from verl_regression.operators.node_command import run_on

#: Enough of a node's log to show why it left.
LOG_LINES = 15


class RayUp(BaseOperator):
    """Start the head, then all workers at once, and prove the cluster from the head; returns what include/node/ray_proof.py found.

    Whatever fails, Ray is stopped on every node before the task ends: a teardown only follows a setup that succeeded. The error
    then carries the end of every worker's log, because the head does not know why a worker left.
    """

    template_fields = ("spec",)

    def __init__(self, *, spec: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = spec

    def execute(self, context: Context) -> dict[str, Any]:
        spec = RunSpec.model_validate(self.spec)
        head, *workers = spec.cluster.nodes
        try:
            for nodes in ([head], workers):
                run_on(self, spec, nodes, lambda node: ray.start(spec, node))
            proven: dict[str, Any] = run_on(self, spec, [head], lambda _: ray.prove(spec), step="-proof")[head.name]
            return proven
        except BaseException as error:
            logs = _logs_of(spec, workers)
            self._stop(spec)
            if isinstance(error, NodeError):
                raise NodeError("\n".join([str(error), *logs])) from error
            raise

    def _stop(self, spec: RunSpec) -> None:
        try:
            on_each(spec.cluster.nodes, lambda node, connection: connection.run(ray.stop(spec, node)))
        except NodeError as error:
            # Why Ray is not up matters more; the run's teardown stops what is left, and fails if it cannot.
            self.log.error("Ray could not be stopped: %s", error)


def _logs_of(spec: RunSpec, workers: Sequence[Node]) -> list[str]:
    """The end of every worker's log that can be read, for a reader who looks for the reason."""
    found = []
    for node in workers:
        with suppress(Exception), NodeConnection(node.ssh_conn_id) as connection:
            path = ray.log_file(spec, node)
            found.append(f"{node.name}, {path}:\n{connection.sh(f'tail -n {LOG_LINES} {shlex.quote(path)}')}")
    return found
