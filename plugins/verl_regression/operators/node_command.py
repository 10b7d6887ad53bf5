"""Short work on a node: seconds, so it is not deferred."""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context

from include.regression.commands.shell import Command
from include.regression.config import Node, RunSpec
from include.regression.config.loading import INCLUDE
from verl_regression.node import NodeConnection, on_each


class NodeCommand(BaseOperator):
    """Run a rendered command and return its result, one JSON object.

    It runs on the head; ``everywhere``, it is rendered for each node (``render(spec, node, **arguments)``) and runs on all at
    once, and the results are returned by node name.
    """

    template_fields = ("spec", "arguments")

    def __init__(
        self, *, spec: Any, render: Callable[..., Command], arguments: Any = None, everywhere: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.render = render
        self.arguments = arguments or {}
        self.everywhere = everywhere

    def execute(self, context: Context) -> dict[str, Any]:
        spec = RunSpec.model_validate(self.spec)
        head = spec.cluster.head
        if self.everywhere:
            return run_on(self, spec, spec.cluster.nodes, lambda node: self.render(spec, node, **self.arguments))
        found: dict[str, Any] = run_on(self, spec, [head], lambda _: self.render(spec, **self.arguments))[head.name]
        return found


def run_on(
    operator: BaseOperator, spec: RunSpec, nodes: Sequence[Node], render: Callable[[Node], Command], step: str = ""
) -> dict[str, Any]:
    """Run what is rendered for each node, on all at once, shown in the task's log; return the results by node name.

    A node's result lies in the run's folder, which the nodes share; ``step`` tells the commands of one task apart.
    """

    def on_node(node: Node, connection: NodeConnection) -> dict[str, Any]:
        command = render(node)
        operator.log.info("on %s:\n%s", node.name, command.script)
        return connection.run_for_result(command, f"{spec.run_dir}/results/{operator.task_id}{step}-{node.name}.json")

    return dict(on_each(nodes, on_node))


class PrepareNode(BaseOperator):
    """Copy our scripts and lock files into the cluster's work folder."""

    template_fields = ("spec",)

    def __init__(self, *, spec: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = spec

    def execute(self, context: Context) -> None:
        spec = RunSpec.model_validate(self.spec)
        archive, kit = kit_archive(INCLUDE), shlex.quote(spec.kit_dir)
        self.log.info("copying the kit, %d bytes, %s", len(archive), hashlib.sha256(archive).hexdigest()[:12])
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node:
            node.sh(f"mkdir -p {kit}")
            node.put(archive, f"{spec.kit_dir}/kit.tar.gz")
            node.sh(f"tar -xzf {kit}/kit.tar.gz -C {kit}")


def kit_archive(include: Path) -> bytes:
    """Pack include/node and the lock files; the same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for folder, name in ((include / "node", "node"), (include / "releases" / "locks", "locks")):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix in {".py", ".toml", ".typed", ".txt"} and "__pycache__" not in path.parts:
                    entry = tarfile.TarInfo(f"{name}/{path.relative_to(folder)}")
                    data = path.read_bytes()
                    entry.size, entry.mode = len(data), 0o644
                    archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
