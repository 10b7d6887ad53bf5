"""What a run, or a cluster on its own, needs of every node."""

from __future__ import annotations

from typing import Literal

from include.regression.config import Cluster, RunSpec
from include.regression.config.base import Model

#: A checkpoint and what is made of it, per parameter: fp32 weights and two moments (12 bytes), bf16 weights to serve and to merge.
BYTES_PER_PARAMETER = 16
#: Logical CPUs that verl's actors reserve beside three per device: the task runner, agent loop and reward workers (8 each; one on
#: a CPU), and Ray's placement groups. With too few of them Ray waits in silence for ever.
ACTOR_CPUS = {"cpu": 9, "cuda": 23, "npu": 23}
CPUS_PER_DEVICE = 3


class Need(Model):
    """``pythons`` maps interpreter to the version it must have, ``environments`` name to folder, ``files`` path to its kind.

    ``components`` are the versions that the release's sources state for what installers put on a node. ``release`` is None for a
    cluster on its own.
    """

    cluster: Cluster
    release: str | None = None
    pythons: dict[str, str | None]
    components: dict[str, str] = {}
    environments: dict[str, str] = {}
    files: dict[str, Literal["model", "file"]] = {}
    disk_gb: float
    logical_cpus: int

    @property
    def where(self) -> str:
        return f"include/clusters/{self.cluster.name}.yaml"


def need_of(cluster: Cluster, spec: RunSpec | None = None) -> Need:
    """Say what is needed for a run, or, without one, for the cluster's own settings."""
    cpus = CPUS_PER_DEVICE * cluster.devices + ACTOR_CPUS[cluster.kind]
    if spec is None:
        return Need(cluster=cluster, pythons={cluster.python: None}, disk_gb=cluster.min_disk_gb, logical_cpus=cpus)
    stack, source = spec.stack, spec.suite.model
    files: dict[str, Literal["model", "file"]] = {source.path: "model"} if source.path else {}
    for file in (spec.suite.training.train_file, spec.suite.training.validation_file):
        if file:
            files[file] = "file"
    if spec.suite.evaluation.data_root:
        files |= {f"{spec.suite.evaluation.data_root}/{dataset.file}": "file" for dataset in spec.suite.evaluation.datasets}
    return Need(
        cluster=cluster,
        release=spec.release.name,
        pythons={spec.interpreter("eval"): stack.eval_python, spec.interpreter("train"): stack.python},
        components={name: part.value for name in ("hdk_driver", "cann") if (part := stack.components.get(name)) and part.value},
        environments={name: spec.environment_dir(name) for name in ("train", "eval")},
        files=files,
        disk_gb=max(cluster.min_disk_gb, BYTES_PER_PARAMETER * source.billions),
        logical_cpus=cpus,
    )
