"""The judge of the preflight on simulated nodes, up to 64: what it names, on which node, and that it names nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from include.regression.preflight import Finding, Need, Observed, judge
from include.regression.report.preflight import summary, tables
from include.regression.report.tables import as_text
from tests.conftest import DATA
from tests.simulated import a3_need, healthy

NODES = 64


@pytest.fixture(scope="module")
def need() -> Need:
    return a3_need(NODES)


@pytest.fixture
def nodes(need: Need) -> list[Observed]:
    return healthy(need)


def changed(nodes: list[Observed], number: int, **facts: Any) -> list[Observed]:
    """The same nodes, one of them with other facts."""
    seen = nodes[number]
    assert seen.facts
    other = seen.facts.model_copy(update={})
    data = {**other.model_dump(), **facts}
    return [*nodes[:number], Observed.model_validate({**seen.model_dump(), "facts": data}), *nodes[number + 1 :]]


def links(nodes: list[Observed], source: int, target: str, status: str, ports: range = range(1, 65536)) -> list[Observed]:
    """The same nodes, one of them with other luck in reaching another."""
    seen = nodes[source]
    link = {port: status if port in ports else was for port, was in seen.links[target].items()}
    return [*nodes[:source], seen.model_copy(update={"links": {**seen.links, target: link}}), *nodes[source + 1 :]]


def only(need: Need, nodes: list[Observed]) -> Finding:
    found = judge(need, nodes)
    assert len(found) == 1, found
    return found[0]


def test_a_healthy_cluster_has_no_findings(need: Need, nodes: list[Observed]) -> None:
    assert judge(need, nodes) == []


@pytest.mark.parametrize(
    ("sample", "check", "cause", "fix"),
    [
        ("A3_one_chip_critical", "devices", "is Critical", "npu-smi set -t reset -i"),
        ("A3_16chips_busy", "devices", "chips are busy", "ps -fp PID"),
        ("910B2_a2_8x64g_idle_healthy", "devices", "npu-smi shows 8 chips, the cluster file says 16", "nodes.a3-9.devices"),
        ("error_not_installed", "npu-smi", "npu-smi is not installed, or not on the PATH", "install the HDK driver"),
        ("error_8020_device_used", "npu-smi", "-8020", "end the container that holds them"),
        ("error_libdrvdsmi_missing", "npu-smi", "libdrvdsmi_host.so", "LD_LIBRARY_PATH"),
    ],
)
def test_npu_smi(need: Need, nodes: list[Observed], sample: str, check: str, cause: str, fix: str) -> None:
    found = only(need, changed(nodes, 9, npu_smi=(DATA / "npu_smi" / f"{sample}.txt").read_text()))
    assert (found.node, found.check, found.severity) == ("a3-9", check, "error")
    assert cause in found.cause
    assert fix in found.fix


def test_a_driver_that_is_older_than_stated_and_than_the_others(need: Need, nodes: list[Observed]) -> None:
    found = judge(need, changed(nodes, 3, software={"driver": "25.2.0", "firmware": "7.8.0", "cann": need.components["cann"]}))
    assert [(one.node, one.check, one.severity) for one in found] == [("a3-3", "driver", "error")] * 2
    assert found[0].cause == f"HDK driver 25.2.0 is older than {need.components['hdk_driver']}, which v0.9.0 is stated with"
    assert found[1].cause.startswith("has driver 25.2.0; a3-0 and most others: ")


def test_cann_that_is_not_loaded_in_a_non_interactive_shell(need: Need, nodes: list[Observed]) -> None:
    found = only(need, changed(nodes, 5, variables={}))
    assert (found.node, found.check) == ("a3-5", "environment")
    failed = only(need, changed(nodes, 5, variables={}, setup_failed=[1]))
    assert "setup line `source /usr/local/Ascend/nnal/atb/set_env.sh` fails" in failed.cause


def test_one_way(need: Need, nodes: list[Observed]) -> None:
    found = only(need, links(nodes, 0, "a3-63", "timeout"))
    assert found.node == "a3-63"
    assert found.cause == (
        "a3-0 cannot reach a3-63 at 10.0.0.64 on any port: nothing answers (a firewall that drops); one way: a3-63 does reach a3-0"
    )
    assert "no rule of these nodes drops it" in found.fix


def test_all_nodes_that_cannot_reach_one_make_one_finding(need: Need, nodes: list[Observed]) -> None:
    blocked = nodes
    for source in range(NODES):
        if source != 7:
            blocked = links(blocked, source, "a3-7", "refused")
    found = only(need, blocked)
    assert found.cause.startswith("a3-0, a3-1, a3-2, ")
    assert "one way" in found.cause


def test_hccls_range_alone(need: Need, nodes: list[Observed]) -> None:
    found = only(need, links(nodes, 1, "a3-2", "timeout", range(60000, 60051)))
    assert found.cause.startswith("a3-1: a3-2 answers at 10.0.0.3, but not on HCCL's range (60000-60050): ")


def test_a_wrong_nic(need: Need, nodes: list[Observed]) -> None:
    variables = {"ASCEND_HOME_PATH": "/x", "GLOO_SOCKET_IFNAME": "docker0"}
    found = only(need, changed(nodes, 2, variables=variables))
    assert found.cause == "GLOO_SOCKET_IFNAME=docker0, but 10.0.0.3 is on enp1s0: gloo and HCCL would take another"
    assert "set GLOO_SOCKET_IFNAME: enp1s0 under env" in found.fix


def test_a_clock_that_is_off(need: Need, nodes: list[Observed]) -> None:
    off = [*nodes[:4], nodes[4].model_copy(update={"clock_s": -30.0}), *nodes[5:]]
    assert only(need, off).cause == "its clock is 30.0 s behind the others (allowed: 2 s)"
    all_ahead = [seen.model_copy(update={"clock_s": 60.0}) for seen in nodes]
    found = only(need, all_ahead)
    assert (found.node, found.cause) == ("control plane", "the clock of the machine that runs Airflow is 60.0 s behind the nodes'")
    assert "control plane" in as_text(tables(need, all_ahead, [found]))


def test_too_few_logical_cpus_for_verls_actors(need: Need, nodes: list[Observed]) -> None:
    few = need.model_copy(update={"cluster": need.cluster.model_copy(update={"logical_cpus": 40})})
    found = only(few, nodes)
    assert found.cause == (
        "Ray is told 2560 logical CPUs, verl's actors reserve 3095 for 1024 devices: they would wait in silence for ever"
    )
    assert "to 49 or more" in found.fix


def test_worst_first_in_the_order_of_the_cluster_file(need: Need, nodes: list[Observed]) -> None:
    bad = changed(changed(nodes, 9, resolved=None), 20, can_bind=False)
    assert [(found.node, found.severity) for found in judge(need, bad)] == [("a3-20", "error"), ("a3-9", "warning")]


def test_the_report_has_a_table_per_node(need: Need, nodes: list[Observed]) -> None:
    bad = changed(nodes, 9, resolved=None)
    findings = judge(need, bad)
    text = as_text(tables(need, bad, findings))
    assert text.count("  ok") == NODES - 1
    assert "a3-9  10.0.0.10  verl@a3-9, openEuler 22.03 (LTS-SP4), aarch64" in text
    assert "warning" in text
    assert summary(findings) == "1 warning: ready"
    assert summary([]) == "no findings: ready"
    assert summary([findings[0]._replace(severity="error"), findings[0]]) == "1 error, 1 warning: not ready"
