"""What a node is and has, asked before anything of ours lies on it.

Sent over SSH and run from standard input: nothing is written, so that a full disk or a read-only folder cannot stop it. Alone,
with the standard library, on any Python from 3.8: it must run on a node that is not set up yet. The question is one JSON object
(include/regression/commands/probe.py), the answer another one, on the line after :data:`MARK`.
"""

from __future__ import annotations

import array
import fcntl
import getpass
import glob
import json
import os
import platform
import pwd
import re
import resource
import socket
import struct
import subprocess
import sys
import time
from typing import Any

MARK = "VERL-REGRESSION-FACTS"
HOME = "VERL_REGRESSION_HOME"
JOB = "VERL_REGRESSION_JOB"
PACKAGES = ("ray", "torch", "torch_npu", "verl", "vllm", "vllm_ascend", "transformers")
ENVIRONMENT = re.compile(r"(?i)^(https?_proxy|all_proxy|no_proxy|.*_SOCKET_IFNAME|ASCEND_.*|CUDA_HOME)$")
#: What a run may have left behind, by its command line.
KINDS = (
    ("Ray", re.compile(r"gcs_server|raylet|ray::|ray/dashboard|ray\.scripts\.scripts|bin/ray ")),
    ("vLLM", re.compile(r"vllm\.entrypoints|VLLM::|bin/vllm ")),
    ("ais_bench", re.compile(r"ais_bench")),
)


def output(command: list[str], timeout: float = 20, merge: bool = False) -> tuple[int | None, str]:
    """Return exit status and text of a command; None and the reason if it could not be run."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merge else subprocess.DEVNULL, timeout=timeout
        )
        return done.returncode, done.stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)


def read(path: str) -> str:
    try:
        with open(path, "rb") as handle:
            return handle.read().decode(errors="replace")
    except OSError:
        return ""


def nearest_existing(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def memory() -> list[float]:
    """GB of memory, all and available (MemTotal and MemAvailable of /proc/meminfo)."""
    found = dict(line.split(":", 1) for line in read("/proc/meminfo").splitlines() if ":" in line)
    return [round(int(found[name].split()[0]) * 1024 / 1e9, 1) for name in ("MemTotal", "MemAvailable")]


def disk(path: str) -> dict[str, Any]:
    """The file system that holds a folder: GB and inodes that are free (null: no fixed number), and why it cannot be written."""
    place = nearest_existing(path)
    state = os.statvfs(place)
    problem = None if os.access(place, os.W_OK | os.X_OK) and not state.f_flag & os.ST_RDONLY else "no permission, or read-only"
    return {
        "place": place,
        "free_gb": round(state.f_bavail * state.f_frsize / 1e9, 2),
        "free_inodes": state.f_favail if state.f_files else None,
        "problem": problem,
    }


def addresses() -> dict[str, list[str]]:
    """IPv4 addresses by interface (ioctl SIOCGIFCONF, netdevice(7))."""
    names = array.array("B", bytes(64 * 1024))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        packed = fcntl.ioctl(asked.fileno(), 0x8912, struct.pack("iL", len(names), names.buffer_info()[0]))
    used = struct.unpack("iL", packed)[0]
    raw, size = names.tobytes(), 40 if struct.calcsize("P") == 8 else 32
    found: dict[str, list[str]] = {}
    for at in range(0, used, size):
        name = raw[at : at + 16].split(b"\0", 1)[0].decode()
        found.setdefault(name, []).append(socket.inet_ntoa(raw[at + 20 : at + 24]))
    return found


def can_bind(address: str) -> bool:
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
        return True
    except OSError:
        return False


def source_to(address: str) -> str | None:
    """Which of our addresses the kernel would use towards another one; null if there is no route."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def resolved(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def firewall() -> dict[str, Any]:
    """Whether firewalld runs; the nftables base chains of input and output that can drop; whether the rules could be read."""
    firewalld = output(["firewall-cmd", "--state"])[0] == 0
    status, text = output(["nft", "-j", "list", "ruleset"])
    if status == 0:
        return {"firewalld": firewalld, "readable": True, "tool": "nft", "chains": nft_chains(text)}
    status, text = output(["iptables-save", "-t", "filter"])
    chains = [
        {"family": "ip", "table": "filter", "chain": name, "hook": name.lower()}
        for name in ("INPUT", "OUTPUT")
        if re.search(rf"^:{name} DROP|^-A {name} .*-j (DROP|REJECT)", text or "", re.M)
    ]
    return {"firewalld": firewalld, "readable": status == 0, "tool": "iptables", "chains": chains}


def nft_chains(text: str) -> list[dict[str, str]]:
    entries = json.loads(text or "{}").get("nftables", [])
    dropping = {
        (entry["rule"]["family"], entry["rule"]["table"])
        for entry in entries
        if "rule" in entry and any("drop" in part or "reject" in part for part in entry["rule"].get("expr", []))
    }
    chains = [entry["chain"] for entry in entries if "chain" in entry and entry["chain"].get("hook") in ("input", "output")]
    return [
        {"family": chain["family"], "table": chain["table"], "chain": chain["name"], "hook": chain["hook"]}
        for chain in chains
        if chain.get("policy") == "drop" or (chain["family"], chain["table"]) in dropping
    ]


def python_version(python: str) -> str | None:
    status, text = output([python, "-c", "import platform; print(platform.python_version())"], timeout=30)
    return text.strip() if status == 0 else None


def environment(folder: str) -> dict[str, Any] | None:
    """Python and packages of a node environment, from the names of its ``*.dist-info`` folders; null if it is not there."""
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        return None
    packages = {}
    for path in glob.glob(os.path.join(folder, "lib", "python3*", "site-packages", "*.dist-info")):
        name, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
        name = re.sub(r"[-.]+", "_", name).lower()
        if name in PACKAGES:
            packages[name] = version
    return {"python": python_version(python), "packages": packages}


def software() -> dict[str, str]:
    """Versions of what Ascend's installers leave on a node."""
    toolkit = (
        os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH") or "/usr/local/Ascend/ascend-toolkit/latest"
    )
    files = {
        "driver": ["/usr/local/Ascend/driver/version.info"],
        "firmware": ["/usr/local/Ascend/firmware/version.info"],
        "cann": glob.glob(os.path.join(toolkit, "*-linux", "ascend_toolkit_install.info")),
    }
    found = {}
    for name, paths in files.items():
        text = "\n".join(map(read, paths))
        match = re.search(r"(?im)^version\s*=\s*\[?([^\]\s]+)", text)
        if match:
            found[name] = match.group(1)
    return found


def listening() -> dict[int, str]:
    """Socket inodes by listening TCP port (/proc/net/tcp and tcp6, state 0A)."""
    found = {}
    for line in (read("/proc/net/tcp") + read("/proc/net/tcp6")).splitlines():
        cells = line.split()
        if len(cells) > 9 and cells[3] == "0A":
            found[int(cells[1].rsplit(":", 1)[1], 16)] = cells[9]
    return found


def process(pid: int) -> dict[str, Any] | None:
    """Who a process is: command, owner, start (Unix time), and the tags that we give to ours."""
    folder = f"/proc/{pid}"
    command = read(folder + "/cmdline").replace("\0", " ").strip()
    if not command:
        return None
    # Field 22 of /proc/PID/stat is the start in ticks since boot; the name in field 2 may hold spaces.
    ticks = int(read(folder + "/stat").rpartition(")")[2].split()[19])
    booted = time.time() - float(read("/proc/uptime").split()[0])
    tags = dict(entry.partition("=")[::2] for entry in read(folder + "/environ").split("\0"))
    uid = os.stat(folder).st_uid
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    started = booted + ticks / os.sysconf("SC_CLK_TCK")
    return {"pid": pid, "user": user, "since": started, "command": command[:300], "home": tags.get(HOME), "job": tags.get(JOB)}


def processes(ports: set[int]) -> tuple[list[dict[str, Any]], dict[int, Any]]:
    """What looks like a run's, and who listens on the ports that are asked about."""
    taken = {inode: port for port, inode in listening().items() if port in ports}
    leftovers: list[dict[str, Any]] = []
    owners: dict[int, Any] = dict.fromkeys(taken.values())
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
        try:
            one = process(pid)
            if one is None:
                continue
            kind = next((kind for kind, pattern in KINDS if pattern.search(one["command"])), None)
            if kind or one["job"]:
                leftovers.append(dict(one, kind=kind or "other"))
            for descriptor in os.listdir(f"/proc/{pid}/fd") if taken else []:
                link = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                port = taken.get(link[len("socket:[") : -1]) if link.startswith("socket:[") else None
                if port:
                    owners[port] = one
        except (OSError, IndexError):
            continue  # gone meanwhile, or somebody else's
    return leftovers, owners


def incomplete(path: str, what: str) -> str | None:
    """Say why a model folder or a data file is not complete; null if it is."""
    if what == "file":
        return None if os.path.isfile(path) and os.path.getsize(path) else "is not there, or empty"
    if not os.path.isfile(os.path.join(path, "config.json")):
        return "holds no config.json"
    shards: set[str] = set()
    for index in glob.glob(os.path.join(path, "*.index.json")):
        try:
            shards |= set(json.loads(read(index))["weight_map"].values())
        except (ValueError, KeyError):
            return f"{os.path.basename(index)} cannot be read"
    if not shards and not glob.glob(os.path.join(path, "*.safetensors")) + glob.glob(os.path.join(path, "*.bin")):
        return "holds no weights"
    missing = sorted(name for name in shards if not os.path.isfile(os.path.join(path, name)))
    return f"lacks {len(missing)} of {len(shards)} shards, such as {missing[0]}" if missing else None


def probe(question: dict[str, Any]) -> dict[str, Any]:
    leftovers, owners = processes(set(question["ports"]))
    system = dict(line.split("=", 1) for line in read("/etc/os-release").splitlines() if "=" in line)
    shm = os.statvfs("/dev/shm")
    name = socket.gethostname()
    total, available = memory()
    return {
        "host": name,
        "user": getpass.getuser(),
        "os": system.get("PRETTY_NAME", "").strip('"'),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": total,
        "available_memory_gb": available,
        "shm_free_mb": shm.f_bavail * shm.f_frsize // 1000000,
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "disk": disk(question["work_dir"]),
        "addresses": addresses(),
        "can_bind": can_bind(question["address"]),
        "sources": {peer: source_to(peer) for peer in question["peers"]},
        "resolved": resolved(name),
        "variables": {key: value for key, value in os.environ.items() if ENVIRONMENT.match(key)},
        "setup_failed": [int(number) for number in os.environ.get("SETUP_FAILED", "").split()],
        "firewall": firewall(),
        "pythons": {python: python_version(python) for python in question["pythons"]},
        "environments": {folder: environment(folder) for folder in question["environments"]},
        "software": software(),
        "npu_smi": output(["npu-smi", "info"], merge=True)[1] if question["kind"] == "npu" else None,
        "nvidia_smi": output(question["nvidia_smi"], merge=True)[1] if question["kind"] == "cuda" else None,
        "ports": {str(port): owner for port, owner in owners.items()},
        "processes": leftovers,
        "incomplete": {path: incomplete(path, what) for path, what in question["files"].items()},
    }


if __name__ == "__main__":
    print(f"\n{MARK}\n{json.dumps(probe(json.loads(sys.argv[1])))}")
