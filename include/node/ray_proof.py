"""Prove a Ray cluster before anything relies on it: every node joins, offers what it must, works, exchanges objects, and stays.

Runs on the head, in the training environment, as a driver. A node that reaches the head while the head does not reach it shows
itself as alive until Ray's health checks have failed often enough (5 s, then every 3 s, 5 failures of up to 10 s each,
ray/src/ray/common/ray_config_def.h; seen: gone after 20 to 30 s): hence the wait at the end. Result: nodes, resources, seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from .result import stop_with, write_result

#: Larger than what Ray sends inline with a task's answer (100 kB): it travels from object store to object store.
OBJECT_BYTES = 4_000_000
POLL_S = 0.5


def connect(address: str, timeout_s: float) -> None:
    """Join the cluster as a driver."""
    import ray

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            return
        except ConnectionError as error:
            if time.monotonic() > deadline:
                stop_with(f"the Ray head at {address} cannot be reached from its own node: {error}")
            time.sleep(POLL_S)


def joined(expected: dict[str, dict[str, float]], timeout_s: float) -> dict[str, str]:
    """Wait for all nodes, check what they offer, and return address -> Ray's node id."""
    import ray

    deadline = time.monotonic() + timeout_s
    while True:
        alive = {node["NodeManagerAddress"]: node for node in ray.nodes() if node["Alive"]}
        missing = sorted(set(expected) - set(alive))
        if not missing:
            break
        if time.monotonic() > deadline:
            stop_with(f"{', '.join(missing)} did not join within {timeout_s:g} s; there are {', '.join(sorted(alive))}")
        time.sleep(POLL_S)
    for address, least in expected.items():
        for resource, amount in least.items():
            has = alive[address]["Resources"].get(resource, 0)
            if has < amount:
                stop_with(f"Ray offers {resource} = {has:g} on {address}, the run needs {amount:g}; see the cluster file")
    return {address: alive[address]["NodeID"] for address in expected}


def work(ids: dict[str, str], timeout_s: float) -> None:
    """Run a task on every node."""
    import os

    import ray

    refs = {address: _on(ray.remote(num_cpus=0)(lambda: os.getpid()), node).remote() for address, node in ids.items()}
    deadline = time.monotonic() + timeout_s
    for address, ref in refs.items():
        pid = _get(ref, deadline, f"a task on {address} does not come back; it has joined, so look at the way from the head to it")
        print(f"a task ran on {address}, in process {pid}")


def exchange(ids: dict[str, str], timeout_s: float) -> None:
    """Send an object each way between the head and every worker, and from each worker to the next."""
    import ray

    make = ray.remote(num_cpus=0)(lambda count: bytes(count))
    measure = ray.remote(num_cpus=0)(lambda data: len(data))
    deadline = time.monotonic() + timeout_s
    sent = [
        (source, target, _on(measure, ids[target]).remote(_on(make, ids[source]).remote(OBJECT_BYTES)))
        for source, target in ways(list(ids))
    ]
    for source, target, ref in sent:
        size = _get(ref, deadline, f"an object of {source} does not reach {target}: look at the object_manager port of {source}")
        if size != OBJECT_BYTES:
            stop_with(f"an object of {OBJECT_BYTES} bytes came from {source} to {target} with {size}")
    if sent:
        print(f"objects of {OBJECT_BYTES} bytes went {len(sent)} ways")


def ways(addresses: list[str]) -> Iterator[tuple[str, str]]:
    """Both ways between the head (the first) and each worker, and around the ring of workers."""
    head, *workers = addresses
    for worker in workers:
        yield head, worker
        yield worker, head
    if len(workers) > 1:
        yield from zip(workers, [*workers[1:], workers[0]], strict=True)


def stay(ids: dict[str, str], watch_s: float) -> None:
    """See that every node is still there after Ray's health checks had time to fail."""
    import ray

    began = time.monotonic()
    while time.monotonic() - began < watch_s:
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        gone = sorted(address for address, node in ids.items() if node not in alive)
        if gone:
            stop_with(
                f"{', '.join(gone)} joined and was lost after {time.monotonic() - began:.0f} s: the head's health checks do not "
                "get through to its node_manager port; `make doctor` names who blocks it"
            )
        time.sleep(POLL_S)


def _on(task: Any, node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))


def _get(ref: Any, deadline: float, otherwise: str) -> Any:
    import ray

    try:
        return ray.get(ref, timeout=max(0.1, deadline - time.monotonic()))
    except ray.exceptions.RayError as error:
        stop_with(f"{otherwise} ({type(error).__name__})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="HOST:PORT of the head")
    parser.add_argument("--expect", type=json.loads, required=True, help="JSON: address, the head's first, to resource to amount")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each step")
    parser.add_argument("--watch", type=float, default=0, help="seconds to look on at the end")
    arguments = parser.parse_args()
    began = time.monotonic()
    connect(arguments.address, arguments.timeout)
    ids = joined(arguments.expect, arguments.timeout)
    work(ids, arguments.timeout)
    exchange(ids, arguments.timeout)
    stay(ids, arguments.watch)
    import ray

    resources = ray.cluster_resources()
    print(f"Ray is up with {len(ids)} nodes: {json.dumps(resources)}")
    write_result({"nodes": ids, "resources": resources, "seconds": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
