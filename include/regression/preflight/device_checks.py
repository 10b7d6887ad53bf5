"""The accelerators of a node, and the versions of what their installers left there."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from include.regression.config import Node
from include.regression.parsers.npu_smi import NpuSmi, NpuSmiFailed, parse_npu_smi
from include.regression.parsers.nvidia_smi import NvidiaSmiFailed, parse_nvidia_smi
from include.regression.preflight.findings import Finding, error, warning
from include.regression.preflight.need import Need
from include.regression.preflight.observed import NodeFacts

NPU_FIXES = {
    "missing": "install the HDK driver, or put npu-smi on the PATH of a non-interactive shell (`ls /usr/local/sbin/npu-smi`)",
    "library": "add `export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:$LD_LIBRARY_PATH` to setup in {where}",
    "format": "run `npu-smi info` on the node; /usr/local/Ascend/driver/version.info says what is installed",
    "-8005": "start the container with the devices (/dev/davinci*, /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc) and "
    "/usr/local/Ascend/driver mounted, and end the one that holds them",
    "-8020": "end the container that holds them (`docker ps` on the host)",
}


def check_devices(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    """Yield what is wrong with a node's NPUs or GPUs; nothing for a CPU node."""
    if facts.npu_smi is not None:
        yield from _npus(need, node, facts)
    if facts.nvidia_smi is not None:
        yield from _gpus(node, facts.nvidia_smi)


def _npus(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    try:
        found = parse_npu_smi(facts.npu_smi or "")
    except NpuSmiFailed as problem:
        yield error(node.name, "npu-smi", str(problem), NPU_FIXES[problem.fault].format(where=need.where))
        return
    if len(found.chips) < node.devices:
        cause = f"npu-smi shows {len(found.chips)} chips, the cluster file says {node.devices}"
        fix = f"look for a lost card (`npu-smi info -m`, `dmesg`), or correct nodes.{node.name}.devices in {need.where}"
        yield error(node.name, "devices", cause, fix)
    for chip in found.unhealthy:
        yield error(
            node.name,
            "devices",
            f"NPU {chip.npu} chip {chip.chip} is {chip.health}",
            f"`npu-smi info -t health -i {chip.npu} -c {chip.chip}` names the fault; "
            f"then `npu-smi set -t reset -i {chip.npu} -c {chip.chip}`, or have it replaced",
        )
    yield from _busy(node, found)
    yield from _stated(need, node, "driver", "hdk_driver", facts.software.get("driver", found.version))
    yield from _stated(need, node, "cann", "cann", facts.software.get("cann"))


def _busy(node: Node, found: NpuSmi) -> Iterator[Finding]:
    if not found.busy:
        return
    chips = ", ".join(f"{chip.npu}/{chip.chip} ({chip.hbm_used_mb} of {chip.hbm_total_mb} MB)" for chip in found.busy)
    pids = ", ".join(dict.fromkeys(f"pid {process.pid} {process.name}".strip() for process in found.processes))
    who = f"used by {pids}" if pids else "npu-smi lists no process: another container"
    yield error(
        node.name,
        "devices",
        f"{len(found.busy)} chips are busy, NPU/chip {chips}; {who}",
        "let the owner end it (`ps -fp PID` names them, on the host if not here), or wait",
    )


def _stated(need: Need, node: Node, check: str, component: str, have: str | None) -> Iterator[Finding]:
    """Compare what is installed with what the release's sources state; an older one is an error, a newer one a warning."""
    stated = need.components.get(component)
    if stated is None:
        return
    name = {"hdk_driver": "HDK driver", "cann": "CANN"}[component]
    fix = f"install {name} {stated} on the node"
    if have is None:
        yield warning(node.name, check, f"{name}'s version cannot be read; {need.release} is stated with {stated}", fix)
        return
    try:
        installed, wanted = Version(have), Version(stated)
    except InvalidVersion:
        if have != stated:
            yield warning(node.name, check, f"{name} is {have}; {need.release} is stated with {stated}", fix)
        return
    if installed < wanted:
        yield error(node.name, check, f"{name} {have} is older than {stated}, which {need.release} is stated with", fix)
    elif installed > wanted:
        yield warning(node.name, check, f"{name} {have} is newer than {stated}, which {need.release} is stated with", fix)


def _gpus(node: Node, text: str) -> Iterator[Finding]:
    try:
        found = parse_nvidia_smi(text)
    except NvidiaSmiFailed as problem:
        fix = "install NVIDIA's driver, and see that nvidia-smi is on the PATH of a non-interactive shell"
        yield error(node.name, "nvidia-smi", f"nvidia-smi lists no GPU: {problem}", fix)
        return
    if len(found) < node.devices:
        cause = f"nvidia-smi shows {len(found)} GPUs, the cluster file says {node.devices}"
        yield error(node.name, "devices", cause, f"look for a lost card (`dmesg`), or correct nodes.{node.name}.devices")
    busy = [f"{gpu.number} ({gpu.used_mb} of {gpu.total_mb} MB)" for gpu in found if gpu.busy]
    if busy:
        fix = "let the owner end it (`nvidia-smi --query-compute-apps=pid,name --format=csv`), or wait"
        yield error(node.name, "devices", f"GPUs are busy: {', '.join(busy)}", fix)
