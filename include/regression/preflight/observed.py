"""What was observed of a node: the facts of include/node/probe.py, its clock, and whom it reaches."""

from __future__ import annotations

from typing import Literal

from include.regression.config.base import Model

Link = Literal["ok", "refused", "timeout", "unreachable"]


class Disk(Model):
    """The file system of the work folder; ``free_inodes`` is None where their number is not fixed."""

    place: str
    free_gb: float
    free_inodes: int | None
    problem: str | None


class Chain(Model):
    """A base chain of the firewall that can drop; ``hook`` is input or output."""

    family: str
    table: str
    chain: str
    hook: str


class Firewall(Model):
    firewalld: bool
    readable: bool
    tool: str
    chains: tuple[Chain, ...]


class Environment(Model):
    """A node environment that was built: its Python, and the versions of the packages that must agree."""

    python: str | None
    packages: dict[str, str]


class Process(Model):
    """A process; ``home`` and ``job`` are our tags (include/node/processes.py), ``since`` is Unix time."""

    pid: int
    user: str
    since: float
    command: str
    home: str | None
    job: str | None
    kind: str = "other"


class NodeFacts(Model):
    """See include/node/probe.py, which makes them."""

    host: str
    user: str
    os: str
    kernel: str
    machine: str
    cpus: int
    memory_gb: float
    available_memory_gb: float
    shm_free_mb: int
    open_files: int
    disk: Disk
    addresses: dict[str, tuple[str, ...]]
    can_bind: bool
    sources: dict[str, str | None]
    resolved: str | None
    variables: dict[str, str]
    setup_failed: tuple[int, ...]
    firewall: Firewall
    pythons: dict[str, str | None]
    environments: dict[str, Environment | None]
    software: dict[str, str]
    npu_smi: str | None
    nvidia_smi: str | None
    ports: dict[int, Process | None]
    processes: tuple[Process, ...]
    incomplete: dict[str, str | None]


class Fault(Model):
    """Why a node could not be asked: ``kind`` is down, key, host_key, connection, shell or python."""

    kind: Literal["down", "key", "host_key", "connection", "shell", "python"]
    message: str


class Observed(Model):
    """One node. Either ``fault`` or ``facts`` is set.

    ``clock_s`` is how far its clock is ahead of the control plane's, exact to ``clock_error_s``. ``links`` maps node to port to
    what came of connecting, ``seen`` lists whose markers lie in its work folder, ``chosen_port`` is the listener that the kernel
    chose, ``marked`` says whether its own marker could be written.
    """

    node: str
    fault: Fault | None = None
    facts: NodeFacts | None = None
    clock_s: float = 0.0
    clock_error_s: float = 0.0
    marked: bool = False
    chosen_port: int | None = None
    links: dict[str, dict[int, Link]] = {}
    seen: tuple[str, ...] = ()
