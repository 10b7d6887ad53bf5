"""Bad input, which names the field, the value and the fix; and input that is right and has no meaning for a release."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """Input that cannot be run.

    ``field`` is the dotted name of the setting, ``value`` what was given, ``fix`` what to do about it. ``where`` names
    the file, when there is one.
    """

    def __init__(self, field: str, value: object, problem: str, fix: str, where: str = "") -> None:
        self.field, self.value, self.problem, self.fix, self.where = field, value, problem, fix, where
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{field} = {value!r}: {problem}. Fix: {fix}.")


def unknown(field: str, value: str, known: Iterable[str], where: str = "") -> ConfigError:
    """Build the error for a name that is not among the known ones, with the nearest match suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(value, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(field, value, "unknown", f"{hint}choose one of: {', '.join(names) or '(none defined)'}", where)


class NotApplicable(Exception):
    """A release cannot do what a suite asks for, by its own documents. No fault of anyone's: the run is recorded as such, with the
    reason, and skipped."""
