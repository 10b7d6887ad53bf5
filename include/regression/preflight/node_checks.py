"""What one node must have by itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime

from include.regression.config import Node
from include.regression.preflight.findings import Finding, error, warning
from include.regression.preflight.need import Need
from include.regression.preflight.observed import Fault, NodeFacts
from include.regression.preflight.ports import named_ports

#: A node may be this far off: Ray's and HCCL's time-outs are longer, and rows of one run stay in order.
CLOCK_LIMIT_S = 2.0
#: Ray's own advice (ray start warns below it).
OPEN_FILES = 8192
FREE_INODES = 100_000
PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")

FIXES = {
    "down": "power it on, start sshd, or correct host and port of Airflow connection {conn}",
    "key": "add the public key of Airflow connection {conn} to ~/.ssh/authorized_keys on the node, or correct its key_file",
    "host_key": "if the node was set up anew, take its key (`ssh-keyscan HOST`) into host_key of Airflow connection {conn}; "
    "if not, somebody may be in between: ask before you change it",
    "connection": "`make airflow CMD='connections add {conn} --conn-type ssh ...'`, or correct ssh_conn_id",
    "shell": "let nothing in ~/.bashrc or ~/.profile ask or exec in a non-interactive shell; the login shell must run `bash -c`",
    "python": "install Python 3.8 or newer there, or name an interpreter as `python`",
}


def unreachable(node: Node, fault: Fault) -> Finding:
    """Turn what SSH said into a finding."""
    check = {"shell": "login shell", "python": "python"}.get(fault.kind, "ssh")
    return error(node.name, check, fault.message, FIXES[fault.kind].format(conn=node.ssh_conn_id))


def check_node(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    """Yield what is wrong with a node on its own."""
    yield from _address(need, node, facts)
    yield from _shell(need, node, facts)
    yield from _resources(need, node, facts)
    yield from _disk(need, node, facts)
    yield from _ports(need, node, facts)
    yield from _leftovers(need, node, facts)
    for path, problem in facts.incomplete.items():
        if problem:
            yield error(node.name, "model and data", f"{path} {problem}", f"copy it to the node, complete (`ls -l {path}`)")


def _address(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    here = [f"{address} ({nic})" for nic, addresses in sorted(facts.addresses.items()) for address in addresses if nic != "lo"]
    if not facts.can_bind:
        yield error(
            node.name,
            "address",
            f"{node.address} is not an address of this node; it has {', '.join(here) or 'none'}",
            f"set nodes.{node.name}.address in {need.where} to the one that the other nodes reach",
        )
        return
    by_nic = {nic for nic, addresses in facts.addresses.items() if node.address in addresses}
    for variable, value in sorted(facts.variables.items()):
        names = {name.lstrip("=^") for name in value.split(",")}
        if variable.endswith("_SOCKET_IFNAME") and by_nic and not names & by_nic:
            yield error(
                node.name,
                "nic",
                f"{variable}={value}, but {node.address} is on {', '.join(sorted(by_nic))}: gloo and HCCL would take another",
                f"set {variable}: {min(by_nic)} under env in {need.where}",
            )
    for peer, source in sorted(facts.sources.items()):
        if source is None:
            yield error(node.name, "route", f"has no route to {peer}", f"`ip route get {peer}` on the node, then add the route")
        elif source != node.address:
            yield warning(
                node.name,
                "route",
                f"reaches {peer} from {source}, not from its cluster address {node.address}: several NICs",
                f"`ip route replace {peer}/32 dev {min(by_nic, default='NIC')} src {node.address}` on the node",
            )
    if facts.resolved is None:
        yield warning(
            node.name,
            "host name",
            f"its own name {facts.host} resolves to nothing; torch's rendezvous may look it up",
            f"`echo '{node.address} {facts.host}' >> /etc/hosts` on the node",
        )


def _shell(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    for number in facts.setup_failed:
        line = need.cluster.setup[number]
        yield error(
            node.name,
            "environment",
            f"setup line `{line}` fails in a non-interactive shell",
            f"install what it loads on the node, or correct setup in {need.where}",
        )
    if need.cluster.kind == "npu" and not facts.setup_failed and "ASCEND_HOME_PATH" not in facts.variables:
        yield error(
            node.name,
            "environment",
            "CANN's variables are not set in a non-interactive shell (ASCEND_HOME_PATH is missing)",
            f"add `source /usr/local/Ascend/ascend-toolkit/set_env.sh` to setup in {need.where}",
        )
    proxies = sorted({name for name in PROXIES if facts.variables.get(name)})
    exempt = facts.variables.get("no_proxy") or facts.variables.get("NO_PROXY") or ""
    wanted = ["127.0.0.1", "localhost", *(other.address for other in need.cluster.nodes)]
    missing = [name for name in dict.fromkeys(wanted) if not _is_exempt(name, exempt)]
    if proxies and missing:
        value = ",".join(dict.fromkeys([*filter(None, exempt.split(",")), *missing]))
        yield error(
            node.name,
            "proxy",
            f"{', '.join(proxies)} is set, and no_proxy leaves out {', '.join(missing)}: requests to the server and to Ray "
            "would go through the proxy",
            f"set no_proxy and NO_PROXY to {value!r} under env in {need.where}",
        )


def _is_exempt(name: str, no_proxy: str) -> bool:
    for entry in (part.strip() for part in no_proxy.split(",")):
        if entry == "*" or (entry and (name == entry or name.endswith(f".{entry.lstrip('.')}"))):
            return True
        try:
            if "/" in entry and ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def _resources(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    cluster = need.cluster
    for python, wanted in need.pythons.items():
        version = facts.pythons.get(python)
        field = f"pythons.{wanted}" if wanted else "python"
        if version is None:
            fix = f"install Python {wanted or '3'} on the node, or correct {field} in {need.where}"
            yield error(node.name, "python", f"{python} does not run", fix)
        elif wanted and version.split(".")[:2] != wanted.split("."):
            fix = f"set {field} in {need.where} to a Python {wanted}"
            yield error(node.name, "python", f"{python} is Python {version}; {need.release} needs {wanted}", fix)
    if cluster.kind != "cpu" and facts.cpus < cluster.logical_cpus:
        fix = f"set logical_cpus in {need.where} to what the nodes have"
        yield warning(node.name, "cpus", f"has {facts.cpus} CPUs, and Ray is told {cluster.logical_cpus}", fix)
    if facts.available_memory_gb < cluster.min_memory_gb:
        yield error(
            node.name,
            "memory",
            f"{facts.available_memory_gb} of {facts.memory_gb} GB are available, {cluster.min_memory_gb} are needed",
            f"end other work there (`ps aux --sort=-rss | head`), or lower min_memory_gb in {need.where}",
        )
    if facts.shm_free_mb < cluster.object_store_mb:
        yield warning(
            node.name,
            "shared memory",
            f"/dev/shm has {facts.shm_free_mb} MB free, Ray's object store takes {cluster.object_store_mb}: it would go to disk",
            f"`mount -o remount,size={cluster.object_store_mb * 2}M /dev/shm` on the node (containers: --shm-size)",
        )
    if 0 <= facts.open_files < OPEN_FILES:
        fix = f"raise it for {facts.user} in /etc/security/limits.conf (nofile), and log in anew"
        yield warning(node.name, "limits", f"{facts.open_files} open files are allowed, Ray wants {OPEN_FILES}", fix)


def _disk(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    disk, folder = facts.disk, need.cluster.work_dir
    if disk.problem:
        fix = f"`chown {facts.user} {disk.place}` on the node, or move work_dir in {need.where}"
        yield error(node.name, "disk", f"{folder} cannot be written: {disk.problem} at {disk.place}", fix)
    elif disk.free_gb < need.disk_gb:
        yield error(
            node.name,
            "disk",
            f"{disk.free_gb:g} GB are free in {folder}, {need.disk_gb:g} are needed",
            f"`du -xh --max-depth=2 {folder} | sort -h | tail` shows what can go; or move work_dir in {need.where}",
        )
    elif disk.free_inodes is not None and disk.free_inodes < FREE_INODES:
        fix = f"remove small files (`df -i {disk.place}`), or move work_dir in {need.where}"
        yield error(node.name, "disk", f"{disk.free_inodes} inodes are free in {folder}, {FREE_INODES} are needed", fix)


def _ports(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    named = named_ports(need.cluster, node.name)
    for port, owner in sorted(facts.ports.items()):
        if owner is not None and owner.home == need.cluster.work_dir:
            continue  # a process of ours: see leftovers
        who = f"{owner.command[:80]!r} (pid {owner.pid}, {owner.user})" if owner else "a process that this user may not see"
        yield error(
            node.name,
            "ports",
            f"port {port} is in use by {who}",
            f"choose another {named.get(port, 'port')} in {need.where}, or let its owner end it (`ss -ltnp 'sport = :{port}'`)",
        )


def _leftovers(need: Need, node: Node, facts: NodeFacts) -> Iterator[Finding]:
    ours: dict[str, int] = {}
    others: dict[tuple[str, str], list[int]] = {}
    since: dict[tuple[str, str], float] = {}
    for process in facts.processes:
        if process.home == need.cluster.work_dir:
            run = (process.job or "").partition("/")[0]
            ours[run] = ours.get(run, 0) + 1
        elif process.kind != "other":
            key = (process.kind, process.user)
            others.setdefault(key, []).append(process.pid)
            since[key] = min(process.since, since.get(key, process.since))
    for run, count in sorted(ours.items()):
        cause = f"{count} processes of our run {run} are there"
        fix = "nothing: if that run is over, the next one ends them by their tag when it begins"
        yield Finding(node.name, "leftovers", "note", cause, fix)
    for (kind, user), pids in sorted(others.items()):
        began = datetime.fromtimestamp(since[kind, user], UTC)
        yield warning(
            node.name,
            "leftovers",
            f"{kind} of {user}, {len(pids)} processes since {began:%Y-%m-%d %H:%M} UTC (pid {pids[0]}): somebody else's work",
            f"ask {user}; it is left alone (`ps -fp {','.join(map(str, pids[:5]))}`)",
        )
