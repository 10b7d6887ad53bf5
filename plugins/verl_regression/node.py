"""A node over SSH: short commands and files, through the SSH provider's hook."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from airflow.providers.ssh.hooks.ssh import SSHHook

from include.regression.commands.shell import Command
from include.regression.config import Node

#: What work on a node returns.
T = TypeVar("T")
NODES_AT_ONCE = 64


class NodeError(Exception):
    """A command on a node failed; the message carries its exit status and the end of its output."""


def with_environment(script: str, environment: dict[str, str]) -> str:
    """Prepend exports to a script, so that the shell itself and all it starts carry the variables."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([*exports, script])


def strict(script: str) -> str:
    """Make a script end at its first failing line, also inside a pipe."""
    return f"set -eo pipefail\n{script}"


class NodeConnection:
    """One SSH connection to a node, as a context manager. ``conn_timeout`` is in seconds, ``attempts`` counts tries to connect."""

    def __init__(self, ssh_conn_id: str, conn_timeout: int = 20, attempts: int = 3) -> None:
        # The hook's own keep-alive applies; a wrong key or host key fails here, before anything is done.
        self.hook = SSHHook(ssh_conn_id=ssh_conn_id, conn_timeout=conn_timeout, cmd_timeout=None, conn_retry_attempts=attempts)

    def __enter__(self) -> NodeConnection:
        self.client = self.hook.get_conn()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.client.close()

    def run(self, command: Command) -> str:
        """Run a command to its end and return its stdout. Raises NodeError if it fails or takes too long."""
        script = with_environment(strict(command.script), command.environment)
        status, out, err = self.hook.exec_ssh_client_command(
            self.client, f"bash -c {shlex.quote(script)}", get_pty=False, environment=None, timeout=command.timeout_s
        )
        output = out.decode(errors="replace")
        if status:
            detail = (output + err.decode(errors="replace")).strip()
            raise NodeError(f"exit status {status} on {self.hook.remote_host}:\n{detail[-4000:]}")
        return output

    def sh(self, script: str, timeout_s: int = 60) -> str:
        """Run a short script without environment."""
        return self.run(Command(script, timeout_s=timeout_s))

    def run_for_result(self, command: Command, result_file: str) -> dict[str, Any]:
        """Run a node script and return the JSON object that it wrote to ``result_file``."""
        environment = {**command.environment, "RESULT_FILE": result_file}
        folder = shlex.quote(result_file.rpartition("/")[0])
        print(self.run(Command(f"mkdir -p {folder}\n{command.script}", environment, command.timeout_s)))
        return self.read_json(result_file)

    def read_json(self, path: str) -> dict[str, Any]:
        """Read a JSON file over SFTP."""
        with self.client.open_sftp() as sftp, sftp.open(path) as handle:
            found = json.loads(handle.read())
        if not isinstance(found, dict):
            raise NodeError(f"{path} on {self.hook.remote_host} holds no JSON object")
        return found

    def put(self, data: bytes, path: str) -> None:
        """Write a file over SFTP; its folder must exist."""
        with self.client.open_sftp() as sftp:
            sftp.putfo(io.BytesIO(data), path)


def on_each(nodes: Sequence[Node], work: Callable[[Node, NodeConnection], T]) -> dict[str, T]:
    """Do work on several nodes at once, each over a connection of its own; return what it returned, by node name.

    All come to their end first. Raises NodeError with every node that failed, and why.
    """

    def one(node: Node) -> T | Exception:
        try:
            with NodeConnection(node.ssh_conn_id) as connection:
                return work(node, connection)
        # Whatever it is, the other nodes' outcome counts as well.
        except Exception as error:
            return error

    if not nodes:
        return {}
    with ThreadPoolExecutor(min(len(nodes), NODES_AT_ONCE)) as pool:
        outcomes = dict(zip([node.name for node in nodes], pool.map(one, nodes), strict=True))
    failed = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Exception)}
    if failed:
        reasons = (f"{name}: {error or type(error).__name__}" for name, error in failed.items())
        raise NodeError("\n".join(reasons)) from next(iter(failed.values()))
    return {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, Exception)}
