"""The Ray head of a run."""

from __future__ import annotations

import hashlib
import json
import shlex

from include.regression.commands import environments
from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import RunSpec

JOB = "ray"


def token_file(spec: RunSpec) -> str:
    """File on the node that holds this cluster's token; only its owner can read it."""
    return f"{spec.run_dir}/ray/token"


def log_file(spec: RunSpec) -> str:
    return f"{spec.run_dir}/ray/head.log"


def temp_dir(spec: RunSpec) -> str:
    """Ray's temporary folder, of this run alone. Short, because it holds Unix sockets, whose paths have 107 bytes at most."""
    return f"/tmp/ray-{hashlib.sha256(spec.run_dir.encode()).hexdigest()[:10]}"


def kept_logs(spec: RunSpec) -> str:
    """Where Ray's logs lie after the head is stopped."""
    return f"{spec.run_dir}/ray/logs"


def environment(spec: RunSpec) -> dict[str, str]:
    """Variables of the head and of every client of it.

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


def head(spec: RunSpec) -> Command:
    """Start the head, wait for it and count its resources (result: include/node/ray_head.py)."""
    cluster, ports, address = spec.cluster, spec.cluster.ray_ports, spec.cluster.head.address
    count = cluster.head.devices
    # Ray counts GPUs itself and refuses them as a custom resource.
    devices = f"--num-gpus={count}" if cluster.ray_resource == "GPU" else "--resources=" + json.dumps({cluster.ray_resource: count})
    start = [
        spec.python("train"),
        "-m",
        "ray.scripts.scripts",
        "start",
        "--head",
        "--block",
        f"--node-ip-address={address}",
        f"--port={ports.gcs}",
        f"--dashboard-host={address}",
        f"--dashboard-port={ports.dashboard}",
        f"--ray-client-server-port={ports.client}",
        f"--dashboard-agent-listen-port={ports.agent}",
        f"--dashboard-agent-grpc-port={ports.agent_grpc}",
        f"--node-manager-port={ports.node_manager}",
        f"--object-manager-port={ports.object_manager}",
        f"--runtime-env-agent-port={ports.runtime_env}",
        f"--metrics-export-port={ports.metrics}",
        f"--min-worker-port={ports.workers_from}",
        f"--max-worker-port={ports.workers_to}",
        f"--num-cpus={cluster.logical_cpus}",
        devices,
        f"--object-store-memory={cluster.object_store_mb * 1_000_000}",
        f"--temp-dir={temp_dir(spec)}",
        "--disable-usage-stats",
    ]
    required = {"CPU": cluster.logical_cpus, cluster.ray_resource: cluster.devices}
    arguments = ["--job", f"{spec.run}/{JOB}", "--address", f"{address}:{ports.gcs}", "--log", log_file(spec)]
    arguments += ["--require", json.dumps(required)]
    for port in (ports.of_head | ports.of_every_node).values():
        arguments += ["--port", str(port)]
    script = node_script(spec, "ray_head", *arguments, "--", *start, python=spec.python("train"))
    variables = {**job_environment(spec, JOB), **environment(spec)}
    return Command(script, variables, timeout_s=240)


def stop(spec: RunSpec) -> Command:
    """Stop the head and all its processes, keep its logs in the run's folder, and remove its temporary folder."""
    base, logs, kept = shlex.quote(temp_dir(spec)), f"{temp_dir(spec)}/session_latest/logs", shlex.quote(kept_logs(spec))
    keep = f"if test -d {shlex.quote(logs)}; then rm -rf {kept} && cp -rL {shlex.quote(logs)} {kept}; fi\nrm -rf {base}"
    stopped = environments.stop(spec, JOB)
    return Command(f"{stopped.script}\n{keep}", stopped.environment, stopped.timeout_s)


def read_token(spec: RunSpec) -> str:
    """Shell command that prints the token."""
    return f"cat {shlex.quote(token_file(spec))}"


def driver_log(spec: RunSpec, submission_id: str) -> str:
    """Where Ray keeps the output of a job's driver (``session_latest`` is Ray's own link to the newest session)."""
    return f"{temp_dir(spec)}/session_latest/logs/job-driver-{submission_id}.log"
