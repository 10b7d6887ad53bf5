"""What all commands share: quoting, the tags of our processes, and the node scripts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from include.regression.config import Node, RunSpec

#: Processes of ours are found by these (include/node/processes.py).
HOME_TAG = "VERL_REGRESSION_HOME"
JOB_TAG = "VERL_REGRESSION_JOB"


@dataclass(frozen=True)
class Command:
    """A bash script for a node, the environment it needs, and how long it may take (seconds)."""

    script: str
    environment: dict[str, str] = field(default_factory=dict)
    timeout_s: int = 600


def job_environment(spec: RunSpec, job: str, node: Node | None = None) -> dict[str, str]:
    """Environment of every process that a job of this run starts on a node (the head if none is named)."""
    return {**shared_environment(spec, job), **(node or spec.cluster.head).environment}


def shared_environment(spec: RunSpec, job: str) -> dict[str, str]:
    """What is the same on every node: the cluster's variables, plus our tags.

    PYTHONDONTWRITEBYTECODE is emptied because a node that sets it would compile every import anew, in every process: minutes
    per run. SPT_NOENV keeps setproctitle (vLLM) from overwriting the environment block that holds the tags.
    """
    return {
        **spec.cluster.env,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONUNBUFFERED": "1",
        "SPT_NOENV": "1",
        HOME_TAG: spec.work_dir,
        JOB_TAG: f"{spec.run}/{job}",
    }


def node_script(spec: RunSpec, module: str, *arguments: str, python: str | None = None, before: Sequence[str] = ()) -> str:
    """Call a script of the kit that was copied to the node, every argument quoted, after the cluster's ``setup`` and ``before``."""
    line = shlex.join([python or spec.cluster.python, "-m", f"node.{module}", *arguments])
    return "\n".join([*spec.cluster.setup, *before, f"cd {shlex.quote(spec.kit_dir)}", line])
