"""Clusters of any size, as their nodes would describe themselves: what the judge of the preflight gets, without the nodes."""

from __future__ import annotations

from typing import Any

from include.regression.config import Catalogue, Cluster, Node, RunSpec, draft
from include.regression.preflight import Need, NodeFacts, Observed, need_of
from include.regression.preflight.network_checks import targets
from tests.conftest import DATA

CHOSEN_PORT = 40_000


def a3_spec(nodes: int) -> RunSpec:
    """The suite of the four Atlas A3, on as many nodes."""
    spec = draft(Catalogue(), "sim-1", "qwen3_32b_gspo_fsdp_a3_x4", "v0.9.0")
    return spec.model_copy(update={"cluster": cluster_of(spec.cluster, nodes)})


def a3_need(nodes: int) -> Need:
    spec = a3_spec(nodes)
    return need_of(spec.cluster, spec)


def cluster_of(like: Cluster, nodes: int) -> Cluster:
    made = tuple(
        Node(name=f"a3-{number}", ssh_conn_id=f"a3_{number}", address=f"10.0.{number // 250}.{number % 250 + 1}", devices=16)
        for number in range(nodes)
    )
    return like.model_copy(update={"nodes": made})


def healthy(need: Need) -> list[Observed]:
    """Every node as the need wants it, and reaching every other."""
    nodes = need.cluster.nodes
    listening = [
        Observed(
            node=node.name,
            facts=_facts(need, node),
            marked=True,
            chosen_port=CHOSEN_PORT,
            clock_s=0.01,
            clock_error_s=0.005,
            seen=tuple(sorted(other.name for other in nodes)),
        )
        for node in nodes
    ]
    return [seen.model_copy(update={"links": _links(need, seen, listening)}) for seen in listening]


def _links(need: Need, source: Observed, nodes: list[Observed]) -> dict[str, dict[int, str]]:
    wanted: dict[str, Any] = targets(need.cluster, source.node, nodes)
    return {name: dict.fromkeys(target["ports"], "ok") for name, target in wanted.items()}


def _facts(need: Need, node: Node) -> NodeFacts:
    return NodeFacts.model_validate(
        {
            "host": node.name,
            "user": "verl",
            "os": "openEuler 22.03 (LTS-SP4)",
            "kernel": "5.10.0-216.0.0.115.oe2203sp4.aarch64",
            "machine": "aarch64",
            "cpus": 640,
            "memory_gb": 2000.0,
            "available_memory_gb": 1900.0,
            "shm_free_mb": 1_000_000,
            "open_files": 65536,
            "disk": {"place": need.cluster.work_dir, "free_gb": 9000.0, "free_inodes": 10**9, "problem": None},
            "addresses": {"lo": ["127.0.0.1"], "enp1s0": [node.address]},
            "can_bind": True,
            "sources": {other.address: node.address for other in need.cluster.nodes if other.name != node.name},
            "resolved": node.address,
            "variables": {"ASCEND_HOME_PATH": "/usr/local/Ascend/ascend-toolkit/latest"},
            "setup_failed": [],
            "firewall": {"firewalld": False, "readable": True, "tool": "nft", "chains": []},
            "pythons": {python: f"{wanted or '3.11'}.9" for python, wanted in need.pythons.items()},
            "environments": {
                folder: {"python": "3.11.9", "packages": {"ray": "2.55.1", "torch": "2.9.0"}}
                for folder in need.environments.values()
            },
            "software": {"driver": need.components["hdk_driver"], "firmware": "7.8.0", "cann": need.components["cann"]},
            "npu_smi": (DATA / "npu_smi" / "A3_16chips_idle_healthy.txt").read_text(),
            "nvidia_smi": None,
            "ports": {},
            "processes": [],
            "incomplete": dict.fromkeys(need.files),
        }
    )
