"""Bad input is refused with the field, the value and the fix, before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from include.regression.config import Catalogue, Changes, ConfigError, NotApplicable, RunSpec, resolve
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
        ({"training__warmup_steps": 16}, "training.steps", "train at least 18 steps"),
        ({"budget__device_hours": 3}, "budget.device_hours", "raise budget.device_hours"),
        ({"training__mini_batch": 5}, "training.mini_batch", "let it"),
        ({"training__sequence_parallel": 2}, "training.prompts_per_step", "a multiple of the replicas"),
        ({"training__megatron": {"tensor": 1}}, "training.megatron", "only for it"),
        ({"model__path": "/models/x"}, "model", "exactly one"),
    ],
)
def test_a_suite_that_cannot_run_is_refused(catalogue: Catalogue, changes: dict[str, Any], field: str, fix: str) -> None:
    change(catalogue, "suites", "tiny_grpo_cpu", **changes)
    with pytest.raises(ConfigError) as caught:
        resolve(catalogue, "x", "tiny_grpo_cpu")
    assert caught.value.field == field
    assert fix in caught.value.fix


def test_a_release_without_the_stack_is_not_applicable(catalogue: Catalogue) -> None:
    change(catalogue, "releases", "v0.9.1", stacks={})
    with pytest.raises(NotApplicable, match=r"no source states a cpu stack for verl v0\.9\.1"):
        resolve(catalogue, "x", "tiny_grpo_cpu")


def test_the_newest_release_is_the_newest_that_applies(catalogue: Catalogue) -> None:
    assert resolve(catalogue, "x", "tiny_grpo_cpu", "newest").release.name == "v0.9.1"
    assert resolve(catalogue, "x", "qwen3_8b_grpo_fsdp_a2", "newest").release.name == "v0.9.0"


def test_a_new_release_needs_one_file(catalogue: Catalogue) -> None:
    text = (catalogue.root / "releases" / "v0.9.1.yaml").read_text().replace("2026-09-20", "2026-11-30")
    (catalogue.root / "releases" / "v1.0.0.yaml").write_text(text)
    assert list(catalogue.dated_releases())[-1] == "v1.0.0"
    assert resolve(catalogue, "x", "tiny_grpo_cpu", "newest").release.name == "v1.0.0"


def test_a_release_file_that_cannot_be_read_stops_only_itself(catalogue: Catalogue) -> None:
    (catalogue.root / "releases" / "v0.5.0.yaml").write_text("released: soon\n")
    found, faults = catalogue.releases()
    assert list(faults) == ["v0.5.0"]
    assert "v0.5.0" not in catalogue.dated_releases()
    assert resolve(catalogue, "x", "tiny_grpo_cpu", "v0.9.0").release == found["v0.9.0"]
    with pytest.raises(ConfigError, match=r"include/releases/v0\.5\.0\.yaml:1: released = 'soon'"):
        resolve(catalogue, "x", "tiny_grpo_cpu", "newest")


def test_a_run_may_shorten_its_suite_and_says_so(catalogue: Catalogue) -> None:
    changes = Changes.of({"steps": 5, "repeats": 1, "datasets": ["math500"], "release": "v0.9.0", "baseline": None})
    spec = resolve(catalogue, "x", "tiny_grpo_cpu", changes=changes)
    assert spec.suite.training.steps == 5
    assert [dataset.name for dataset in spec.suite.evaluation.datasets] == ["math500"]
    assert (spec.suite.evaluation.repeats, spec.suite.evaluation.base_repeats) == (1, 1)
    assert RunSpec.model_validate(spec.model_dump(mode="json")).changes == changes


@pytest.mark.parametrize(
    ("parameters", "field", "fix"),
    [
        ({"steps": 4}, "training.steps", "train at least 5 steps"),
        ({"datasets": ["maths500"]}, "datasets", "did you mean 'math500'?"),
        ({"repeats": 0}, "repeats", "correct it in the form"),
    ],
)
def test_a_change_that_cannot_be_is_refused(catalogue: Catalogue, parameters: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(catalogue, "x", "tiny_grpo_cpu", changes=Changes.of(parameters))
    assert caught.value.field == field
    assert fix in caught.value.fix


def test_a_misspelt_field_names_the_file_and_the_field(catalogue: Catalogue) -> None:
    change(catalogue, "suites", "tiny_grpo_cpu", training__stepz=3)
    with pytest.raises(ConfigError) as caught:
        catalogue.suite("tiny_grpo_cpu")
    text = (catalogue.root / "suites" / "tiny_grpo_cpu.yaml").read_text().splitlines()
    line = next(number for number, line in enumerate(text, 1) if "stepz" in line)
    assert caught.value.where == f"include/suites/tiny_grpo_cpu.yaml:{line}"
    assert caught.value.field == "training.stepz"
    assert "Training has: backend, algorithm, steps" in caught.value.fix


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "  steps: 16",
            "  steps: many",
            r"yaml:\d+: training\.steps = 'many': input should be a valid integer.*Training\.steps is",
        ),
        ("  steps: 16", "  steps: 0", r"yaml:\d+: training\.steps = 0: input should be greater than or equal to 1"),
        ("owner: verl-regression\n", "", r"yaml:1: owner = None: field required\. Fix: add it; Suite\.owner is str"),
        ("questions: 64}", "questions: few}", r"yaml:\d+: evaluation\.datasets\.0\.questions = 'few'.*DataSet\.questions is"),
    ],
)
def test_a_wrong_value_names_line_field_and_what_was_expected(catalogue: Catalogue, old: str, new: str, said: str) -> None:
    path = catalogue.root / "suites" / "tiny_grpo_cpu.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=said) as caught:
        catalogue.suite("tiny_grpo_cpu")
    if new:
        line = int(caught.value.where.rpartition(":")[2])
        assert new.strip() in path.read_text().splitlines()[line - 1]


def test_broken_yaml_names_the_file(catalogue: Catalogue) -> None:
    (catalogue.root / "suites" / "torn.yaml").write_text("version: [1\n")
    with pytest.raises(ConfigError, match=r"include/suites/torn\.yaml:2: YAML = .*cannot be read"):
        catalogue.suite("torn")


def test_a_variable_without_value_is_named(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERL_REGRESSION_WORK_DIR")
    with pytest.raises(ConfigError, match=r"VERL_REGRESSION_WORK_DIR.*not set"):
        catalogue.cluster("laptop")


def test_ray_ports_must_not_lie_in_the_worker_range(catalogue: Catalogue) -> None:
    change(catalogue, "clusters", "laptop", ray_ports__gcs=6500)
    with pytest.raises(ConfigError, match="gcs 6500 lies inside the worker range"):
        catalogue.cluster("laptop")
