"""From the trainer's checkpoint to a Hugging Face folder."""

from __future__ import annotations

import shlex

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.commands.train import CPU_ENVIRONMENT
from include.regression.config import RunSpec

CONVERT_TIMEOUT_S = 7200


def why_no_weight_conversion(spec: RunSpec) -> str | None:
    """Say why the base weights need no conversion before training; None if they do (Megatron)."""
    if spec.suite.training.backend == "fsdp":
        return "FSDP loads Hugging Face weights as they are; only Megatron needs them converted to mcore"
    return None


def hf_dir(checkpoint_dir: str) -> str:
    """Folder of the converted weights, beside the checkpoint they were made from."""
    return f"{checkpoint_dir}/hf"


def merge(spec: RunSpec, checkpoint_dir: str) -> Command:
    """Convert with ``verl.model_merger``, then load and check the result (result: include/node/check_weights.py)."""
    target = hf_dir(checkpoint_dir)
    merger = [
        spec.python("train"),
        "-m",
        "verl.model_merger",
        "merge",
        f"--backend={spec.suite.training.backend}",
        f"--local_dir={checkpoint_dir}/actor",
        f"--target_dir={target}",
    ]
    check = ["--base", spec.base_model, "--trained", target]
    script = "\n".join(
        [
            f"rm -rf {shlex.quote(target)}",
            shlex.join(merger),
            node_script(spec, "check_weights", *check, python=spec.python("train")),
        ]
    )
    variables = {**job_environment(spec, "convert"), **(CPU_ENVIRONMENT if spec.suite.stack == "cpu" else {})}
    return Command(script, variables, CONVERT_TIMEOUT_S)
