"""The Ray cluster of a run: a head, and a worker on every further node."""

from __future__ import annotations

import hashlib
import json
import shlex

from include.regression.commands import environments
from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import Node, RunSpec

JOB = "ray"
#: How long a proven cluster of several nodes is watched: a node that the head does not reach is lost after 20 to 30 s.
HEALTH_CHECKS_S = 40


def token_file(spec: RunSpec) -> str:
    """File on the node that holds this cluster's token; only its owner can read it."""
    return f"{spec.run_dir}/ray/token"


def log_file(spec: RunSpec, node: Node) -> str:
    return f"{spec.run_dir}/ray/{node.name}.log"


def temp_dir(spec: RunSpec) -> str:
    """Ray's temporary folder, of this run alone. Short, because it holds Unix sockets, whose paths have 107 bytes at most."""
    return f"/tmp/ray-{hashlib.sha256(spec.run_dir.encode()).hexdigest()[:10]}"


def kept_logs(spec: RunSpec, node: Node) -> str:
    """Where a node's Ray logs lie after it is stopped."""
    return f"{spec.run_dir}/ray/logs-{node.name}"


def environment(spec: RunSpec) -> dict[str, str]:
    """Variables of every node's Ray and of every client of it.

    Ray 2.60 turns token authentication on by itself where it finds a token of somebody's, so mode and place are always set. On a
    cluster of one node at a loopback address, Ray is told not to look for a reachable address (the switch is named for macOS,
    ray/_private/ray_constants.py, and does the same on Linux): otherwise it listens on every interface.
    """
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": token_file(spec),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if spec.cluster.head.address.startswith("127."):
        variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return variables


def start(spec: RunSpec, node: Node) -> Command:
    """Start Ray on a node, the head or a worker, and wait until it listens (result: include/node/ray_node.py)."""
    cluster, ports = spec.cluster, spec.cluster.ray_ports
    is_head = node.name == cluster.head.name
    # Ray counts GPUs itself and refuses them as a custom resource.
    devices = {cluster.ray_resource: node.devices}
    offered = f"--num-gpus={node.devices}" if cluster.ray_resource == "GPU" else f"--resources={json.dumps(devices)}"
    command = [
        spec.python("train"),
        "-m",
        "ray.scripts.scripts",
        "start",
        *(_head_options(spec) if is_head else [f"--address={gcs(spec)}"]),
        "--block",
        f"--node-ip-address={node.address}",
        f"--dashboard-agent-listen-port={ports.agent}",
        f"--dashboard-agent-grpc-port={ports.agent_grpc}",
        f"--node-manager-port={ports.node_manager}",
        f"--object-manager-port={ports.object_manager}",
        f"--runtime-env-agent-port={ports.runtime_env}",
        f"--metrics-export-port={ports.metrics}",
        f"--min-worker-port={ports.workers_from}",
        f"--max-worker-port={ports.workers_to}",
        f"--num-cpus={cluster.logical_cpus}",
        offered,
        f"--object-store-memory={cluster.object_store_mb * 1_000_000}",
        "--disable-usage-stats",
    ]
    arguments = ["--job", f"{spec.run}/{JOB}", "--address", node.address, "--log", log_file(spec, node)]
    if is_head:
        arguments += ["--token", "--ready", str(ports.gcs)]
    arguments += ["--ready", str(ports.node_manager)]
    for port in ((ports.of_head if is_head else {}) | ports.of_every_node).values():
        arguments += ["--port", str(port)]
    script = node_script(spec, "ray_node", *arguments, "--", *command, python=spec.python("train"))
    return Command(script, {**job_environment(spec, JOB, node), **environment(spec)}, timeout_s=240)


def _head_options(spec: RunSpec) -> list[str]:
    ports, address = spec.cluster.ray_ports, spec.cluster.head.address
    return [
        "--head",
        f"--port={ports.gcs}",
        f"--dashboard-host={address}",
        f"--dashboard-port={ports.dashboard}",
        f"--ray-client-server-port={ports.client}",
        # The workers take the same place, each on its own node.
        f"--temp-dir={temp_dir(spec)}",
    ]


def gcs(spec: RunSpec) -> str:
    """Where the cluster's head answers."""
    return f"{spec.cluster.head.address}:{spec.cluster.ray_ports.gcs}"


def prove(spec: RunSpec) -> Command:
    """Prove the cluster from its head (result: include/node/ray_proof.py)."""
    cluster = spec.cluster
    expected = {node.address: {"CPU": cluster.logical_cpus, cluster.ray_resource: node.devices} for node in cluster.nodes}
    arguments = ["--address", gcs(spec), "--expect", json.dumps(expected)]
    if len(cluster.nodes) > 1:
        arguments += ["--watch", str(HEALTH_CHECKS_S)]
    script = node_script(spec, "ray_proof", *arguments, python=spec.python("train"))
    return Command(script, {**job_environment(spec, f"{JOB}/proof"), **environment(spec)}, timeout_s=360)


def stop(spec: RunSpec, node: Node, job: str = JOB) -> Command:
    """Stop Ray on a node, or with ``job=""`` the whole run; keep Ray's logs in the run's folder, remove its temporary folder."""
    base, logs, kept = shlex.quote(temp_dir(spec)), f"{temp_dir(spec)}/session_latest/logs", shlex.quote(kept_logs(spec, node))
    keep = f"if test -d {shlex.quote(logs)}; then rm -rf {kept} && cp -rL {shlex.quote(logs)} {kept}; fi\nrm -rf {base}"
    stopped = environments.stop(spec, node, job)
    return Command(f"{stopped.script}\n{keep}", stopped.environment, stopped.timeout_s)


def read_token(spec: RunSpec) -> str:
    """Shell command that prints the token."""
    return f"cat {shlex.quote(token_file(spec))}"


def driver_log(spec: RunSpec, submission_id: str) -> str:
    """Where Ray keeps the output of a job's driver (``session_latest`` is Ray's own link to the newest session)."""
    return f"{temp_dir(spec)}/session_latest/logs/job-driver-{submission_id}.log"
