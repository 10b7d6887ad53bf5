"""The decision rule, on numbers whose answer is known."""

from __future__ import annotations

import math

import pytest

from include.regression.config.metrics import REWARD, THROUGHPUT, TIME_PER_STEP
from include.regression.judge.statistics import mean_of_shares, paired_difference, steady_window, trend
from include.regression.judge.verdict import judge_accuracy, judge_reward, judge_run, overall, record_performance

RISING = {step: 0.4 + 0.02 * step + (0.01 if step % 2 else -0.01) for step in range(1, 21)}
SHAKY = {step: 0.5 + (0.1 if step % 2 else -0.1) for step in range(1, 21)}


def shares(right: int, of: int, question: str = "q") -> dict[str, float]:
    return {f"{question}{index}": float(index < right) for index in range(of)}


def test_a_line_is_found_exactly() -> None:
    found = trend([1, 2, 3, 4], [1.0, 3.0, 5.0, 7.0], 0.95)
    assert found.value == pytest.approx(2.0)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-9)


def test_the_interval_of_a_mean_is_students() -> None:
    # 4 values 0, 0, 1, 1: mean 0.5, deviation 0.57735, error 0.288675, t(0.975, 3) = 3.182446
    found = mean_of_shares([0.0, 0.0, 1.0, 1.0], 0.95)
    assert found.value == 0.5
    assert found.high - found.value == pytest.approx(0.288675 * 3.182446, rel=1e-4)


def test_a_step_that_validated_or_saved_is_no_part_of_the_performance() -> None:
    """Some releases count that work as time of the step, others do not."""
    metrics = {TIME_PER_STEP: {1: 9.0, 2: 2.0, 3: 30.0, 4: 2.0, 5: 40.0}, THROUGHPUT: dict.fromkeys(range(1, 6), 5.0)}
    metrics |= {"timing_s/testing": {3: 28.0, 4: None}, "timing_s/save_checkpoint": {5: 38.0}}
    by_name = {entry.metric: entry for entry in record_performance(metrics, warmup_steps=1)}
    assert by_name["time_per_step"].numbers["mean"] == 2.0
    assert by_name["throughput"].numbers["steps"] == 2


@pytest.mark.parametrize(
    ("rewards", "verdict"),
    [(RISING, "passed"), ({step: -value for step, value in RISING.items()}, "regressed"), (SHAKY, "inconclusive")],
)
def test_the_reward_must_rise(rewards: dict[int, float], verdict: str) -> None:
    assert judge_reward({REWARD: rewards}, 0.95).verdict == verdict


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_a_reward_that_is_no_number_is_never_a_pass(bad: float | None) -> None:
    assert judge_reward({REWARD: RISING | {7: bad}}, 0.95).verdict == "inconclusive"


def test_step_zero_is_validation_and_no_training_step() -> None:
    assert judge_reward({REWARD: {0: 9.0} | RISING}, 0.95) == judge_reward({REWARD: RISING}, 0.95)


def test_too_few_steps_prove_nothing() -> None:
    assert judge_reward({REWARD: {1: 0.1, 2: 0.9}}, 0.95).verdict == "inconclusive"
    assert judge_reward({}, 0.95).verdict == "inconclusive"


@pytest.mark.parametrize(("base", "trained", "verdict"), [(20, 50, "passed"), (50, 20, "regressed"), (30, 31, "inconclusive")])
def test_accuracy_is_judged_question_by_question(base: int, trained: int, verdict: str) -> None:
    judged = judge_accuracy("aime2024", shares(base, 64), shares(trained, 64), 0.95)
    assert judged.verdict == verdict
    assert judged.numbers["uplift"] == pytest.approx((trained - base) / 64)


def test_other_questions_are_an_error() -> None:
    with pytest.raises(ValueError, match="different questions"):
        paired_difference(shares(1, 4), shares(1, 4, "other"), 0.95)


def test_warm_up_and_what_is_not_finite_stay_out_of_the_window() -> None:
    window = steady_window({1: 100.0, 2: 100.0, 3: 2.0, 4: 4.0, 5: math.nan, 6: None}, warmup_steps=2)
    assert window is not None
    assert (window.mean, window.steps) == (3.0, 2)
    assert window.deviation == pytest.approx(math.sqrt(2))
    assert steady_window({1: 1.0}, warmup_steps=2) is None


def test_a_whole_run() -> None:
    metrics = {REWARD: RISING, THROUGHPUT: {5: 10.0, 6: 12.0}, TIME_PER_STEP: {5: 2.0, 6: 3.0}}
    judged = judge_run(metrics, {"a": shares(20, 64)}, {"a": shares(50, 64)}, 0.95, 3)
    assert [entry.metric for entry in judged] == ["reward", "throughput", "time_per_step", "accuracy/a"]
    assert [entry.verdict for entry in judged] == ["passed", None, None, "passed"]
    assert overall(judged) == "passed"
    worse = judge_run(metrics, {"a": shares(50, 64)}, {"a": shares(20, 64)}, 0.95, 3)
    assert overall(worse) == "regressed"
    unsure = judge_run({}, {"a": shares(20, 64)}, {"a": shares(50, 64)}, 0.95, 3)
    assert overall(unsure) == "inconclusive"
