"""The RunSpec: release x suite x cluster, resolved and validated once, then passed to every stage."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from include.regression.config.base import Model, Name
from include.regression.config.cluster import Cluster
from include.regression.config.errors import ConfigError, unknown
from include.regression.config.loading import Catalogue
from include.regression.config.release import Release, Stack
from include.regression.config.suite import DataSet, Lengths, Suite

Which = Literal["base", "trained"]


class RunSpec(Model):
    """Everything a stage needs to know, as JSON.

    ``run`` is the run's key: it names the run's folder on the node, tags its processes and keys its rows in Postgres.
    """

    run: Name
    release: Release
    suite: Suite
    cluster: Cluster

    @property
    def stack(self) -> Stack:
        return self.release.stacks[self.suite.stack]

    @property
    def work_dir(self) -> str:
        return self.cluster.work_dir

    @property
    def run_dir(self) -> str:
        """Folder of this run on the node."""
        return f"{self.work_dir}/runs/{self.run}"

    @property
    def kit_dir(self) -> str:
        """Folder of the scripts that were copied to the node for this run."""
        return f"{self.run_dir}/kit"

    def environment_dir(self, environment: str) -> str:
        """Folder of a node environment, ``train`` or ``eval``; shared by the runs whose lock is the same."""
        lock = self.stack.train_lock if environment == "train" else self.stack.eval_lock
        return f"{self.work_dir}/environments/{environment}-{PurePosixPath(lock).stem}"

    def python(self, environment: str) -> str:
        """Interpreter of a node environment."""
        return f"{self.environment_dir(environment)}/bin/python"

    @property
    def data_dir(self) -> str:
        """Folder of the base model and the data that the suite's maker made; shared by runs of equal settings."""
        source = self.suite.model
        return f"{self.work_dir}/data/{self.suite.name}-v{self.suite.version}-seed{source.seed}"

    @property
    def base_model(self) -> str:
        """Hugging Face folder of the base model."""
        return self.suite.model.path or f"{self.data_dir}/model"

    def dataset(self, name: str) -> DataSet:
        for dataset in self.suite.evaluation.datasets:
            if dataset.name == name:
                return dataset
        raise unknown("dataset", name, (dataset.name for dataset in self.suite.evaluation.datasets))

    @property
    def serving_tensor_parallel(self) -> int:
        return self.suite.serving.tensor_parallel or self.suite.training.tensor_parallel


def resolve(catalogue: Catalogue, run: str, suite: str, release: str | None = None, cluster: str | None = None) -> RunSpec:
    """Make the RunSpec of a run, or say what is wrong with its input.

    ``release`` and ``cluster`` default to the suite's. Raises ConfigError, naming field, value and fix, before any node is
    touched.
    """
    the_suite = catalogue.suite(suite)
    spec = RunSpec(
        run=run,
        release=catalogue.release(release or the_suite.release),
        suite=the_suite,
        cluster=catalogue.cluster(cluster or the_suite.cluster),
    )
    check(spec)
    return spec


def check(spec: RunSpec) -> None:
    """Check what no single file can know. Raises ConfigError for the first fault found."""
    suite, cluster, release = spec.suite, spec.cluster, spec.release
    where = f"include/suites/{suite.name}.yaml"
    if suite.stack != cluster.kind:
        raise ConfigError(
            "cluster",
            cluster.name,
            f"is a {cluster.kind} cluster, but suite {suite.name} needs {suite.stack}",
            f"choose a cluster of kind {suite.stack}",
        )
    if suite.stack not in release.stacks:
        kinds = ", ".join(release.stacks) or "none"
        raise ConfigError(
            "release",
            release.name,
            f"has no {suite.stack} stack (it has: {kinds})",
            f"choose a release with a {suite.stack} stack, or add one to include/releases/{release.name}.yaml",
        )
    _check_lengths(suite.lengths, where)
    _check_parallel("training.tensor_parallel", suite.training.tensor_parallel, 1, spec, where)
    _check_parallel("serving.tensor_parallel", spec.serving_tensor_parallel, suite.serving.data_parallel, spec, where)
    if (suite.model.maker is None) == (suite.model.path is None):
        raise ConfigError("model", suite.model.model_dump(), "needs a maker or a path", "set exactly one of them", where)
    steps = suite.training.steps
    if suite.training.warmup_steps >= steps:
        raise ConfigError(
            "training.warmup_steps",
            suite.training.warmup_steps,
            f"leaves no steady window in {steps} steps",
            f"set it below {steps}",
            where,
        )
    names = [dataset.name for dataset in suite.evaluation.datasets]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("evaluation.datasets", name, "named twice", "name each data set once", where)


def _check_lengths(lengths: Lengths, where: str) -> None:
    total = lengths.input + lengths.output
    if lengths.max_model_len != total:
        raise ConfigError(
            "lengths.max_model_len",
            lengths.max_model_len,
            f"is not input + output = {lengths.input} + {lengths.output} = {total}; the server would refuse requests",
            f"set lengths.max_model_len to {total}, or change lengths.input or lengths.output",
            where,
        )


def _check_parallel(field: str, tensor: int, data: int, spec: RunSpec, where: str) -> None:
    heads, devices = spec.suite.model.heads, spec.cluster.devices
    if heads % tensor:
        divisors = [size for size in range(1, min(heads, devices) + 1) if heads % size == 0]
        raise ConfigError(
            field,
            tensor,
            f"does not divide the model's {heads} attention heads",
            f"use one of {', '.join(map(str, divisors))}",
            where,
        )
    if tensor * data > devices:
        raise ConfigError(
            field,
            tensor,
            f"times data_parallel {data} needs {tensor * data} devices, cluster {spec.cluster.name} has {devices}",
            "lower it, or choose a larger cluster",
            where,
        )
