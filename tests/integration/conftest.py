"""Real services for the integration tests: an embedded Postgres and the project's SSH node, both in temporary folders."""

from __future__ import annotations

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
from include.regression.config import Catalogue, RunSpec, resolve
from include.regression.config.cluster import RayPorts
from include.regression.store import migrate
from include.regression.store.tables import metadata


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
    ports = {name: free_port() for name in ("gcs", "dashboard", "client", "agent")}
    ray_ports = RayPorts(**ports, workers_from=20100, workers_to=20399)
    cluster = spec.cluster.model_copy(update={"ray_ports": ray_ports, "server_port": free_port()})
    return spec.model_copy(update={"cluster": cluster})


@pytest.fixture
def on_node(settings: Settings, ssh_connection: str, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """See :func:`spec_on_node`; the node is up."""
    assert getpass.getuser() in ssh_connection
    return spec_on_node(settings, monkeypatch)
