"""The training: verl's Hydra overrides and the Ray job that runs them."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from include.regression.commands.overrides import canonical, translate
from include.regression.commands.ray import driver_log
from include.regression.commands.ray import environment as ray_environment
from include.regression.commands.shell import JOB_TAG, Command, job_environment, shared_environment
from include.regression.config import RunSpec
from include.regression.config.release import Override

#: Environment of verl on a CPU; see include/node/verl_cpu.
CPU_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    # Training engines are registered for cuda and npu only; the FSDP engine itself is device-neutral.
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_ENGINE_VENDOR": "nvidia",
}


@dataclass(frozen=True)
class RayJob:
    """A Ray job to submit.

    ``metrics_file`` and ``log_file`` are paths on the node; a release without file logger has its metrics in the log (``console``).
    ``checkpoint_dir`` is this attempt's own.
    """

    submission_id: str
    entrypoint: str
    runtime_env: dict[str, Any]
    metadata: dict[str, str]
    metrics_file: str
    console: bool
    log_file: str
    checkpoint_dir: str
    timeout_s: int


def attempt_dir(spec: RunSpec, attempt: int) -> str:
    """Folder of one attempt: an attempt never sees another one's checkpoints, so verl cannot resume from them by itself."""
    return f"{spec.run_dir}/training/attempt-{attempt}"


def overrides(spec: RunSpec, attempt: int) -> dict[str, Override]:
    """Hydra overrides of one attempt, in the release's names. Raises NotApplicable for a release that cannot do what they say."""
    values = canonical(spec) | {"trainer.default_local_dir": f"{attempt_dir(spec, attempt)}/checkpoints"}
    return translate(values, spec.release.launcher, spec.release.name)


def tidy(spec: RunSpec, verdict: str | None) -> Command:
    """Remove the checkpoints of a run that passed, unless it is to keep them; all others are evidence."""
    folder = f"{spec.run_dir}/training"
    if verdict == "passed" and not spec.changes.keep_checkpoint:
        act = f"rm -rf {shlex.quote(folder)}/attempt-*/checkpoints"
    else:
        act = f"echo {shlex.quote(f'kept: the checkpoints in {folder}')}"
    return Command(f"{act}\necho '{{}}' > \"$RESULT_FILE\"", job_environment(spec, "tidy"))


def render(values: dict[str, Override]) -> list[str]:
    """Write overrides as Hydra arguments (true, false and numbers in Hydra's spelling)."""
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()]


def job(spec: RunSpec, attempt: int) -> RayJob:
    """Render the Ray job of one attempt.

    Variables that workers need stand in the job's runtime_env: the driver's environment does not reach them.
    """
    folder = attempt_dir(spec, attempt)
    metrics_file = f"{folder}/metrics.jsonl"
    submission_id = f"{spec.run}.train.{attempt}"
    variables = {
        **shared_environment(spec, "train"),
        **ray_environment(spec),
        **(CPU_ENVIRONMENT if spec.suite.stack == "cpu" else {}),
        "VERL_FILE_LOGGER_PATH": metrics_file,
    }
    launcher = spec.release.launcher
    select = launcher.select[spec.suite.training.backend]
    command = [spec.python("train"), "-m", launcher.entry_module, *select, *render(overrides(spec, attempt))]
    return RayJob(
        submission_id=submission_id,
        entrypoint=f"mkdir -p {shlex.quote(folder)} && exec {shlex.join(command)}",
        runtime_env={"env_vars": variables},
        metadata={"run": spec.run, "attempt": str(attempt), "job": variables[JOB_TAG]},
        metrics_file=metrics_file if launcher.file_logger else driver_log(spec, submission_id),
        console=not launcher.file_logger,
        log_file=driver_log(spec, submission_id),
        checkpoint_dir=f"{folder}/checkpoints/global_step_{spec.suite.training.steps}",
        timeout_s=spec.suite.training.timeout_min * 60,
    )
