"""The preflight on real nodes, and each fault injected for real: it is named rightly, with the right fix, and nothing else is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from include.regression.config import Catalogue, Cluster, resolve
from include.regression.preflight import Finding, need_of
from tests.conftest import DATA
from tests.integration.lab import PYTHON, LabNode
from verl_regression.inspection import inspect


def found(cluster: Cluster) -> list[Finding]:
    return inspect(need_of(cluster))[1]


def test_a_good_cluster_has_no_findings(lab_cluster: Cluster) -> None:
    observed, findings = inspect(need_of(lab_cluster))
    assert findings == []
    assert [seen.facts.host for seen in observed if seen.facts] == ["lab-1", "lab-2", "lab-3"]
    assert all(set(seen.links) == {node.name for node in lab_cluster.nodes} - {seen.node} for seen in observed)
    assert all(seen.seen == ("lab-1", "lab-2", "lab-3") for seen in observed)


def only(cluster: Cluster, node: str, check: str) -> Finding:
    """The one error that there is; no other finding is tolerated."""
    findings = found(cluster)
    assert [(finding.node, finding.check, finding.severity) for finding in findings] == [(node, check, "error")], findings
    return findings[0]


def carry_out(finding: Finding, nodes: list[LabNode]) -> None:
    """Run the command that a finding names, on the node that it names."""
    place, _, command = finding.fix.removeprefix("on ").partition(": ")
    next(node for node in nodes if node.name == place).sh(command.strip("`"))


def test_a_worker_that_cannot_reach_the_head(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    head, worker, _ = nodes
    with head.firewall(f"ip saddr {worker.address} ct state new drop"):
        finding = only(lab_cluster, "lab-1", "network")
        assert "lab-2 cannot reach lab-1 at 10.77.0.11 on any port: nothing answers (a firewall that drops)" in finding.cause
        assert finding.cause.endswith("; one way: lab-1 does reach lab-2")
        carry_out(finding, nodes)
        assert found(lab_cluster) == []


def test_a_head_that_cannot_reach_a_worker(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    """Ray shows such a worker as alive for half a minute."""
    head, _, worker = nodes
    with worker.firewall(f"ip saddr {head.address} ct state new drop"):
        finding = only(lab_cluster, "lab-3", "network")
        assert "lab-1 cannot reach lab-3 at 10.77.0.13 on any port" in finding.cause
        assert "one way: lab-3 does reach lab-1" in finding.cause
        assert "ip saddr 10.77.0.11" in finding.fix
        carry_out(finding, nodes)
        assert found(lab_cluster) == []


def test_a_firewall_of_the_sender(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    _, worker, _ = nodes
    with worker.firewall("ip daddr 10.77.0.11 ct state new drop", hook="output"):
        finding = only(lab_cluster, "lab-2", "network")
        assert "lab-2 cannot reach lab-1" in finding.cause
        carry_out(finding, nodes)
        assert found(lab_cluster) == []


def test_a_firewall_that_shuts_the_worker_range_only(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    with nodes[1].firewall("ip saddr != 10.77.0.1 tcp dport 20100-20399 drop"):
        finding = only(lab_cluster, "lab-2", "network")
        assert finding.cause.startswith("lab-1, lab-3: lab-2 answers at 10.77.0.12, but not on Ray's worker range (20100-20399): ")
        assert "tcp dport { 20100-20399 } accept" in finding.fix
        carry_out(finding, nodes)
        assert found(lab_cluster) == []


def test_another_python(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    """A node whose interpreter says that it is another version."""
    shim = nodes[0].folder.parent / "python"
    shim.write_text(f'#!/bin/bash\nexec {PYTHON} "$@"\n')
    other = nodes[1].folder / "python"
    says = 'import platform; platform.python_version = lambda: "3.12.1"; exec(__import__("sys").argv.pop(1))'
    other.write_text(f'#!/bin/bash\nshift; code=$1; shift\nexec {PYTHON} -c {shlex.quote(says)} "$code" "$@"\n')
    for script in (shim, other):
        script.chmod(0o755)
    cluster = lab_cluster.model_copy(update={"python": str(shim)})
    assert found(cluster) == []
    with nodes[1].mounted("--bind", str(other), str(shim)):
        finding = only(cluster, "lab-2", "python")
        assert f"{shim} is Python 3.12.1; lab-1 and most others: 3.11." in finding.cause
        assert "include/clusters/lab.yaml" in finding.fix


def test_another_ray(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    """The environments of two nodes were built at different times."""
    spec = resolve(Catalogue(), "pf-1", "tiny_grpo_cpu").model_copy(update={"cluster": lab_cluster})
    folder, other = Path(spec.environment_dir("train")), nodes[2].folder / "environment"
    for place, version in ((folder, "2.60.0"), (other, "2.59.0")):
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", place], check=True)
        info = next(place.glob("lib/python3*/site-packages")) / f"ray-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
    need = need_of(lab_cluster, spec).model_copy(update={"pythons": {PYTHON: "3.11"}})
    try:
        assert inspect(need)[1] == []
        with nodes[2].mounted("--bind", str(other), str(folder)):
            findings = inspect(need)[1]
            assert [(finding.node, finding.check, finding.severity) for finding in findings] == [("lab-3", "ray", "error")]
            assert findings[0].cause == "the train environment has ray 2.59.0; lab-1 and most others: 2.60.0"
            assert findings[0].fix.startswith(f"remove {folder} on this node")
    finally:
        shutil.rmtree(folder.parent)


def test_a_node_that_is_down(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    nodes[1].connect_with(host="10.77.0.99")
    try:
        finding = only(lab_cluster, "lab-2", "ssh")
        assert "no SSH server answers at 10.77.0.99:22" in finding.cause
        assert "power it on" in finding.fix
    finally:
        nodes[1].connect_with()


def test_a_wrong_ssh_key(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    nodes[1].connect_with(key_file=str(nodes[0].folder / "host"))
    try:
        finding = only(lab_cluster, "lab-2", "ssh")
        assert "10.77.0.12:22 refuses the key of connection 'vr_lab_2' for login 'root'" in finding.cause
        assert "authorized_keys" in finding.fix
    finally:
        nodes[1].connect_with()


def test_a_host_key_that_changed(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    other = " ".join((nodes[0].folder / "host.pub").read_text().split()[:2])
    nodes[1].connect_with(host_key=other)
    try:
        finding = only(lab_cluster, "lab-2", "ssh")
        assert "10.77.0.12:22 shows another host key (ssh-ed25519" in finding.cause
        assert "host_key of Airflow connection vr_lab_2" in finding.fix
    finally:
        nodes[1].connect_with()


def test_no_connection_of_that_name(lab_cluster: Cluster) -> None:
    head, worker, other = lab_cluster.nodes
    nodes = (head, worker.model_copy(update={"ssh_conn_id": "nowhere"}), other)
    finding = only(lab_cluster.model_copy(update={"nodes": nodes}), "lab-2", "ssh")
    assert "Airflow connection 'nowhere' cannot be used: The conn_id `nowhere` isn't defined" in finding.cause


def test_a_wrong_address(lab_cluster: Cluster) -> None:
    head, worker, other = lab_cluster.nodes
    nodes = (head, worker.model_copy(update={"address": "10.77.0.77"}), other)
    finding = only(lab_cluster.model_copy(update={"nodes": nodes}), "lab-2", "address")
    assert finding.cause == "10.77.0.77 is not an address of this node; it has 10.77.0.12 (eth0)"
    assert finding.fix == "set nodes.lab-2.address in include/clusters/lab.yaml to the one that the other nodes reach"


def test_a_wrong_nic(lab_cluster: Cluster) -> None:
    findings = found(lab_cluster.model_copy(update={"env": {"GLOO_SOCKET_IFNAME": "ib0"}}))
    assert {(finding.node, finding.check) for finding in findings} == {(f"lab-{n}", "nic") for n in (1, 2, 3)}
    assert "GLOO_SOCKET_IFNAME=ib0, but 10.77.0.11 is on eth0" in findings[0].cause
    assert findings[0].fix == "set GLOO_SOCKET_IFNAME: eth0 under env in include/clusters/lab.yaml"


def test_a_second_nic_that_takes_the_traffic(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    nodes[1].sh("ip addr add 10.77.0.212/24 dev eth0 && ip route change 10.77.0.0/24 dev eth0 src 10.77.0.212")
    try:
        findings = found(lab_cluster)
        assert {(finding.node, finding.check, finding.severity) for finding in findings} == {("lab-2", "route", "warning")}
        assert "reaches 10.77.0.11 from 10.77.0.212, not from its cluster address 10.77.0.12" in findings[0].cause
        for finding in findings:
            nodes[1].sh(finding.fix.split("`")[1])
        assert found(lab_cluster) == []
    finally:
        nodes[1].sh("ip route del 10.77.0.11/32; ip route del 10.77.0.13/32; ip addr del 10.77.0.212/24 dev eth0")
        nodes[1].sh("ip route replace 10.77.0.0/24 dev eth0 src 10.77.0.12 && ip route replace default via 10.77.0.1")


def test_a_port_that_is_taken(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    with nodes[0].running(PYTHON, "-m", "http.server", "6401", "--bind", "0.0.0.0"):
        nodes[0].sh("until ss -ltn | grep -q :6401; do sleep 0.1; done")
        finding = only(lab_cluster, "lab-1", "ports")
        assert re.search(r"port 6401 is in use by '.*-m http.server 6401 .*' \(pid \d+, root\)", finding.cause)
        assert "choose another ray_ports.gcs in include/clusters/lab.yaml" in finding.fix


def test_a_disk_that_is_full(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    """A file system of 8 MB, without room for a byte."""
    work = lab_cluster.work_dir
    with nodes[2].mounted("-t", "tmpfs", "-o", "size=8m", "tmpfs", work):
        nodes[2].sh(f"head -c 9000000 /dev/zero > {work}/full || true")
        findings = found(lab_cluster)
        assert ("lab-3", "disk", "error") in [(finding.node, finding.check, finding.severity) for finding in findings]
        assert f"0 GB are free in {work}, 0.2 are needed" in findings[0].cause
        # It is another file system as well, and that is said, too: nothing else.
        assert {(finding.node, finding.check) for finding in findings} == {("lab-3", "disk"), ("lab-3", "shared folder")}


def test_a_folder_that_is_not_shared(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    work, own = lab_cluster.work_dir, nodes[1].folder / "own"
    own.mkdir(exist_ok=True)
    with nodes[1].mounted("--bind", str(own), work):
        finding = only(lab_cluster, "lab-2", "shared folder")
        assert finding.cause == f"work_dir {work} is not shared: lab-2 and lab-1 do not see each other's files there"
        assert f"findmnt -T {work}" in finding.fix
    assert not list(own.iterdir())


def test_a_clock_that_is_wrong(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    with nodes[1].login_with(LD_PRELOAD=str(library), FAKETIME="+30s", DONT_FAKE_MONOTONIC="1"):
        observed, findings = inspect(need_of(lab_cluster))
        assert [(finding.node, finding.check, finding.severity) for finding in findings] == [("lab-2", "clock", "error")]
        finding = findings[0]
        ahead = re.match(r"its clock is ([\d.]+) s ahead of the others", finding.cause)
        assert ahead
        # Right to a tenth, and to what the reading itself may be wrong by on a busy machine (and so may the middle of the clocks).
        assert float(ahead[1]) == pytest.approx(30, abs=0.1 + 2 * max(seen.clock_error_s for seen in observed))
        assert "timedatectl set-ntp true" in finding.fix


def test_too_few_cpus(lab_cluster: Cluster) -> None:
    finding = only(lab_cluster.model_copy(update={"logical_cpus": 4}), "lab-1", "cpus")
    assert "Ray is told 12 logical CPUs, verl's actors reserve 18 for 3 devices" in finding.cause
    assert finding.fix == "set logical_cpus in include/clusters/lab.yaml to 6 or more"


def test_the_ray_of_somebody_else(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    """A real head of another user's is named, with its owner, and goes on."""
    command = ["-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=7777", f"--node-ip-address={nodes[1].address}"]
    command += ["--num-cpus=1", "--object-store-memory=80000000", "--include-dashboard=false", "--disable-usage-stats"]
    home = Path(tempfile.mkdtemp(prefix="vr-o-"))
    home.chmod(0o777)
    somebody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # This test's own Python may lie where only root can read.
    somebody += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", sys.executable]
    with nodes[1].running(*somebody, *command, f"--temp-dir={home}/ray", HOME=str(home)):
        nodes[1].sh(
            "for _ in $(seq 600); do ss -ltn | grep -q :7777 && pgrep raylet >/dev/null && break; sleep 0.1; done; pgrep raylet"
        )
        before = nodes[1].sh("pgrep gcs_server; pgrep raylet")
        findings = found(lab_cluster)
        assert [(finding.node, finding.check, finding.severity) for finding in findings] == [("lab-2", "leftovers", "warning")]
        assert re.match(r"Ray of nobody, \d+ processes since \d{4}-\d\d-\d\d \d\d:\d\d UTC", findings[0].cause)
        assert "ask nobody; it is left alone" in findings[0].fix
        assert nodes[1].sh("pgrep gcs_server; pgrep raylet") == before
        # Asked to end, Ray would drain for half a minute.
        nodes[1].sh("kill -KILL $(ps -o pid= -u nobody)")
    shutil.rmtree(home, ignore_errors=True)


def test_a_proxy(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    with nodes[1].login_with(http_proxy="http://proxy.example:3128", no_proxy="localhost"):
        finding = only(lab_cluster, "lab-2", "proxy")
        assert finding.cause.startswith("http_proxy is set, and no_proxy leaves out 127.0.0.1, 10.77.0.11, 10.77.0.12, 10.77.0.13")
        value = finding.fix.split("'")[1]
        assert found(lab_cluster.model_copy(update={"env": {"no_proxy": value, "NO_PROXY": value}})) == []


def test_an_environment_that_a_plain_shell_lacks(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    script = nodes[0].folder.parent / "set_env.sh"
    script.write_text("echo loading; export ASCEND_HOME_PATH=/x\n")
    cluster = lab_cluster.model_copy(update={"setup": (f"source {script}",)})
    assert found(cluster) == []
    broken = cluster.model_copy(update={"setup": (f"source {script}", "source /nowhere/set_env.sh")})
    findings = found(broken)
    assert {(finding.node, finding.check) for finding in findings} == {(f"lab-{n}", "environment") for n in (1, 2, 3)}
    assert "setup line `source /nowhere/set_env.sh` fails in a non-interactive shell" in findings[0].cause


@pytest.mark.parametrize(
    ("sample", "check", "cause"),
    [
        (None, "npu-smi", "npu-smi is not installed, or not on the PATH of a non-interactive shell"),
        ("error_8005", "npu-smi", "the driver cannot be reached"),
        ("A3_one_chip_critical", "devices", "NPU 3 chip 1 is Critical"),
        ("910B2_busy_4_cards_vllm", "devices", "4 chips are busy, NPU/chip 0/0 (46731 of 65536 MB), 1/0 "),
        ("910B2_hbm_used_but_no_process_listed", "devices", "npu-smi lists no process: another container"),
        ("910B4_single_card_container", "devices", "npu-smi shows 1 chips, the cluster file says 8"),
        ("910B2_a2_8x64g_idle_healthy", "driver", "HDK driver 25.2.0 is older than 26.0.rc1, which v0.9.0 is stated with"),
    ],
)
def test_npus(lab_cluster: Cluster, nodes: list[LabNode], sample: str | None, check: str, cause: str) -> None:
    """A node whose npu-smi answers from the samples, beside two whose NPUs are well."""
    binary = nodes[0].folder.parent / "bin" / "npu-smi"
    binary.parent.mkdir(exist_ok=True)
    healthy = "A3_16chips_idle_healthy" if sample and sample.startswith("A3") else "910B2_a2_8x64g_idle_healthy"
    binary.write_text(f"#!/bin/sh\ncat {DATA}/npu_smi/{healthy}.txt\n")
    binary.chmod(0o755)
    devices = 16 if "A3" in healthy else 8
    cluster = lab_cluster.model_copy(
        update={
            "kind": "npu",
            "logical_cpus": 192,
            "env": {"PATH": f"{binary.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "ASCEND_HOME_PATH": "/x"},
            "nodes": tuple(node.model_copy(update={"devices": devices}) for node in lab_cluster.nodes),
        }
    )
    need = need_of(cluster)
    if check == "driver":
        need = need.model_copy(update={"components": {"hdk_driver": "26.0.rc1"}, "release": "v0.9.0"})
        expected = {"lab-1", "lab-2", "lab-3"}
    else:
        expected = {"lab-2"}
    other = nodes[1].folder / "npu-smi"
    other.write_text(f"#!/bin/sh\ncat {DATA}/npu_smi/{sample}.txt\n" if sample else "#!/nowhere\n")
    other.chmod(0o755)
    with nodes[1].mounted("--bind", str(other), str(binary)):
        findings = [finding for finding in inspect(need)[1] if finding.check != "cpus"]
    assert {(finding.node, finding.check, finding.severity) for finding in findings} == {
        (node, check, "error") for node in expected
    }
    assert cause in findings[0].cause
    assert findings[0].fix


def test_nothing_is_left_on_the_nodes(lab_cluster: Cluster, nodes: list[LabNode]) -> None:
    found(lab_cluster)
    assert not list(Path(lab_cluster.work_dir).iterdir())
    for node in nodes:
        deadline = time.monotonic() + 5
        while node.sh("pgrep -fc 'reach.py|probe.py' || true").strip() not in ("0", "1"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
