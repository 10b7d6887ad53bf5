"""Releases, clusters, suites and the resolved RunSpec. This package imports nothing else of ours."""

from include.regression.config.changes import Changes
from include.regression.config.cluster import Cluster, Node
from include.regression.config.errors import ConfigError, NotApplicable
from include.regression.config.loading import Catalogue
from include.regression.config.release import Release, Stack
from include.regression.config.runspec import NEWEST, RunSpec, check, draft, resolve
from include.regression.config.suite import Suite

__all__ = [
    "NEWEST",
    "Catalogue",
    "Changes",
    "Cluster",
    "ConfigError",
    "Node",
    "NotApplicable",
    "Release",
    "RunSpec",
    "Stack",
    "Suite",
    "check",
    "draft",
    "resolve",
]
