"""One repeat of ais_bench: what it left behind, turned into scored answers, or a reason why they do not count.

ais_bench ends with 0 whatever happens and scores questions without an answer as wrong (seen: a server that died half-way became
"accuracy 0.0"), so a repeat counts only if every question was answered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any


class InvalidRepeat(Exception):
    """A repeat whose score would be a lie; the message says why and what to look at."""


@dataclass(frozen=True)
class Item:
    """One question's answer. ``extracted`` is what ais_bench read out of ``prediction`` and compared with ``reference``."""

    question: int
    prompt: str
    prediction: str
    extracted: str | None
    reference: str | None
    correct: bool
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Repeat:
    """A repeat that counts. ``accuracy`` is ais_bench's own, in percent; ``folder`` its folder on the node."""

    accuracy: float
    items: tuple[Item, ...]
    seconds: float
    folder: str

    @property
    def correct(self) -> int:
        return sum(item.correct for item in self.items)


def parse_repeat(found: dict[str, Any], questions: int) -> Repeat:
    """Check and type what include/node/evaluate.py gathered for a data set of ``questions`` questions.

    Raises InvalidRepeat if a request failed, an answer is missing, the server is gone, or ais_bench's number disagrees with its
    own per-question results.
    """
    reason = _why_invalid(found, questions)
    if reason:
        raise InvalidRepeat(f"{reason}. ais_bench's folder on the node: {found['folder']}\n{found.get('log_tail', '')}")
    items = tuple(
        Item(
            question=int(entry["question"]),
            prompt=entry["prompt"],
            prediction=entry["prediction"],
            extracted=_text(entry["extracted"]),
            reference=_text(entry["reference"]),
            correct=bool(entry["correct"]),
            prompt_tokens=int(entry["prompt_tokens"]),
            output_tokens=int(entry["output_tokens"]),
        )
        for entry in found["items"]
    )
    repeat = Repeat(float(found["accuracy"]), items, float(found["seconds"]), found["folder"])
    counted = 100 * repeat.correct / len(items)
    # ais_bench rounds to two digits in its summary and not at all in the file; half a question is far more than that.
    if abs(counted - repeat.accuracy) > 50 / questions:
        raise InvalidRepeat(f"ais_bench says accuracy {repeat.accuracy}, its own per-question results say {counted:.2f}")
    return repeat


def _why_invalid(found: dict[str, Any], questions: int) -> str | None:
    if found["failed"]:
        causes = ", ".join(f"{count} x {cause}" for cause, count in Counter(found["failed"]).most_common(3))
        return f"{len(found['failed'])} of {questions} requests failed ({causes}); ais_bench would count them as wrong answers"
    if found["exit_status"]:
        return f"ais_bench ended with {found['exit_status']}"
    if not isinstance(found["accuracy"], int | float):
        return f"ais_bench wrote no accuracy ('-' in its table): {found['accuracy']!r}"
    if found["predictions"] != questions or len(found["items"]) != questions:
        return f"{found['predictions']} predictions and {len(found['items'])} results for {questions} questions"
    if found["unsuccessful"]:
        return f"{found['unsuccessful']} predictions are not marked as successful"
    if not found["server_alive_after"]:
        return "the server was gone, or another one, when the repeat ended; see the serving log"
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
