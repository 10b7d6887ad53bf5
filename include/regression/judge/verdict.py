"""The verdict of a run, from what the store holds.

Decision rule. ``passed``: the reward rose over training (lower bound of its slope above 0) and, on every data set, the trained
model answers more than the base model (lower bound of the paired difference above 0). ``regressed``: one of them fell (upper
bound below 0). ``inconclusive``: otherwise; an interval that spans 0 proves neither. Throughput and time per step are recorded with
the verdict and not judged here: there is no baseline yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from include.regression.config.metrics import EXTRA_WORK, REWARD, THROUGHPUT, TIME_PER_STEP
from include.regression.judge.statistics import Estimate, Window, finite, mean_of_shares, paired_difference, steady_window, trend

Verdict = Literal["passed", "regressed", "inconclusive"]

#: Metric name -> step -> value.
TrainMetrics = Mapping[str, Mapping[int, float | None]]
#: Data set -> question -> share of repeats answered rightly.
Shares = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Judged:
    """One metric's verdict; None where it is recorded only. ``numbers`` are what it was decided by."""

    metric: str
    verdict: Verdict | None
    text: str
    numbers: dict[str, float | int | None] = field(default_factory=dict)


def sign(estimate: Estimate) -> Verdict:
    """Read an interval: above zero, below zero, or neither."""
    if estimate.low > 0:
        return "passed"
    if estimate.high < 0:
        return "regressed"
    return "inconclusive"


def judge_reward(metrics: TrainMetrics, confidence: float) -> Judged:
    """Judge whether the reward rose over the training steps."""
    rewards = {step: value for step, value in metrics.get(REWARD, {}).items() if step > 0}
    values = finite(list(rewards.values()))
    if len(values) != len(rewards) or len(values) < 3:
        lost = len(rewards) - len(values)
        return Judged("reward", "inconclusive", f"{len(values)} finite rewards in {len(rewards)} steps", {"not_finite": lost})
    steps = sorted(rewards)
    ordered = [float(rewards[step] or 0.0) for step in steps]
    slope = trend(steps, ordered, confidence)
    quarter = max(1, len(steps) // 4)
    first, last = sum(ordered[:quarter]) / quarter, sum(ordered[-quarter:]) / quarter
    text = f"{first:.3f} -> {last:.3f} over {len(steps)} steps, slope {slope.value:+.4f} [{slope.low:+.4f}, {slope.high:+.4f}]"
    numbers: dict[str, float | int | None] = {"first": first, "last": last, "steps": len(steps)}
    numbers |= {"slope": slope.value, "slope_low": slope.low, "slope_high": slope.high}
    return Judged("reward", sign(slope), text, numbers)


def judge_accuracy(dataset: str, base: Mapping[str, float], trained: Mapping[str, float], confidence: float) -> Judged:
    """Judge the trained model against the base model, question by question."""
    uplift = paired_difference(base, trained, confidence)
    before = mean_of_shares(list(base.values()), confidence)
    after = mean_of_shares(list(trained.values()), confidence)
    text = (
        f"base {before.value:.1%} -> trained {after.value:.1%} [{after.low:.1%}, {after.high:.1%}], "
        f"uplift {uplift.value:+.1%} [{uplift.low:+.1%}, {uplift.high:+.1%}] on {len(base)} questions"
    )
    numbers: dict[str, float | int | None] = {"base": before.value, "trained": after.value, "questions": len(base)}
    numbers |= {"trained_low": after.low, "trained_high": after.high}
    numbers |= {"uplift": uplift.value, "uplift_low": uplift.low, "uplift_high": uplift.high}
    return Judged(f"accuracy/{dataset}", sign(uplift), text, numbers)


def record_performance(metrics: TrainMetrics, warmup_steps: int) -> list[Judged]:
    """Record throughput (tokens per second and device) and time per step (seconds) over the steady window.

    Steps that validated or saved a checkpoint are left out: some releases count that as time of the step, others do not.
    """
    judged = []
    extra = {step for key in EXTRA_WORK for step, value in metrics.get(key, {}).items() if value}
    for name, key, unit in (("throughput", THROUGHPUT, "tokens/s/device"), ("time_per_step", TIME_PER_STEP, "s")):
        window: Window | None = steady_window(metrics.get(key, {}), warmup_steps, extra)
        if window is None:
            judged.append(Judged(name, None, f"no {key} in any step after {warmup_steps} warm-up steps"))
            continue
        text = f"{window.mean:.2f} {unit} (deviation {window.deviation:.2f}) over {window.steps} steps"
        numbers: dict[str, float | int | None] = {"mean": window.mean, "deviation": window.deviation, "steps": window.steps}
        judged.append(Judged(name, None, text, numbers))
    return judged


def overall(judged: list[Judged]) -> Verdict:
    """Combine: one regression makes the run regressed, one doubt makes it inconclusive."""
    verdicts = {entry.verdict for entry in judged if entry.verdict is not None}
    if "regressed" in verdicts:
        return "regressed"
    return "passed" if verdicts == {"passed"} else "inconclusive"


def judge_run(metrics: TrainMetrics, base: Shares, trained: Shares, confidence: float, warmup_steps: int) -> list[Judged]:
    """Judge everything that a run measured, in the order in which it is shown."""
    judged = [judge_reward(metrics, confidence), *record_performance(metrics, warmup_steps)]
    return judged + [judge_accuracy(name, base.get(name, {}), trained[name], confidence) for name in trained]
