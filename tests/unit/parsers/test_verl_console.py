"""The console logger, in lines as verl, Ray and tqdm write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from include.regression.parsers.verl_console import parse_console
from tests.conftest import DATA


def read(name: str) -> str:
    return (DATA / "verl_console" / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "steps", "values"),
    [
        ("before_2025-07_three_decimals_TaskRunner", [0, 1], {"actor/lr": 0.0, "critic/score/mean": 0.558}),
        ("after_2025-07_full_precision", [34], {"actor/lr": 2.0e-06, "actor/ppo_kl": -8.163164312320433e-06}),
        ("numpy2_wrapped_values", [34], {"actor/lr": 2.0e-06, "critic/score/mean": -0.01827966, "num_turns/max": 2}),
        ("ansi_colour_prefix", [34, 35], {"training/global_step": 35}),
        ("prefix_with_ip", [34], {"training/global_step": 34}),
        ("no_prefix_driver_log", [34], {"training/global_step": 34}),
        ("interleaved_with_tqdm", [4], {"actor/grad_norm": 0.0412, "timing_s/step": 61.2}),
        ("validation_step_with_val_keys", [20], {"timing_s/testing": 41.8, "val-core/openai/gsm8k/acc/mean@1": 0.7126611068991661}),
    ],
)
def test_each_form_is_read(name: str, steps: list[int], values: dict[str, Any]) -> None:
    found, _ = parse_console(read(name).rstrip("\n") + "\n")
    assert [step.step for step in found] == steps
    assert {key: found[-1].values[key] for key in values} == values


def test_what_is_not_finite_is_kept_as_such() -> None:
    found, _ = parse_console(read("nan_and_inf"))
    assert [step.step for step in found] == [57, 58]
    assert math.isnan(found[0].values["actor/pg_loss"] or 0)
    assert found[0].values["critic/advantages/min"] == -math.inf
    assert found[1].values["actor/kl_loss"] == math.inf


def test_an_unfinished_line_waits_for_the_next_look() -> None:
    text = read("line_cut_by_tail").rstrip("\n")
    found, consumed = parse_console(text)
    assert [step.step for step in found] == [12]
    rest = text.encode()[consumed:].decode() + "re/mean:0.5\n"
    assert [step.step for step in parse_console(rest)[0]] == [13]


def test_other_words_are_no_steps() -> None:
    assert parse_console("Setting global_step:120 - resume:1\nTraining from step:5\n")[0] == []
