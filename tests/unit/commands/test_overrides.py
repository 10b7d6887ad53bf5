"""Proof without hardware: every key that is rendered, for every release x suite that applies, is one of that release's own."""

from __future__ import annotations

import pytest

from include.regression.commands import train
from include.regression.commands.overrides import canonical, translate
from include.regression.config import Catalogue, NotApplicable, RunSpec, draft
from include.regression.config.release import Launcher
from include.regression.plan import why_not_applicable
from tests.conftest import DATA

CATALOGUE = Catalogue()
CELLS = [
    spec
    for suite in CATALOGUE.names("suites")
    for release in CATALOGUE.names("releases")
    if why_not_applicable(spec := draft(CATALOGUE, "run-1", suite, release)) is None
]

#: Keys that no release's configuration has and that are added on purpose.
DELIBERATE = {
    # Read all the same, by data_config.get("seed") in main_ppo.py up to v0.6.0.
    "+data.seed",
    "+actor_rollout_ref.model.override_config.attn_implementation",
    "+actor_rollout_ref.rollout.enable_sleep_mode",
    # Handed on to Megatron's TransformerConfig as they are.
    "+actor_rollout_ref.actor.megatron.override_transformer_config.use_flash_attn",
    "+actor_rollout_ref.actor.megatron.override_transformer_config.moe_router_dtype",
    "+actor_rollout_ref.actor.megatron.override_transformer_config.moe_permute_fusion",
}


def known_keys(backend: str, release: str) -> set[str]:
    lines = (DATA / "config_keys" / backend / f"{release}.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("spec", CELLS, ids=lambda spec: f"{spec.suite.name}-{spec.release.name}")
def test_every_override_exists_in_the_release_or_is_a_deliberate_addition(spec: RunSpec) -> None:
    keys = known_keys(spec.suite.training.backend, spec.release.name)
    for key in train.overrides(spec, attempt=1):
        if key.startswith("+"):
            assert key in DELIBERATE
            assert key[1:] not in keys, f"{key} exists: the plus would be an error in Hydra"
        else:
            assert key in keys


def test_every_kind_of_device_and_backend_is_covered() -> None:
    found = {(spec.suite.stack, spec.suite.training.backend) for spec in CELLS}
    assert found == {("cpu", "fsdp"), ("cuda", "fsdp"), ("npu", "fsdp"), ("npu", "megatron")}
    assert {spec.release.name for spec in CELLS} == set(CATALOGUE.names("releases"))


@pytest.mark.parametrize("spec", CELLS, ids=lambda spec: f"{spec.suite.name}-{spec.release.name}")
def test_what_changed_between_releases_is_set_in_each(spec: RunSpec) -> None:
    """Their defaults differ between releases; left alone, each would look like a regression."""
    values = train.overrides(spec, attempt=1)
    rollout = "actor_rollout_ref.rollout"
    assert values[f"{rollout}.mode"] == spec.release.launcher.rollout_mode
    for key in ("model.use_remove_padding", "rollout.enforce_eager", "rollout.max_num_seqs", "actor.entropy_coeff"):
        assert f"actor_rollout_ref.{key}" in values
    assert (f"{rollout}.calculate_log_probs" in values) == (spec.release.name != "v0.4.0")
    assert ("trainer.use_v1" in values) == (spec.release.name in {"v0.9.0", "v0.9.1", "main"})
    assert values["trainer.test_freq"] == -1
    assert values["trainer.save_freq"] == values["trainer.total_training_steps"]


@pytest.mark.parametrize(
    ("release", "key"),
    [
        ("v0.4.0", "actor_rollout_ref.actor.checkpoint.contents"),
        ("v0.4.1", "actor_rollout_ref.actor.checkpoint.save_contents"),
        ("v0.6.0", "+data.seed"),
        ("v0.6.1", "data.seed"),
        ("v0.7.0", "custom_reward_function.path"),
        ("v0.7.1", "reward.custom_reward_function.path"),
    ],
)
def test_each_release_is_spoken_to_in_its_own_names(release: str, key: str) -> None:
    spec = draft(CATALOGUE, "run-1", "qwen3_8b_grpo_fsdp_a2", release)
    values = canonical(spec) | {"reward.custom_reward_function.path": "pkg://x"}
    assert key in translate(values, spec.release.launcher, release)


def test_a_key_that_a_release_lacks_is_left_out_or_the_reason_why_not() -> None:
    launcher = Launcher(rollout_mode="sync", file_logger=False, absent={"a.b": "vanilla", "c.d": None})
    assert translate({"a.b": "vanilla", "c.d": 5, "e": 1}, launcher, "v0.4.0") == {"e": 1}
    with pytest.raises(NotApplicable, match=r"v0\.4\.0 has no a\.b and behaves as 'vanilla'; the suite asks for 'other'"):
        translate({"a.b": "other"}, launcher, "v0.4.0")


def test_the_cuda_twin_differs_in_its_device_alone() -> None:
    npu, cuda = CATALOGUE.suite("qwen3_8b_grpo_fsdp_a2"), CATALOGUE.suite("qwen3_8b_grpo_fsdp_cuda")
    for field in ("version", "model", "lengths", "training", "serving", "evaluation", "judgement"):
        assert getattr(npu, field) == getattr(cuda, field)


@pytest.mark.parametrize(
    ("reason", "suite", "release"),
    [
        ("Megatron on Ascend is not supported by verl v0.5.0", "npu", "v0.5.0"),
        ("has no registry of platforms", "cpu", "v0.8.0"),
        ("published on the package index only", "npu", "v0.9.1"),
    ],
)
def test_a_cell_that_does_not_apply_says_why(reason: str, suite: str, release: str) -> None:
    backend = "megatron" if release == "v0.5.0" else "fsdp"
    found = CATALOGUE.release(release).why_not(suite, backend, "grpo")  # type: ignore[arg-type]
    assert found is not None
    assert reason in found
