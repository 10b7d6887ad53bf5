"""What the preflight found."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]

#: Worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(NamedTuple):
    """One thing that is wrong: on which node it is mended, what it is, and the command or the change that mends it.

    An error would break a run, or make its numbers worthless; a warning may; a note only says what there is.
    """

    node: str
    check: str
    severity: Severity
    cause: str
    fix: str


def error(node: str, check: str, cause: str, fix: str) -> Finding:
    return Finding(node, check, "error", cause, fix)


def warning(node: str, check: str, cause: str, fix: str) -> Finding:
    return Finding(node, check, "warning", cause, fix)
