"""Releases, clusters, suites and the resolved RunSpec. This package imports nothing else of ours."""

from include.regression.config.cluster import Cluster, Node
from include.regression.config.errors import ConfigError
from include.regression.config.loading import Catalogue
from include.regression.config.release import Release, Stack
from include.regression.config.runspec import RunSpec, resolve
from include.regression.config.suite import Suite

__all__ = ["Catalogue", "Cluster", "ConfigError", "Node", "Release", "RunSpec", "Stack", "Suite", "resolve"]
