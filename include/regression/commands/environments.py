"""Building the node environments, and stopping what runs."""

from __future__ import annotations

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import Node, RunSpec

#: vllm-ascend compiles its kernels on the node.
BUILD_TIMEOUT_S = 7200


def build(spec: RunSpec, environment: str) -> Command:
    """Build or reuse the ``train`` or the ``eval`` environment (result: include/node/environment.py)."""
    training = environment == "train"
    stack = spec.stack
    arguments = [
        "--into",
        spec.environment_dir(environment),
        "--lock",
        f"{spec.kit_dir}/locks/{stack.train_lock if training else stack.eval_lock}",
        "--python",
        spec.interpreter(environment),
        "--tools",
        f"{spec.work_dir}/tools",
    ]
    # The evaluation client needs no accelerator: its torch is the CPU's on every kind of cluster.
    if training and spec.suite.stack != "cpu":
        arguments.append("--accelerator")
    if spec.cluster.wheels:
        arguments += ["--wheels", spec.cluster.wheels]
    for wheel in stack.wheels if training else ():
        arguments += ["--wheel", wheel]
    for source in stack.sources if training else ():
        arguments += ["--source", source.model_dump_json(exclude_defaults=True)]
    for prefix, mirror in spec.cluster.mirrors.items() if training and stack.sources else ():
        arguments += ["--mirror", f"{prefix}={mirror}"]
    for plugin in stack.plugins if training else ():
        arguments += ["--plugin", f"{spec.kit_dir}/node/{plugin}"]
    for module in stack.train_smoke if training else stack.eval_smoke:
        arguments += ["--smoke", module]
    script = node_script(spec, "environment", *arguments)
    return Command(script, job_environment(spec, f"environment-{environment}"), BUILD_TIMEOUT_S)


def stop(spec: RunSpec, node: Node | None = None, job: str = "") -> Command:
    """Stop the processes of one job of this run, or of the whole run, on a node, and prove that none is left."""
    tag = f"{spec.run}/{job}" if job else spec.run
    script = node_script(spec, "processes", "stop", "--home", spec.work_dir, "--job", tag)
    return Command(script, job_environment(spec, "stop", node), timeout_s=120)
