"""Judging the facts of a node before anything is done on it."""

from __future__ import annotations

from typing import Any

from include.regression.config import ConfigError, RunSpec


def check_facts(spec: RunSpec, facts: dict[str, Any]) -> None:
    """Check what include/node/facts.py gathered. Raises ConfigError for the first fault, naming field, value and fix."""
    cluster, node = spec.cluster, facts["host"]
    where = f"include/clusters/{cluster.name}.yaml"
    for environment, wanted in (("train", spec.stack.python), ("eval", spec.stack.eval_python)):
        python = spec.interpreter(environment)
        version = facts["pythons"].get(python)
        if version is None:
            fix = f"install Python {wanted} there, or name its interpreter"
            raise ConfigError(f"pythons.{wanted}", python, f"does not run on node {node}", fix, where)
        if version.split(".")[:2] != wanted.split("."):
            raise ConfigError(
                f"pythons.{wanted}",
                python,
                f"is Python {version} on node {node}; the {environment} environment of {spec.release.name} needs {wanted}",
                f"name a Python {wanted} in the cluster file",
                where,
            )
    if not facts["work_dir_writable"]:
        raise ConfigError("work_dir", cluster.work_dir, f"cannot be written on node {node}", "choose another folder", where)
    if facts["free_disk_gb"] < cluster.min_disk_gb:
        raise ConfigError(
            "min_disk_gb",
            cluster.min_disk_gb,
            f"only {facts['free_disk_gb']} GB are free in {cluster.work_dir} on node {node}",
            "free disk space, or move work_dir",
            where,
        )
    if facts["available_memory_gb"] < cluster.min_memory_gb:
        raise ConfigError(
            "min_memory_gb",
            cluster.min_memory_gb,
            f"only {facts['available_memory_gb']} GB of memory are available on node {node}",
            "end other work on the node",
            where,
        )
    if facts["ports_in_use"]:
        raise ConfigError(
            "ray_ports, server_port",
            facts["ports_in_use"],
            f"in use on node {node}, by another run or another program (`ss -ltnp` names it)",
            "wait for it, end it, or choose other ports in the cluster file",
            where,
        )
