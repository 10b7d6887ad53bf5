"""verl's file logger: one JSON line per step, ``{"step": 1, "data": {"critic/rewards/mean": 0.5, ...}}``.

Source: ``FileLogger`` in verl/utils/tracking.py (v0.9.1), which writes with orjson: NaN and infinities become null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """Metrics of one step. A value that is not a number is None: verl wrote null for NaN or infinity."""

    step: int
    values: dict[str, float | None]


def parse_lines(text: str) -> tuple[list[Step], int]:
    """Parse the complete lines of ``text``; return them and how many bytes (UTF-8) they were.

    The file is read while it grows: an unfinished last line is left for the next look. A complete line that is not such a record
    raises ValueError with the line, because something else wrote to the file.
    """
    complete = text[: text.rfind("\n") + 1]
    steps = []
    for line in complete.splitlines():
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            values = {str(key): as_number(value) for key, value in record["data"].items()}
            steps.append(Step(int(record["step"]), values))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a line of verl's file logger ({error}): {line[:200]!r}") from error
    return steps, len(complete.encode())


def as_number(value: Any) -> float | None:
    """Turn a metric into a float: numbers, booleans and numpy scalars; anything else is None."""
    if isinstance(value, str | bytes | list | tuple | dict) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
