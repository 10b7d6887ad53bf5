"""One YAML file into one model: variables, and errors that name file, line, field and what was expected."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from include.regression.config.base import Model
from include.regression.config.errors import ConfigError

# libyaml's parser, where PyYAML has it: ten times as fast, and all suites must parse within a second.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

M = TypeVar("M", bound=Model)


def read(path: Path, where: str, name: str, model: type[M]) -> M:
    """Read a file into a model whose ``name`` is the file's. Raises ConfigError; ``where`` is what it calls the file."""
    found = _parsed(expand(path.read_text(encoding="utf-8"), where), where, name, model)
    assert isinstance(found, model)
    return found


@lru_cache(maxsize=256)
def _parsed(text: str, where: str, name: str, model: type[Model]) -> Model:
    """Cached by content: models are immutable, and a DAG file asks for the same releases once per suite."""
    try:
        data = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError("YAML", getattr(error, "problem", ""), "cannot be read", "mend the file", where + line) from error
    if not isinstance(data, dict):
        raise ConfigError("YAML", data, "not a mapping", "write 'field: value' lines", f"{where}:1")
    try:
        return model.model_validate({**data, "name": data.get("name", name)})
    except ValidationError as error:
        first = error.errors()[0]
        more = f" (and {error.error_count() - 1} more problems)" if error.error_count() > 1 else ""
        line_number = line_of(text, first["loc"])
        raise ConfigError(
            ".".join(str(part) for part in first["loc"]) or where,
            _given(first),
            first["msg"][:1].lower() + first["msg"][1:] + more,
            _expected(model, first["loc"], str(first["type"])),
            f"{where}:{line_number}",
        ) from error


def _given(error: Any) -> object:
    """The value at fault, short; a missing field has none."""
    return None if error["type"] == "missing" else str(error["input"])[:80] if isinstance(error["input"], dict) else error["input"]


def _expected(model: type[Model], place: Sequence[str | int], kind: str) -> str:
    """Say what the innermost model that the place leads to would accept."""
    owner: Any = model
    for part in place[:-1]:
        field = getattr(owner, "model_fields", {}).get(part)
        inner = _model_in(field.annotation) if field else None
        owner = inner or owner
    fields = getattr(owner, "model_fields", {})
    if kind == "extra_forbidden":
        return f"correct the name, or remove the line; {owner.__name__} has: {', '.join(fields)}"
    field = fields.get(place[-1]) if place else None
    if field is None:
        return f"see {owner.__name__} in {owner.__module__}"
    text = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
    wanted = " | ".join(part.rpartition(".")[2] for part in text.replace("typing.", "").split(" | "))
    return f"{'add it' if kind == 'missing' else 'correct it'}; {owner.__name__}.{place[-1]} is {wanted}"


def _model_in(annotation: Any) -> type[Model] | None:
    """Find the model inside ``Model | None``, ``tuple[Model, ...]`` or ``dict[..., Model]``."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model_in(part))), None)


def line_of(text: str, place: Sequence[str | int]) -> int:
    """Find the line (from 1) of a field, or of the innermost part of its place that the file has."""
    node, line = yaml.compose(text, Loader), 1
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return int(line)


def expand(text: str, where: str) -> str:
    """Replace ``${NAME}`` and ``${NAME:-default}`` from the environment."""

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        found = os.environ.get(name, default)
        if found is None:
            line = text[: match.start()].count("\n") + 1
            raise ConfigError(f"${{{name}}}", None, "not set in the environment", f"export {name}=...", f"{where}:{line}")
        return found

    return re.sub(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}", value, text)
