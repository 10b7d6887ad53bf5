"""Rule reward of the tiny arithmetic task: verl's own check of the last ``\\boxed{}`` answer."""

from __future__ import annotations

from typing import Any

from verl.utils.reward_score import math_reward


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """Score one sampled answer: 1.0 if its last boxed expression equals ``ground_truth``, else 0.0.

    The same rule by which AISBench scores aime2024 and math_prm800k_500 (MATHEvaluator), so that the reward trains what
    the evaluation measures. Returns verl's reward record; ``acc`` shows up as ``val-core/*/acc`` metrics.
    """
    score = float(math_reward.compute_score(solution_str, ground_truth))
    return {"score": score, "acc": score}
