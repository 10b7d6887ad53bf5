"""Real services for the integration tests: an embedded Postgres and the project's SSH node, both in temporary folders."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.localstack import node, postgres
from include.localstack.settings import STACK_TAG, Settings, free_port
from include.node import processes
from include.regression.config import Catalogue, Cluster, Node, RunSpec, resolve
from include.regression.config.cluster import RayPorts
from include.regression.store import migrate
from include.regression.store.tables import metadata
from tests.integration import lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def settings() -> Iterator[Settings]:
    """A state folder with a short path (Postgres and Ray put sockets below it) that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="vr-"))
    folder.chmod(0o755)
    the_settings = Settings(folder, 0)
    yield the_settings
    processes.stop(str(the_settings.work_dir), "")
    tag = the_settings.tag("node")
    processes.stop_all(lambda: processes.where(lambda environment: environment.get(STACK_TAG) == tag), grace_s=3)
    postgres.stop(the_settings)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def results_url(settings: Settings) -> str:
    """The results database, migrated; its URL is in the environment as in production."""
    _, url = postgres.start(settings)
    migrate(url)
    return url


@pytest.fixture
def store(results_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty store."""
    from include.regression.store import engine

    monkeypatch.setenv("VERL_REGRESSION_DB", results_url)
    yield
    with engine(results_url).begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())


@pytest.fixture(scope="session")
def ssh_connection(settings: Settings) -> str:
    """The SSH node, started; the connection is in the environment as Airflow reads it."""
    connection = node.start(settings)
    os.environ["AIRFLOW_CONN_LAPTOP_NODE"] = connection
    return connection


def spec_on_node(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """The tiny suite's RunSpec on the SSH node, with this test environment's Python as the node's, and ports of its own: a demo
    may be running on this machine."""
    monkeypatch.setenv("VERL_REGRESSION_WORK_DIR", str(settings.work_dir))
    monkeypatch.setenv("VERL_REGRESSION_PYTHON", sys.executable)
    spec = resolve(Catalogue(), "it-1", "tiny_grpo_cpu")
    names = [name for name in RayPorts.model_fields if not name.startswith("workers")]
    ray_ports = RayPorts(**{name: free_port() for name in names}, workers_from=20100, workers_to=20399)
    cluster = spec.cluster.model_copy(update={"ray_ports": ray_ports, "server_port": free_port()})
    return spec.model_copy(update={"cluster": cluster})


@contextlib.contextmanager
def our_environment(spec: RunSpec) -> Iterator[None]:
    """Let this test environment, which has Ray with its dashboard, be the nodes' training environment."""
    environment = Path(spec.environment_dir("train"))
    environment.parent.mkdir(parents=True, exist_ok=True)
    environment.symlink_to(Path(sys.executable).parent.parent)
    yield
    environment.unlink()


@pytest.fixture
def on_node(settings: Settings, ssh_connection: str, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """See :func:`spec_on_node`; the node is up."""
    assert getpass.getuser() in ssh_connection
    return spec_on_node(settings, monkeypatch)


@pytest.fixture(scope="session")
def nodes() -> Iterator[list[lab.LabNode]]:
    """Three nodes in namespaces of their own; each test leaves them as it found them."""
    reason = lab.why_not()
    if reason:
        pytest.skip(reason)
    with lab.lab(3) as started:
        yield started


@pytest.fixture
def lab_cluster(nodes: list[lab.LabNode]) -> Cluster:
    """The cluster file of these nodes; one NPU resource each, as a CPU stands in for one."""
    names = [name for name in RayPorts.model_fields if not name.startswith("workers")]
    ports = {name: 6401 + number for number, name in enumerate(names)}
    return Cluster(
        name="lab",
        kind="cpu",
        description="Nodes in namespaces.",
        nodes=tuple(Node(name=node.name, ssh_conn_id=node.ssh_conn_id, address=node.address, devices=1) for node in nodes),
        work_dir=str(nodes[0].folder.parent / "work"),
        python=lab.PYTHON,
        ray_ports=RayPorts(**ports, workers_from=20100, workers_to=20399),
        logical_cpus=16,
        object_store_mb=100,
        server_port=6380,
        min_memory_gb=1,
        min_disk_gb=0.2,
    )
