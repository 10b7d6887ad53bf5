"""Bad input is refused with the field, the value and the fix, before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from include.regression.config import Catalogue, ConfigError, RunSpec, resolve
from include.regression.config.loading import INCLUDE


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """A copy of the real catalogue that a test may spoil."""
    for room in ("releases", "clusters", "suites"):
        (tmp_path / room).mkdir()
        for file in (INCLUDE / room).glob("*.yaml"):
            (tmp_path / room / file.name).write_text(file.read_text())
    return Catalogue(tmp_path)


def change(catalogue: Catalogue, room: str, name: str, **dotted: Any) -> None:
    """Set fields of a YAML file; ``training__steps=3`` sets training.steps."""
    path = catalogue.root / room / f"{name}.yaml"
    data = yaml.safe_load(path.read_text())
    for key, value in dotted.items():
        place, *rest = data, *key.split("__")
        for part in rest[:-1]:
            place = place[part]
        place[rest[-1]] = value
    path.write_text(yaml.safe_dump(data))


def test_the_real_suite_resolves_and_survives_json(spec: RunSpec) -> None:
    assert RunSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert spec.release.name == "v0.9.1"
    assert spec.environment_dir("train") == "/nowhere/wd/environments/train-train-cpu-v0.9.1"


@pytest.mark.parametrize(
    ("arguments", "field", "hint"),
    [
        ({"suite": "tiny_grpo_cp"}, "suite", "did you mean 'tiny_grpo_cpu'?"),
        ({"suite": "tiny_grpo_cpu", "release": "v0.9.2"}, "release", "v0.9.1"),
        ({"suite": "tiny_grpo_cpu", "cluster": "desktop"}, "cluster", "laptop"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(arguments: dict[str, str], field: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(Catalogue(), "x", **arguments)
    assert caught.value.field == field
    assert hint in caught.value.fix
    assert repr(arguments[field]) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"lengths__max_model_len": 448}, "lengths.max_model_len", "set lengths.max_model_len to 512"),
        ({"lengths__output": 65}, "lengths.max_model_len", "set lengths.max_model_len to 513"),
        ({"model__heads": 3, "training__tensor_parallel": 2}, "training.tensor_parallel", "use one of 1"),
        ({"training__tensor_parallel": 2}, "training.tensor_parallel", "choose a larger cluster"),
        ({"serving__data_parallel": 2}, "serving.tensor_parallel", "choose a larger cluster"),
        ({"stack": "npu"}, "cluster", "choose a cluster of kind npu"),
        ({"training__warmup_steps": 16}, "training.warmup_steps", "below 16"),
        ({"model__path": "/models/x"}, "model", "exactly one"),
    ],
)
def test_a_suite_that_cannot_run_is_refused(catalogue: Catalogue, changes: dict[str, Any], field: str, fix: str) -> None:
    change(catalogue, "suites", "tiny_grpo_cpu", **changes)
    with pytest.raises(ConfigError) as caught:
        resolve(catalogue, "x", "tiny_grpo_cpu")
    assert caught.value.field == field
    assert fix in caught.value.fix


def test_a_release_without_the_stack_is_refused(catalogue: Catalogue) -> None:
    change(catalogue, "releases", "v0.9.1", stacks={})
    with pytest.raises(ConfigError, match="has no cpu stack"):
        resolve(catalogue, "x", "tiny_grpo_cpu")


def test_a_misspelt_field_names_the_file_and_the_field(catalogue: Catalogue) -> None:
    change(catalogue, "suites", "tiny_grpo_cpu", training__stepz=3)
    with pytest.raises(ConfigError) as caught:
        catalogue.suite("tiny_grpo_cpu")
    assert caught.value.where == "include/suites/tiny_grpo_cpu.yaml"
    assert caught.value.field == "training.stepz"


def test_broken_yaml_names_the_file(catalogue: Catalogue) -> None:
    (catalogue.root / "suites" / "torn.yaml").write_text("version: [1\n")
    with pytest.raises(ConfigError, match=r"include/suites/torn\.yaml.*not YAML"):
        catalogue.suite("torn")


def test_a_variable_without_value_is_named(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERL_REGRESSION_WORK_DIR")
    with pytest.raises(ConfigError, match=r"VERL_REGRESSION_WORK_DIR.*not set"):
        catalogue.cluster("laptop")


def test_ray_ports_must_not_lie_in_the_worker_range(catalogue: Catalogue) -> None:
    change(catalogue, "clusters", "laptop", ray_ports__gcs=6500)
    with pytest.raises(ConfigError, match="gcs 6500 lies inside the worker range"):
        catalogue.cluster("laptop")
