"""The few statistics the verdict is made of."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Window:
    """Mean and standard deviation of a metric over the steady window, and how many steps that were."""

    mean: float
    deviation: float
    steps: int


def finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def trend(steps: Sequence[int], values: Sequence[float], confidence: float) -> Estimate:
    """Slope per step of a least-squares line with the interval of its t distribution. Needs three points."""
    if len(values) < 3:
        raise ValueError(f"a trend needs at least 3 steps, there are {len(values)}")
    if len(set(values)) == 1:
        return Estimate(0.0, 0.0, 0.0)
    fit = stats.linregress(steps, values)
    margin = float(stats.t.ppf((1 + confidence) / 2, len(values) - 2)) * float(fit.stderr)
    return Estimate(float(fit.slope), float(fit.slope) - margin, float(fit.slope) + margin)


def steady_window(by_step: Mapping[int, float | None], warmup_steps: int, left_out: Collection[int] = ()) -> Window | None:
    """Average a metric over the steps after the warm-up but those ``left_out``; None if nothing finite is left."""
    values = finite([value for step, value in by_step.items() if step > warmup_steps and step not in left_out])
    if not values:
        return None
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)) if len(values) > 1 else 0.0
    return Window(mean, deviation, len(values))


def mean_of_shares(shares: Sequence[float], confidence: float) -> Estimate:
    """Mean accuracy over questions with a t interval.

    ``shares`` holds one value per question: the share of its repeats answered rightly. The question is the unit of sampling;
    repeats of one question are not independent and must not shrink the interval.
    """
    count = len(shares)
    mean = sum(shares) / count
    if count < 2:
        return Estimate(mean, 0.0, 1.0)
    error = math.sqrt(sum((share - mean) ** 2 for share in shares) / (count - 1) / count)
    margin = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * error
    return Estimate(mean, mean - margin, mean + margin)


def paired_difference(first: Mapping[str, float], second: Mapping[str, float], confidence: float) -> Estimate:
    """Mean of ``second`` - ``first`` over the questions of both, with its interval. Raises ValueError if the questions differ."""
    if first.keys() != second.keys():
        raise ValueError(f"the two evaluations asked different questions ({len(first)} and {len(second)})")
    return mean_of_shares([second[question] - first[question] for question in first], confidence)
