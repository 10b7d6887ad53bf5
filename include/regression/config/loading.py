"""Reading the YAML files of releases, clusters and suites into typed models."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import ValidationError

from include.regression.config.base import Model
from include.regression.config.cluster import Cluster
from include.regression.config.errors import ConfigError, unknown
from include.regression.config.release import Release
from include.regression.config.suite import Suite

INCLUDE = Path(__file__).resolve().parents[2]

M = TypeVar("M", bound=Model)


class Catalogue:
    """The releases, clusters and suites that exist, one YAML file per thing, read when asked for.

    ``root`` is the include folder. ``${NAME}`` and ``${NAME:-default}`` in a cluster or suite file are replaced from the
    environment, so that a file serves several installations.
    """

    def __init__(self, root: Path = INCLUDE) -> None:
        self.root = root

    def names(self, room: str) -> list[str]:
        """List the names defined in ``room``: releases, clusters or suites."""
        return sorted(path.stem for path in (self.root / room).glob("*.yaml"))

    def release(self, name: str) -> Release:
        return self._load("releases", "release", name, Release)

    def dated_releases(self, kind: str) -> dict[str, str]:
        """Map the releases that have a stack of this kind to their dates (ISO); what a backfill can go over."""
        found = (self.release(name) for name in self.names("releases"))
        return {one.name: one.released.isoformat() for one in found if kind in one.stacks and one.released}

    def cluster(self, name: str) -> Cluster:
        return self._load("clusters", "cluster", name, Cluster)

    def suite(self, name: str) -> Suite:
        return self._load("suites", "suite", name, Suite)

    def _load(self, room: str, field: str, name: str, model: type[M]) -> M:
        if name not in self.names(room):
            raise unknown(field, name, self.names(room), where=f"include/{room}/")
        path = self.root / room / f"{name}.yaml"
        where = f"include/{room}/{name}.yaml"
        try:
            data = yaml.safe_load(_expand(path.read_text(encoding="utf-8"), where))
        except yaml.YAMLError as error:
            raise ConfigError(where, "", f"not YAML: {error}", "mend the file") from error
        if not isinstance(data, dict):
            raise ConfigError(where, data, "not a mapping", "write 'field: value' lines")
        try:
            return model.model_validate({**data, "name": data.get("name", name)})
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigError(
                ".".join(str(part) for part in first["loc"]) or field,
                first.get("input"),
                first["msg"],
                f"see the field's description in include/regression/config/{field}.py"
                + (f" ({error.error_count()} problems in all)" if error.error_count() > 1 else ""),
                where,
            ) from error


def _expand(text: str, where: str) -> str:
    """Replace ``${NAME}`` and ``${NAME:-default}`` from the environment."""

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        found = os.environ.get(name, default)
        if found is None:
            raise ConfigError(f"${{{name}}}", None, "not set in the environment", f"export {name}=...", where)
        return found

    return re.sub(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}", value, text)
