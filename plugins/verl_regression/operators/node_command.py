"""Short work on a node: seconds, so it is not deferred."""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from include.regression.commands import environments
from include.regression.commands.shell import Command
from include.regression.config import ConfigError, RunSpec
from include.regression.config.loading import INCLUDE
from include.regression.parsers.facts import check_facts
from verl_regression.node import NodeConnection


class NodeCommand(BaseOperator):
    """Run a rendered command on the head node and return its result, one JSON object."""

    template_fields = ("spec", "arguments")

    def __init__(self, *, spec: Any, render: Callable[..., Command], arguments: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.render = render
        self.arguments = arguments or {}

    def execute(self, context: Context) -> dict[str, Any]:
        spec = RunSpec.model_validate(self.spec)
        command = self.render(spec, **self.arguments)
        self.log.info("on %s:\n%s", spec.cluster.head.name, command.script)
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node:
            return node.run_for_result(command, f"{spec.run_dir}/results/{self.task_id}.json")


class PrepareNode(BaseOperator):
    """Copy our scripts and lock files to the node, gather its facts, and refuse a node that cannot do the run."""

    template_fields = ("spec",)

    def __init__(self, *, spec: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = spec

    def execute(self, context: Context) -> dict[str, Any]:
        spec = RunSpec.model_validate(self.spec)
        with NodeConnection(spec.cluster.head.ssh_conn_id) as node:
            node.sh(f"command -v {shlex.quote(spec.cluster.python)} >/dev/null || {{ {_no_python(spec)}; exit 1; }}")
            self._copy_kit(node, spec)
            facts = node.run_for_result(environments.facts(spec), f"{spec.run_dir}/results/facts.json")
        self.log.info("%s", facts)
        try:
            check_facts(spec, facts)
        except ConfigError as error:
            raise AirflowFailException(str(error)) from error
        return facts

    def _copy_kit(self, node: NodeConnection, spec: RunSpec) -> None:
        kit = shlex.quote(spec.kit_dir)
        node.sh(f"mkdir -p {kit}")
        archive = kit_archive(INCLUDE)
        self.log.info("copying the kit, %d bytes, %s", len(archive), hashlib.sha256(archive).hexdigest()[:12])
        node.put(archive, f"{spec.kit_dir}/kit.tar.gz")
        node.sh(f"tar -xzf {kit}/kit.tar.gz -C {kit}")


def _no_python(spec: RunSpec) -> str:
    where = f"include/clusters/{spec.cluster.name}.yaml"
    message = f"{where}: python = {spec.cluster.python!r}: not found on this node. Fix: install it there, or name another."
    return f"echo {shlex.quote(message)} >&2"


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
