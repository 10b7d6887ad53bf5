"""Weights between Hugging Face's format and the trainer's."""

from __future__ import annotations

import shlex

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.commands.train import CPU_ENVIRONMENT
from include.regression.config import RunSpec

CONVERT_TIMEOUT_S = 7200


def why_no_weight_conversion(spec: RunSpec) -> str | None:
    """Say why the base weights need no conversion before training; None if they do."""
    megatron = spec.suite.training.megatron
    if megatron is None:
        return "FSDP loads Hugging Face weights as they are; only Megatron needs them converted to mcore"
    if megatron.weights == "hf":
        return "Megatron reads the Hugging Face weights through mbridge (training.megatron.weights: hf)"
    return None


def weights(spec: RunSpec) -> Command:
    """Convert the base weights to Megatron's format (result.

    The folder). One process converts; Megatron shards them as it loads.
    """
    target = shlex.quote(spec.mcore_model)
    converter = [spec.python("train"), f"{spec.source_dir('verl')}/scripts/converter_hf_to_mcore.py"]
    converter += [f"--hf_model_path={spec.base_model}", f"--output_path={spec.mcore_model}.converting"]
    converter += ["--use_cpu_initialization", "--trust_remote_code"]
    script = "\n".join(
        [
            *spec.cluster.setup,
            # Finished weights are kept: the folder gets its name when it is whole.
            f"if ! test -d {target}; then",
            f"rm -rf {target}.converting",
            shlex.join(converter),
            f"mv {target}.converting {target}",
            "fi",
            f'echo \'{{"directory": "\'{target}\'"}}\' > "$RESULT_FILE"',
        ]
    )
    return Command(script, job_environment(spec, "convert-weights"), CONVERT_TIMEOUT_S)


def hf_dir(spec: RunSpec, checkpoint_dir: str) -> str:
    """Folder of the trained weights in Hugging Face format: where Megatron with mbridge saved them, else where we merge them to."""
    megatron = spec.suite.training.megatron
    if megatron and megatron.weights == "hf":
        return f"{checkpoint_dir}/{spec.release.launcher.megatron_weights}"
    return f"{checkpoint_dir}/hf"


def merge(spec: RunSpec, checkpoint_dir: str) -> Command:
    """Convert with the release's merger where the trainer saved shards, then load and check (result.

    Include/node/check_weights.py).
    """
    target = hf_dir(spec, checkpoint_dir)
    merging = []
    if target == f"{checkpoint_dir}/hf":
        merger = [part.format(verl=spec.source_dir("verl")) for part in spec.release.launcher.merger]
        merger += [f"--backend={spec.suite.training.backend}", f"--local_dir={checkpoint_dir}/actor", f"--target_dir={target}"]
        merging = [f"rm -rf {shlex.quote(target)}", shlex.join([spec.python("train"), *merger])]
    check = ["--base", spec.base_model, "--trained", target]
    script = node_script(spec, "check_weights", *check, python=spec.python("train"), before=merging)
    variables = {**job_environment(spec, "convert"), **(CPU_ENVIRONMENT if spec.suite.stack == "cpu" else {})}
    return Command(script, variables, CONVERT_TIMEOUT_S)
