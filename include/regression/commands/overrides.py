"""verl's Hydra overrides: what a suite asks for, in the newest release's names, and its translation to the run's release."""

from __future__ import annotations

from collections.abc import Mapping

from include.regression.config import NotApplicable, RunSpec
from include.regression.config.release import Algorithm, Launcher, Override

ACTOR, REF, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout"

#: What an algorithm is made of. GSPO's clip ratios and aggregation are those of verl's own recipe
#: (tests/special_npu/nightly_ci_ascend/run_gspo_qwen3_30b_megatron_npu.sh at v0.9.0).
ALGORITHMS: dict[Algorithm, dict[str, Override]] = {
    "grpo": {f"{ACTOR}.policy_loss.loss_mode": "vanilla", f"{ACTOR}.loss_agg_mode": "token-mean"},
    "gspo": {
        f"{ACTOR}.policy_loss.loss_mode": "gspo",
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
        f"{ACTOR}.clip_ratio_low": 3e-4,
        f"{ACTOR}.clip_ratio_high": 4e-4,
    },
}

#: Overrides that every training on a CPU needs; each was found by what breaks without it.
CPU: dict[str, Override] = {
    # FSDP1 refuses a CPU ("Cannot access accelerator device").
    f"{ACTOR}.strategy": "fsdp2",
    f"{REF}.strategy": "fsdp2",
    f"{ACTOR}.fsdp_config.model_dtype": "float32",
    f"{ACTOR}.fsdp_config.dtype": "float32",
    f"{ACTOR}.use_torch_compile": False,
    # flash-attention exists for accelerators only.
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    # vLLM: other types than float32 take a packed path that verl cannot sync weights into; there is no sleep mode.
    f"{ROLLOUT}.dtype": "float32",
    f"{ROLLOUT}.free_cache_engine": False,
    f"+{ROLLOUT}.enable_sleep_mode": False,
    # One worker of each kind: each is a process of 0.5 GB that imports torch for 10 s.
    f"{ROLLOUT}.agent.num_workers": 1,
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "data.dataloader_num_workers": 0,
    "trainer.v1.sampler.custom_sampler.path": "pkg://verl_cpu.replay_buffer",
    "trainer.v1.sampler.custom_sampler.name": "QuickPollReplayBuffer",
}

#: Ascend has no inductor for verl's kernels (every recipe in verl's examples switches it off).
NPU: dict[str, Override] = {f"{ACTOR}.use_torch_compile": False}

#: MindSpeed's patched attention is chosen by this switch, which is in no release's configuration.
NPU_MEGATRON: dict[str, Override] = {f"+{ACTOR}.megatron.override_transformer_config.use_flash_attn": True}


def canonical(spec: RunSpec) -> dict[str, Override]:
    """What the suite asks for, in the newest release's names.

    Everything whose default changed between releases is set, so that a changed default is no regression: the rollout's mode, eager
    execution, padding, sequences at a time, log probabilities of the rollout. Validation and checkpoints run at the last step
    only (``test_freq``, ``save_freq``), so that perf/time_per_step means the same in every release. The suite's own overrides win.
    """
    training = spec.suite.training
    length = training.prompt_tokens + training.response_tokens
    micro = training.micro_batch or training.prompts_per_step * training.samples_per_prompt
    values: dict[str, Override] = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.use_kl_in_reward": False,
        "data.train_files": training.train_file or f"{spec.data_dir}/train.parquet",
        "data.val_files": training.validation_file or f"{spec.data_dir}/{'test' if training.preprocess else 'validation'}.parquet",
        "data.train_batch_size": training.prompts_per_step,
        "data.max_prompt_length": training.prompt_tokens,
        "data.max_response_length": training.response_tokens,
        "data.filter_overlong_prompts": True,
        "data.truncation": "error",
        "data.seed": training.seed,
        "actor_rollout_ref.model.path": spec.base_model,
        "actor_rollout_ref.model.use_remove_padding": training.remove_padding,
        f"{ACTOR}.optim.lr": training.learning_rate,
        f"{ACTOR}.ppo_mini_batch_size": training.mini_batch or training.prompts_per_step,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro,
        f"{ACTOR}.entropy_coeff": 0,
        f"{ACTOR}.use_kl_loss": training.kl_loss_coef is not None,
        # v0.4.0 accepts no other contents.
        f"{ACTOR}.checkpoint.save_contents": '["model","optimizer","extra"]',
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.mode": spec.release.launcher.rollout_mode,
        f"{ROLLOUT}.n": training.samples_per_prompt,
        f"{ROLLOUT}.tensor_model_parallel_size": training.tensor_parallel,
        f"{ROLLOUT}.max_model_len": length,
        f"{ROLLOUT}.max_num_batched_tokens": max(length, 4096),
        f"{ROLLOUT}.max_num_seqs": training.max_num_seqs,
        f"{ROLLOUT}.gpu_memory_utilization": training.gpu_memory_utilization,
        f"{ROLLOUT}.enforce_eager": training.enforce_eager,
        f"{ROLLOUT}.calculate_log_probs": False,
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": micro,
        "trainer.device": spec.suite.stack,
        "trainer.nnodes": len(spec.cluster.nodes),
        "trainer.n_gpus_per_node": spec.cluster.head.devices,
        "trainer.logger": '["console","file"]' if spec.release.launcher.file_logger else '["console"]',
        "trainer.project_name": spec.suite.name,
        "trainer.experiment_name": spec.run,
        "trainer.resume_mode": "disable",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": training.steps,
        "trainer.total_epochs": 1_000_000,
        "trainer.total_training_steps": training.steps,
    }
    values |= ALGORITHMS[training.algorithm]
    if training.kl_loss_coef is not None:
        values |= {f"{ACTOR}.kl_loss_coef": training.kl_loss_coef, f"{REF}.log_prob_micro_batch_size_per_gpu": micro}
    values |= _megatron(spec) if training.megatron else _fsdp(spec)
    values |= {"cpu": CPU, "npu": NPU, "cuda": {}}[spec.suite.stack]
    return values | training.overrides


def _fsdp(spec: RunSpec) -> dict[str, Override]:
    training = spec.suite.training
    return {
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        f"{ACTOR}.ulysses_sequence_parallel_size": training.sequence_parallel,
        f"{ACTOR}.fsdp_config.param_offload": training.offload,
        f"{ACTOR}.fsdp_config.optimizer_offload": training.offload,
        f"{REF}.fsdp_config.param_offload": training.offload,
    }


def _megatron(spec: RunSpec) -> dict[str, Override]:
    training = spec.suite.training
    sizes = training.megatron
    assert sizes is not None
    values: dict[str, Override] = {
        f"{ACTOR}.megatron.grad_offload": training.offload,
        f"{ACTOR}.megatron.optimizer_offload": training.offload,
        f"{ACTOR}.megatron.override_transformer_config.recompute_granularity": "full",
        f"{ACTOR}.megatron.override_transformer_config.recompute_method": "uniform",
        f"{ACTOR}.megatron.override_transformer_config.recompute_num_layers": 1,
    }
    for role in (ACTOR, REF):
        values |= {
            f"{role}.megatron.tensor_model_parallel_size": sizes.tensor,
            f"{role}.megatron.pipeline_model_parallel_size": sizes.pipeline,
            f"{role}.megatron.context_parallel_size": sizes.context,
            f"{role}.megatron.expert_model_parallel_size": sizes.expert,
            f"{role}.megatron.expert_tensor_parallel_size": sizes.expert_tensor,
            f"{role}.megatron.param_offload": training.offload,
            f"{role}.megatron.use_mbridge": sizes.weights == "hf",
            f"{role}.megatron.vanilla_mbridge": True,
            f"{role}.megatron.use_dist_checkpointing": sizes.weights == "mcore",
        }
        if sizes.weights == "mcore":
            values[f"{role}.megatron.dist_checkpointing_path"] = spec.mcore_model
    return values | (NPU_MEGATRON if spec.suite.stack == "npu" else {})


def translate(values: Mapping[str, Override], launcher: Launcher, release: str) -> dict[str, Override]:
    """Write overrides in a release's own names, with its own settings.

    Raises NotApplicable where the release has no such key and behaves otherwise than asked.
    """
    translated: dict[str, Override] = dict(launcher.settings)
    for key, value in values.items():
        if key in launcher.absent:
            behaves = launcher.absent[key]
            if behaves is not None and behaves != value:
                raise NotApplicable(f"verl {release} has no {key} and behaves as {behaves!r}; the suite asks for {value!r}")
            continue
        translated[_name(key, launcher)] = value
    return translated


def _name(key: str, launcher: Launcher) -> str:
    """Name a key as the release does: renamed whole, or by a beginning that ends with a dot."""
    if key in launcher.renamed:
        return launcher.renamed[key]
    for old, new in launcher.renamed.items():
        if old.endswith(".") and key.startswith(old):
            return new + key.removeprefix(old)
    return key
