"""A cluster: the nodes, how they are reached, and what may be used there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from include.regression.config.base import Model, Name, NodePath
from include.regression.config.release import Kind, PythonVersion

Port = Annotated[int, Field(ge=1024, le=65535)]


class Node(Model):
    """A machine reached by SSH.

    ``address`` is what the other nodes use; ``devices`` counts accelerators; ``nic`` is the network interface of that address, for
    nodes that have several.
    """

    name: Name
    ssh_conn_id: Name
    address: str
    devices: Annotated[int, Field(ge=1)]
    nic: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables that keep torch's and HCCL's connections on ``nic`` (verl's docs/ascend_tutorial, several nodes)."""
        if self.nic is None:
            return {}
        interfaces = dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"), self.nic)
        return {**interfaces, "HCCL_IF_IP": self.address}


class RayPorts(Model):
    """Ports of Ray, all bound to the node's ``address``.

    ``gcs``, ``dashboard`` and ``client`` are the head's; every node has the others, and the range of its workers.
    """

    gcs: Port
    dashboard: Port
    client: Port
    agent: Port
    agent_grpc: Port
    node_manager: Port
    object_manager: Port
    runtime_env: Port
    metrics: Port
    workers_from: Port
    workers_to: Port

    @model_validator(mode="after")
    def _range_is_free_of_the_rest(self) -> RayPorts:
        if self.workers_from >= self.workers_to:
            raise ValueError(f"workers_from {self.workers_from} must be below workers_to {self.workers_to}")
        named: dict[int, str] = {}
        for name, port in (self.of_head | self.of_every_node).items():
            if self.workers_from <= port <= self.workers_to:
                raise ValueError(f"{name} {port} lies inside the worker range; move one of them")
            if port in named:
                raise ValueError(f"{name} and {named[port]} are both {port}; move one of them")
            named[port] = name
        return self

    @property
    def of_head(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("gcs", "dashboard", "client")}

    @property
    def of_every_node(self) -> dict[str, int]:
        names = ("agent", "agent_grpc", "node_manager", "object_manager", "runtime_env", "metrics")
        return {name: getattr(self, name) for name in names}


class Cluster(Model):
    """A cluster file (include/clusters/NAME.yaml).

    ``work_dir`` is the folder on each node that holds everything of ours. ``python`` runs our own scripts; ``pythons`` maps a
    version that a release needs to its interpreter (default: ``python3.X``). ``setup`` are shell lines run before every command,
    such as the toolkit's set_env.sh. ``mirrors`` maps the beginning of a git URL to what stands in for it; ``wheels`` is a folder
    of wheels that no index has. ``ray_resource`` is the resource verl asks Ray for; ``logical_cpus`` is what Ray is told it has:
    verl's actors reserve about 12 and wait in silence for ever if Ray has fewer. ``env`` is exported for every process of ours on
    the nodes. ``poll_s`` is how often long remote work is looked at. ``min_memory_gb`` and ``min_disk_gb`` must be free before a
    run starts.
    """

    name: Name
    kind: Kind
    description: str
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)]
    work_dir: NodePath
    python: str = "python3.11"
    pythons: dict[PythonVersion, str] = {}
    setup: tuple[str, ...] = ()
    mirrors: dict[str, str] = {}
    wheels: NodePath | None = None
    ray_resource: str = "NPU"
    ray_ports: RayPorts
    logical_cpus: Annotated[int, Field(ge=1)]
    object_store_mb: Annotated[int, Field(ge=80)]
    server_port: Port
    env: dict[str, str] = {}
    poll_s: Annotated[int, Field(ge=1)] = 15
    min_memory_gb: float
    min_disk_gb: float

    @model_validator(mode="after")
    def _nodes_are_alike_and_apart(self) -> Cluster:
        for field in ("name", "address"):
            values = [getattr(node, field) for node in self.nodes]
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice:
                raise ValueError(f"two nodes have the {field} {twice}; every node needs its own")
        if len({node.devices for node in self.nodes}) > 1:
            counts = ", ".join(f"{node.name}: {node.devices}" for node in self.nodes)
            raise ValueError(f"verl wants the same number of devices on every node; here are {counts}")
        return self

    @property
    def head(self) -> Node:
        return self.nodes[0]

    def interpreter(self, version: str) -> str:
        """Interpreter of a Python version, as "3.11"."""
        return self.pythons.get(version, f"python{version}")

    @property
    def devices(self) -> int:
        """Accelerators of the whole cluster."""
        return sum(node.devices for node in self.nodes)
