"""The training: verl's Hydra overrides and the Ray job that runs them."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from include.regression.commands.ray import driver_log
from include.regression.commands.ray import environment as ray_environment
from include.regression.commands.shell import JOB_TAG, job_environment
from include.regression.config import RunSpec
from include.regression.config.suite import Override

#: Overrides that every training on a CPU needs; each was found by what breaks without it.
CPU_OVERRIDES: dict[str, Override] = {
    # FSDP1 refuses a CPU ("Cannot access accelerator device").
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.ref.strategy": "fsdp2",
    "actor_rollout_ref.actor.fsdp_config.model_dtype": "float32",
    "actor_rollout_ref.actor.fsdp_config.dtype": "float32",
    "actor_rollout_ref.actor.use_torch_compile": False,
    # flash-attention, and the padding-free path built on it, exist for accelerators only.
    "actor_rollout_ref.model.use_remove_padding": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    # vLLM: other types than float32 take a packed path that verl cannot sync weights into; there is no sleep mode.
    "actor_rollout_ref.rollout.dtype": "float32",
    "actor_rollout_ref.rollout.free_cache_engine": False,
    "+actor_rollout_ref.rollout.enable_sleep_mode": False,
    # One worker of each kind: each is a process of 0.5 GB that imports torch for 10 s.
    "actor_rollout_ref.rollout.agent.num_workers": 1,
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "data.dataloader_num_workers": 0,
    "trainer.v1.sampler.custom_sampler.path": "pkg://verl_cpu.replay_buffer",
    "trainer.v1.sampler.custom_sampler.name": "QuickPollReplayBuffer",
}

#: Environment of verl on a CPU; see include/node/verl_cpu.
CPU_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    # Training engines are registered for cuda and npu only; the FSDP engine itself is device-neutral.
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_ENGINE_VENDOR": "nvidia",
}


@dataclass(frozen=True)
class RayJob:
    """A Ray job to submit. ``metrics_file`` and ``log_file`` are paths on the node, ``checkpoint_dir`` is this attempt's own."""

    submission_id: str
    entrypoint: str
    runtime_env: dict[str, Any]
    metadata: dict[str, str]
    metrics_file: str
    log_file: str
    checkpoint_dir: str
    timeout_s: int


def attempt_dir(spec: RunSpec, attempt: int) -> str:
    """Folder of one attempt: an attempt never sees another one's checkpoints, so verl cannot resume from them by itself."""
    return f"{spec.run_dir}/training/attempt-{attempt}"


def overrides(spec: RunSpec, attempt: int) -> dict[str, Override]:
    """Hydra overrides of one attempt.

    Validation and checkpoints run at the last step only (``test_freq``, ``save_freq``), so that perf/time_per_step means the same
    in every release. The suite's own overrides win over all others.
    """
    training, rollout = spec.suite.training, "actor_rollout_ref.rollout"
    length = training.prompt_tokens + training.response_tokens
    batch = training.prompts_per_step * training.samples_per_prompt
    values: dict[str, Override] = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.use_kl_in_reward": False,
        "data.train_files": training.train_file or f"{spec.data_dir}/train.parquet",
        "data.val_files": training.validation_file or f"{spec.data_dir}/validation.parquet",
        "data.train_batch_size": training.prompts_per_step,
        "data.max_prompt_length": training.prompt_tokens,
        "data.max_response_length": training.response_tokens,
        "data.seed": training.seed,
        "actor_rollout_ref.model.path": spec.base_model,
        "actor_rollout_ref.actor.optim.lr": training.learning_rate,
        "actor_rollout_ref.actor.ppo_mini_batch_size": training.prompts_per_step,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": training.micro_batch or batch,
        "actor_rollout_ref.actor.use_kl_loss": False,
        f"{rollout}.name": "vllm",
        f"{rollout}.n": training.samples_per_prompt,
        f"{rollout}.tensor_model_parallel_size": training.tensor_parallel,
        f"{rollout}.max_model_len": length,
        f"{rollout}.max_num_batched_tokens": max(length, 4096),
        f"{rollout}.enforce_eager": True,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": training.micro_batch or batch,
        "trainer.device": spec.suite.stack,
        "trainer.nnodes": len(spec.cluster.nodes),
        "trainer.n_gpus_per_node": spec.cluster.head.devices,
        "trainer.logger": '["console","file"]',
        "trainer.project_name": spec.suite.name,
        "trainer.experiment_name": spec.run,
        "trainer.default_local_dir": f"{attempt_dir(spec, attempt)}/checkpoints",
        "trainer.resume_mode": "disable",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": training.steps,
        "trainer.total_epochs": 1_000_000,
        "trainer.total_training_steps": training.steps,
    }
    if spec.suite.stack == "cpu":
        values |= CPU_OVERRIDES
    return values | training.overrides


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
        **job_environment(spec, "train"),
        **ray_environment(spec),
        **(CPU_ENVIRONMENT if spec.suite.stack == "cpu" else {}),
        "VERL_FILE_LOGGER_PATH": metrics_file,
    }
    command = [spec.python("train"), "-m", "verl.trainer.main_ppo", *render(overrides(spec, attempt))]
    return RayJob(
        submission_id=submission_id,
        entrypoint=f"mkdir -p {shlex.quote(folder)} && exec {shlex.join(command)}",
        runtime_env={"env_vars": variables},
        metadata={"run": spec.run, "attempt": str(attempt), "job": variables[JOB_TAG]},
        metrics_file=metrics_file,
        log_file=driver_log(spec, submission_id),
        checkpoint_dir=f"{folder}/checkpoints/global_step_{spec.suite.training.steps}",
        timeout_s=spec.suite.training.timeout_min * 60,
    )
