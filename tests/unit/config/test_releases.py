"""The release files: complete, with sources, and one with the locks that they name."""

from __future__ import annotations

import re

import pytest

from include.regression.config import Catalogue
from include.regression.config.loading import INCLUDE

CATALOGUE = Catalogue()
LOCKS = INCLUDE / "releases" / "locks"
STACKS = [(name, kind) for name in CATALOGUE.names("releases") for kind in CATALOGUE.release(name).stacks]


def pin(lock: str, package: str) -> str | None:
    found = re.search(rf"^{package}==(\S+)", (LOCKS / lock).read_text(), re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize(("name", "kind"), STACKS)
def test_the_locks_are_there_and_for_the_same_python(name: str, kind: str) -> None:
    stack = CATALOGUE.release(name).stacks[kind]  # type: ignore[index]
    assert (LOCKS / stack.eval_lock).exists()
    assert (LOCKS / stack.train_lock).exists()
    if kind != "cpu":
        assert f"Python {stack.python}" in (LOCKS / stack.train_lock).with_suffix(".in").read_text().splitlines()[0]


@pytest.mark.parametrize(("name", "kind"), STACKS)
def test_every_value_names_its_source_and_what_is_unknown_is_null(name: str, kind: str) -> None:
    components = CATALOGUE.release(name).stacks[kind].components  # type: ignore[index]
    for component, found in components.items():
        if found.value is not None:
            assert found.source, component
            assert "@" in found.source or (INCLUDE / "releases" / found.source).exists(), component
    if kind == "npu":
        assert {"python", "cann", "hdk_driver", "torch", "torch_npu", "vllm", "vllm_ascend", "transformers"} <= set(components)
        assert {"triton_ascend", "megatron_lm", "mindspeed", "ray", "tensordict"} <= set(components)


@pytest.mark.parametrize("name", [name for name, kind in STACKS if kind == "npu"])
def test_what_is_pinned_is_what_is_stated_or_a_conflict_says_why_not(name: str) -> None:
    stack = CATALOGUE.release(name).stacks["npu"]
    explained = " ".join(conflict.taken for conflict in stack.conflicts)
    for component, package in (("torch", "torch"), ("torch_npu", "torch-npu"), ("transformers", "transformers")):
        stated, pinned = stack.components[component].value, pin(stack.train_lock, package)
        assert pinned
        if stated and re.fullmatch(r"[\d.]+(post\d+)?", stated):
            assert pinned == stated or pinned in explained, component


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in STACKS if kind != "cpu"])
def test_verl_itself_comes_from_its_repository_last(name: str, kind: str) -> None:
    last = CATALOGUE.release(name).stacks[kind].sources[-1]  # type: ignore[index]
    assert (last.name, last.ref) == ("verl", name)


def test_a_kind_without_a_stack_says_why() -> None:
    for name in CATALOGUE.names("releases"):
        release = CATALOGUE.release(name)
        assert set(release.stacks) | set(release.unsupported) == {"npu", "cuda", "cpu"}, name


def test_no_lock_names_an_index() -> None:
    for lock in LOCKS.glob("*.txt"):
        assert "://" not in lock.read_text(), lock.name
