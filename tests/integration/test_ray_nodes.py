"""Real Ray on three nodes over real SSH: up only when proven; a node that drops out is named before anything relies on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.node import processes
from include.regression.commands import ray
from include.regression.config import Catalogue, Cluster, RunSpec, resolve
from tests.integration.conftest import our_environment
from tests.integration.lab import LabNode
from verl_regression.node import NodeError
from verl_regression.operators.node_command import NodeCommand, PrepareNode
from verl_regression.operators.ray_up import RayUp


@pytest.fixture
def spec(lab_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunSpec]:
    """The tiny suite on the lab, with this test environment as the training environment of all nodes."""
    monkeypatch.setenv("VERL_REGRESSION_WORK_DIR", lab_cluster.work_dir)
    spec = resolve(Catalogue(), "rn-1", "tiny_grpo_cpu").model_copy(update={"cluster": lab_cluster})
    with our_environment(spec):
        PrepareNode(task_id="node", spec=spec.model_dump(mode="json")).execute({})  # type: ignore[arg-type]
        yield spec
    shutil.rmtree(Path(spec.run_dir).parent)


def up(spec: RunSpec) -> dict[str, object]:
    return RayUp(task_id="ray", spec=spec.model_dump(mode="json")).execute({})  # type: ignore[arg-type]


def stop(spec: RunSpec) -> dict[str, dict[str, list[int]]]:
    command = NodeCommand(task_id="stop_ray", spec=spec.model_dump(mode="json"), render=ray.stop, everywhere=True)
    return command.execute({})  # type: ignore[arg-type]


def nothing_is_left(spec: RunSpec, nodes: list[LabNode]) -> None:
    assert processes.tagged(spec.work_dir, spec.run) == []
    for node in nodes:
        assert node.sh("ls -d /tmp/ray* || true").strip() == ""


def test_three_nodes_are_up_and_down_again(spec: RunSpec, nodes: list[LabNode]) -> None:
    found = up(spec)
    assert list(found["nodes"]) == [node.address for node in nodes]  # type: ignore[call-overload]
    assert found["resources"]["NPU"] == 3  # type: ignore[index]
    assert found["seconds"] > ray.HEALTH_CHECKS_S  # type: ignore[operator]
    token = Path(ray.token_file(spec))
    assert token.stat().st_mode & 0o077 == 0
    ran = stop(spec)
    assert sorted(ran) == ["lab-1", "lab-2", "lab-3"]
    assert all(one["found"] and not one["left"] for one in ran.values())
    nothing_is_left(spec, nodes)
    for node in spec.cluster.nodes:
        assert list(Path(ray.kept_logs(spec, node)).glob("raylet*")), f"the logs of {node.name} are kept"


def test_a_worker_that_the_head_cannot_reach_is_named(spec: RunSpec, nodes: list[LabNode]) -> None:
    """It joins, and Ray shows it as alive for half a minute: the proof must not pass in that time."""
    head, _, worker = nodes
    with worker.firewall(f"ip saddr {head.address} ct state new drop"), pytest.raises(NodeError) as refused:
        up(spec)
    assert worker.address in str(refused.value)
    assert nodes[1].address not in str(refused.value).partition("\n")[2].partition("lab-2, ")[0]
    assert f"lab-3, {ray.log_file(spec, spec.cluster.nodes[2])}:" in str(refused.value)
    nothing_is_left(spec, nodes)


def test_a_worker_that_cannot_reach_the_head_is_named(spec: RunSpec, nodes: list[LabNode]) -> None:
    head, worker, _ = nodes
    with head.firewall(f"ip saddr {worker.address} ct state new drop"), pytest.raises(NodeError) as refused:
        up(spec)
    assert str(refused.value).startswith("lab-2: exit status 1 on 10.77.0.12:")
    nothing_is_left(spec, nodes)
