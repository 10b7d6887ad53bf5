"""Reading the YAML files of releases, clusters and suites into typed models."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TypeVar

from include.regression.config.base import Model
from include.regression.config.cluster import Cluster
from include.regression.config.errors import ConfigError, unknown
from include.regression.config.release import Release
from include.regression.config.suite import Suite
from include.regression.config.yaml_file import read

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

    def releases(self) -> tuple[dict[str, Release], dict[str, ConfigError]]:
        """Read all releases: those that can be read, oldest first and branches last, and what is wrong with each other file."""
        found: dict[str, Release] = {}
        faults: dict[str, ConfigError] = {}
        for name in self.names("releases"):
            try:
                found[name] = self.release(name)
            except ConfigError as error:
                faults[name] = error
        return dict(sorted(found.items(), key=lambda entry: (entry[1].released or date.max, entry[0]))), faults

    def dated_releases(self) -> dict[str, str]:
        """Map the releases to their dates (ISO), oldest first: what a backfill can go over.

        A branch has no date and is left out, and so is a file that cannot be read: it must not stop the others (see
        :meth:`releases`, which tells).
        """
        found, _ = self.releases()
        return {one.name: one.released.isoformat() for one in found.values() if one.released}

    def newest_for(self, suite: Suite) -> str:
        """Name the newest dated release that a suite applies to.

        Raises ConfigError if there is none, or if a file cannot be read.
        """
        _, faults = self.releases()
        for fault in faults.values():
            raise fault
        for name in reversed(self.dated_releases()):
            if suite.why_not(self.release(name)) is None:
                return name
        problem = f"no dated release has what suite {suite.name} needs"
        raise ConfigError("release", "newest", problem, "add one to include/releases", f"include/suites/{suite.name}.yaml")

    def cluster(self, name: str) -> Cluster:
        return self._load("clusters", "cluster", name, Cluster)

    def suite(self, name: str) -> Suite:
        return self._load("suites", "suite", name, Suite)

    def _load(self, room: str, field: str, name: str, model: type[M]) -> M:
        if name not in self.names(room):
            raise unknown(field, name, self.names(room), where=f"include/{room}/")
        path = self.root / room / f"{name}.yaml"
        return read(path, f"include/{room}/{name}.yaml", name, model)
