"""The RunSpec: release x suite x cluster, resolved and validated once, then passed to every stage."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from include.regression.config.base import Model, Name
from include.regression.config.changes import Changes
from include.regression.config.cluster import Cluster
from include.regression.config.errors import ConfigError, NotApplicable, unknown
from include.regression.config.loading import Catalogue
from include.regression.config.release import Release, Stack
from include.regression.config.suite import DataSet, Lengths, Suite

Which = Literal["base", "trained"]

#: In the place of a release's name: the newest dated release that the suite applies to.
NEWEST = "newest"


class RunSpec(Model):
    """Everything a stage needs to know, as JSON.

    ``run`` is the run's key: it names the run's folder on the node, tags its processes and keys its rows in Postgres. ``suite``
    is the suite as this run does it, ``changes`` what the run changed of its file.
    """

    run: Name
    release: Release
    suite: Suite
    cluster: Cluster
    changes: Changes = Changes()

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

    def interpreter(self, environment: str) -> str:
        """Interpreter on the node that a node environment is built with."""
        return self.cluster.interpreter(self.stack.python if environment == "train" else self.stack.eval_python)

    def source_dir(self, name: str) -> str:
        """Folder of a source of the training environment."""
        return f"{self.environment_dir('train')}/src/{name}"

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

    @property
    def mcore_model(self) -> str:
        """Folder of the base model's weights in Megatron's format."""
        return f"{self.data_dir}/mcore-{self.release.name}"

    def dataset(self, name: str) -> DataSet:
        for dataset in self.suite.evaluation.datasets:
            if dataset.name == name:
                return dataset
        raise unknown("dataset", name, (dataset.name for dataset in self.suite.evaluation.datasets))

    @property
    def serving_tensor_parallel(self) -> int:
        return self.suite.serving.tensor_parallel or self.suite.training.tensor_parallel


def draft(
    catalogue: Catalogue,
    run: str,
    suite: str,
    release: str | None = None,
    cluster: str | None = None,
    changes: Changes | None = None,
) -> RunSpec:
    """Make the RunSpec of a run; it is still to be checked.

    ``release`` and ``cluster`` default to the suite's. Raises ConfigError for a name that is not known.
    """
    changes = changes or Changes()
    the_suite = changes.applied_to(catalogue.suite(suite))
    wanted = release or the_suite.release
    if wanted == NEWEST:
        wanted = catalogue.newest_for(the_suite)
    return RunSpec(
        run=run,
        release=catalogue.release(wanted),
        suite=the_suite,
        cluster=catalogue.cluster(cluster or the_suite.cluster),
        changes=changes,
    )


def resolve(
    catalogue: Catalogue,
    run: str,
    suite: str,
    release: str | None = None,
    cluster: str | None = None,
    changes: Changes | None = None,
) -> RunSpec:
    """Make a checked RunSpec, before any node is touched. Raises what :func:`draft` and :func:`check` raise."""
    spec = draft(catalogue, run, suite, release, cluster, changes)
    check(spec)
    return spec


def check(spec: RunSpec) -> None:
    """Check what no single file can know. Raises ConfigError for the first fault found, NotApplicable for a release that cannot."""
    suite, cluster = spec.suite, spec.cluster
    where = f"include/suites/{suite.name}.yaml"
    if suite.stack != cluster.kind:
        raise ConfigError(
            "cluster",
            cluster.name,
            f"is a {cluster.kind} cluster, but suite {suite.name} needs {suite.stack}",
            f"choose a cluster of kind {suite.stack}",
        )
    reason = suite.why_not(spec.release)
    if reason:
        raise NotApplicable(reason)
    _check_lengths(suite.lengths, where)
    _check_parallel("training.tensor_parallel", suite.training.tensor_parallel, 1, spec, where, cluster.devices)
    # The server runs on the head alone.
    sizes = (spec.serving_tensor_parallel, suite.serving.data_parallel)
    _check_parallel("serving.tensor_parallel", *sizes, spec, where, cluster.head.devices)
    _check_training(spec, where)
    if (suite.model.maker is None) == (suite.model.path is None):
        raise ConfigError("model", suite.model.model_dump(), "needs a maker or a path", "set exactly one of them", where)
    hours = suite.budget.minutes / 60 * cluster.devices
    if hours > suite.budget.device_hours:
        raise ConfigError(
            "budget.device_hours",
            suite.budget.device_hours,
            f"{suite.budget.minutes} minutes on the {cluster.devices} devices of {cluster.name} are {hours:.0f} device-hours",
            "shorten budget.minutes, raise budget.device_hours, or choose a smaller cluster",
            where,
        )
    names = [dataset.name for dataset in suite.evaluation.datasets]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("evaluation.datasets", name, "named twice", "name each data set once", where)


def _check_training(spec: RunSpec, where: str) -> None:
    training, devices = spec.suite.training, spec.cluster.devices
    # The last step saves the checkpoint and is left out of the steady window, too.
    if training.warmup_steps + 2 > training.steps:
        raise ConfigError(
            "training.steps",
            training.steps,
            f"leaves no steady window between {training.warmup_steps} warmup_steps and the step that saves the checkpoint",
            f"train at least {training.warmup_steps + 2} steps, or lower training.warmup_steps",
            where,
        )
    samples = training.prompts_per_step * training.samples_per_prompt
    replica = training.megatron.ranks if training.megatron else training.sequence_parallel
    if devices % replica or samples % (devices // replica):
        raise ConfigError(
            "training.prompts_per_step",
            training.prompts_per_step,
            f"times {training.samples_per_prompt} samples cannot be shared out evenly: {devices} devices, {replica} to a replica",
            "make the samples of a step a multiple of the replicas, and the devices one of a replica",
            where,
        )
    mini = training.mini_batch or training.prompts_per_step
    if training.prompts_per_step % mini:
        raise ConfigError("training.mini_batch", mini, f"does not divide {training.prompts_per_step} prompts", "let it", where)
    if (training.backend == "megatron") != (training.megatron is not None):
        raise ConfigError(
            "training.megatron",
            training.megatron,
            f"does not fit backend {training.backend}",
            "set it for megatron, only for it",
            where,
        )


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


def _check_parallel(field: str, tensor: int, data: int, spec: RunSpec, where: str, devices: int) -> None:
    heads = spec.suite.model.heads
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
            f"times data_parallel {data} needs {tensor * data} devices, {spec.cluster.name} has {devices} for it",
            "lower it, or choose a larger cluster",
            where,
        )
