"""What a node is asked: include/node/probe.py and reach.py, run from standard input; and how their answers are read."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from include.regression.config import Cluster, Node
from include.regression.parsers.nvidia_smi import QUERY
from include.regression.preflight.need import Need
from include.regression.preflight.ports import named_ports

SCRIPTS = Path(__file__).resolve().parents[2] / "node"

#: Prints the clock (Unix time) and proves that the login shell runs what it is given.
CLOCK_MARK = "VERL-REGRESSION-CLOCK"
CLOCK = f"bash -c 'echo; echo {CLOCK_MARK}; date +%s.%N'"


class NoAnswer(Exception):
    """The output holds no answer; the message is what it holds instead."""


@dataclass(frozen=True)
class Script:
    """A command line, and what it reads from its standard input; ``mark`` stands on the line before its answer."""

    line: str
    stdin: bytes
    mark: str


def facts(need: Need, node: Node) -> Script:
    """Ask for the facts that include/regression/preflight/observed.py lists."""
    question = {
        "kind": need.cluster.kind,
        "work_dir": need.cluster.work_dir,
        "address": node.address,
        "peers": [other.address for other in need.cluster.nodes if other.name != node.name],
        "ports": sorted(named_ports(need.cluster, node.name)),
        "pythons": list(need.pythons),
        "environments": list(need.environments.values()),
        "files": need.files,
        "nvidia_smi": ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
    }
    return _script(need.cluster, "probe", "VERL-REGRESSION-FACTS", [json.dumps(question)], node.environment)


def listen(need: Need, node: Node, token: str, ports: list[int]) -> Script:
    """Listen on the node's cluster address until standard input ends."""
    question = {"address": node.address, "ports": ports, "work_dir": need.cluster.work_dir, "token": token, "node": node.name}
    return _script(need.cluster, "reach", "VERL-REGRESSION-REACH", ["listen", json.dumps(question)])


def connect(need: Need, targets: Mapping[str, object], token: str) -> Script:
    """Connect to all targets, and look for the markers of the others."""
    question = {"targets": targets, "work_dir": need.cluster.work_dir, "token": token}
    return _script(need.cluster, "reach", "VERL-REGRESSION-REACH", ["connect", json.dumps(question)])


def _script(cluster: Cluster, name: str, mark: str, arguments: list[str], own: Mapping[str, str] = MappingProxyType({})) -> Script:
    """Run a script from standard input, in the environment that a run's commands have, also where a ``setup`` line fails."""
    source = (SCRIPTS / f"{name}.py").read_bytes()
    run = f"import sys; exec(compile(sys.stdin.buffer.read({len(source)}), {name + '.py'!r}, 'exec'))"
    lines = [f"export {key}={shlex.quote(value)}" for key, value in {**cluster.env, **own}.items()]
    lines.append("SETUP_FAILED=")
    lines += [f'{{ {line}\n}} >&2 || SETUP_FAILED="$SETUP_FAILED {number}"' for number, line in enumerate(cluster.setup)]
    python = shlex.quote(cluster.python)
    lines += ["export SETUP_FAILED", f"PYTHON={python}; command -v {python} >/dev/null || PYTHON=python3"]
    lines.append(f'exec "$PYTHON" {shlex.join(["-c", run, *arguments])}')
    return Script(f"bash -c {shlex.quote(chr(10).join(lines))}", source, mark)


def answer(output: str, mark: str) -> Any:
    """Take the JSON after the mark; a login shell may print before it. Raises NoAnswer if there is none."""
    _, found, rest = output.rpartition(f"\n{mark}\n")
    if not found or not rest.strip():
        raise NoAnswer(output.strip()[-300:] or "it printed nothing")
    return json.loads(rest.splitlines()[0])
