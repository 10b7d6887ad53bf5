"""Ask all nodes of a cluster at once, over SSH, and judge what they say: the work behind the preflight and ``make doctor``."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import paramiko
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from include.regression.config import Node
from include.regression.preflight import Finding, Need, NodeFacts, Observed, judge, question
from include.regression.preflight.network_checks import targets
from include.regression.preflight.observed import Fault
from include.regression.preflight.ports import groups
from verl_regression.node import NODES_AT_ONCE, NodeConnection

CONNECT_TIMEOUT_S = 5
#: The longest that a node may take for its facts; interpreters and npu-smi on a loaded node take seconds.
ANSWER_TIMEOUT_S = 60


class Unreachable(Exception):
    """A node cannot be asked."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def inspect(need: Need) -> tuple[list[Observed], list[Finding]]:
    """Ask every node for its facts, then whom it reaches; return what was observed, in the file's order, and what is wrong."""
    nodes = need.cluster.nodes
    with ExitStack() as connections, ThreadPoolExecutor(min(len(nodes), NODES_AT_ONCE)) as pool:

        def first(node: Node) -> tuple[Observed, paramiko.SSHClient | None]:
            return _meet(need, node, connections)

        met = list(pool.map(first, nodes))
        observed = [seen for seen, _ in met]
        clients = {seen.node: client for seen, client in met if client is not None}
        if len(nodes) > 1:
            observed = _reach(need, observed, clients, pool)
    return observed, judge(need, observed)


def _meet(need: Need, node: Node, connections: ExitStack) -> tuple[Observed, paramiko.SSHClient | None]:
    """Connect, read the clock, ask for the facts."""
    try:
        client = connections.enter_context(_connected(node))
        ahead, error = _clock(client)
        facts = NodeFacts.model_validate(_ask(node, client, question.facts(need, node)))
    except Unreachable as problem:
        return Observed(node=node.name, fault=problem.fault), None
    return Observed(node=node.name, facts=facts, clock_s=ahead, clock_error_s=error), client


@contextmanager
def _connected(node: Node) -> Iterator[paramiko.SSHClient]:
    """Open one SSH connection. Raises Unreachable with what is wrong; a node that is down is found without SSH's own retries."""

    def fail(kind: Any, message: str) -> Unreachable:
        return Unreachable(Fault(kind=kind, message=message))

    try:
        connection = NodeConnection(node.ssh_conn_id, conn_timeout=CONNECT_TIMEOUT_S, attempts=1)
    except (AirflowNotFoundException, AirflowException, ValueError) as error:
        raise fail("connection", f"Airflow connection {node.ssh_conn_id!r} cannot be used: {error}") from error
    hook = connection.hook
    where = f"{hook.remote_host}:{hook.port}"
    if not hook.host_proxy_cmd:
        try:
            socket.create_connection((hook.remote_host, hook.port), timeout=CONNECT_TIMEOUT_S).close()
        except OSError as error:
            raise fail("down", f"no SSH server answers at {where}: {error}") from error
    try:
        connection.__enter__()
    except paramiko.BadHostKeyException as error:
        changed = (
            f"{where} shows another host key ({error.key.get_name()} {error.key.get_base64()[:24]}...) than the connection has"
        )
        raise fail("host_key", changed) from error
    except paramiko.AuthenticationException as error:
        raise fail(
            "key", f"{where} refuses the key of connection {node.ssh_conn_id!r} for login {hook.username!r}: {error}"
        ) from error
    except (paramiko.SSHException, OSError, AirflowException) as error:
        kind = "host_key" if "known_hosts" in str(error) else "down"
        raise fail(kind, f"SSH to {where} fails: {error}") from error
    try:
        yield connection.client
    finally:
        connection.client.close()


def _clock(client: paramiko.SSHClient) -> tuple[float, float]:
    """Return how far the node's clock is ahead of ours, and how far that may be wrong: half of the time the answer took."""
    before = time.time()
    output = _run(client, question.CLOCK, b"", 20)
    after = time.time()
    try:
        there = float(question.answer(output, question.CLOCK_MARK))
    except question.NoAnswer as error:
        message = f"the login shell does not run a command: {error}"
        raise Unreachable(Fault(kind="shell", message=message)) from error
    return there - (before + after) / 2, (after - before) / 2


def _ask(node: Node, client: paramiko.SSHClient, script: question.Script) -> Any:
    output = _run(client, script.line, script.stdin, ANSWER_TIMEOUT_S)
    try:
        return question.answer(output, script.mark)
    except question.NoAnswer as error:
        raise Unreachable(Fault(kind="python", message=f"our probe does not run on {node.name}: {error}")) from error


def _run(client: paramiko.SSHClient, line: str, data: bytes, timeout_s: float) -> str:
    """Run a command to its end; return its output, errors last."""
    stdin, stdout, stderr = client.exec_command(line, timeout=timeout_s)
    try:
        stdin.write(data)
        stdin.channel.shutdown_write()
        out: str = stdout.read().decode(errors="replace")
        return out if out.strip() else str(stderr.read().decode(errors="replace"))
    except TimeoutError:
        return f"no end after {timeout_s:g} s"
    except OSError as error:
        return f"the connection broke: {error}"


def _reach(
    need: Need, observed: Sequence[Observed], clients: dict[str, paramiko.SSHClient], pool: ThreadPoolExecutor
) -> list[Observed]:
    """Let every node that has its address listen, then all connect to each other at once; the listeners end with their input."""
    token = secrets.token_hex(4)
    nodes = {node.name: node for node in need.cluster.nodes}
    with ExitStack() as listeners:

        def listening(seen: Observed) -> Observed:
            if seen.facts is None or not seen.facts.can_bind:
                return seen
            ports = _tried(need, seen.node)
            found = listeners.enter_context(_listener(clients[seen.node], question.listen(need, nodes[seen.node], token, ports)))
            return seen.model_copy(update={"chosen_port": found.get("chosen"), "marked": found.get("marked", False)})

        with_listeners = list(pool.map(listening, observed))

        def connecting(seen: Observed) -> Observed:
            if seen.facts is None:
                return seen
            asked = question.connect(need, targets(need.cluster, seen.node, with_listeners), token)
            found = _ask(nodes[seen.node], clients[seen.node], asked)
            return Observed.model_validate({**seen.model_dump(), **found})

        return list(pool.map(_kept(connecting), with_listeners))


def _kept(work: Callable[[Observed], Observed]) -> Callable[[Observed], Observed]:
    """Turn a node that is lost on the way into one that could not be asked."""

    def one(seen: Observed) -> Observed:
        try:
            return work(seen)
        except Unreachable as problem:
            return Observed(node=seen.node, fault=problem.fault)

    return one


def _tried(need: Need, node: str) -> list[int]:
    return [port for group in groups(need.cluster, node, None) for port in group.tried]


@contextmanager
def _listener(client: paramiko.SSHClient, script: question.Script) -> Iterator[dict[str, Any]]:
    """Start a listener, wait until it says what it listens on, and end it by closing its input."""
    stdin, stdout, _ = client.exec_command(script.line, timeout=ANSWER_TIMEOUT_S)
    stdin.write(script.stdin)
    stdin.flush()
    output = "\n"
    for line in stdout:
        output += line
        if output.endswith("}\n") and f"\n{script.mark}\n" in output:
            break
    try:
        yield question.answer(output, script.mark)
    except question.NoAnswer:
        yield {}
    finally:
        stdin.channel.shutdown_write()
        with suppress(OSError):
            stdout.read()  # to its end: the marker is gone then
