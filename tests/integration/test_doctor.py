"""A preflight from asking to storing, on a real node and a real Postgres."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from sqlalchemy import select

from include.regression.config import ConfigError, RunSpec
from include.regression.preflight import need_of
from include.regression.report.preflight import summary
from include.regression.report.tables import as_text
from include.regression.store import engine, writes
from include.regression.store.tables import findings, preflights
from verl_regression.doctor import NotReady, examine, need, refuse

pytestmark = pytest.mark.usefixtures("store")


def rows(table: Any) -> list[dict[str, Any]]:
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def test_what_it_saw_and_found_is_stored_beside_the_run(on_node: RunSpec) -> None:
    writes.start_run(on_node, "dag", "dag run")
    with socket.create_server(("127.0.0.1", on_node.cluster.server_port)):
        tables, found = examine(need_of(on_node.cluster, on_node), "tiny_grpo_cpu", on_node)
    [row] = rows(preflights)
    assert (row["cluster"], row["run"], row["suite"], row["release"]) == ("laptop", "it-1", "tiny_grpo_cpu", "v0.9.1")
    assert row["facts"][0]["facts"]["disk"]["place"]
    [stored] = [entry for entry in rows(findings) if entry["severity"] == "error"]
    assert stored["check"] == "ports"
    assert f"port {on_node.cluster.server_port} is in use by" in stored["cause"]
    assert "server_port in include/clusters/laptop.yaml" in stored["fix"]
    text = as_text(tables)
    assert "│ error" in text
    assert "not ready" in summary(found)
    with pytest.raises(NotReady, match=r"cluster laptop is not ready: laptop: ports: port \d+ is in use by .* Fix: choose another"):
        refuse("laptop", found)


def test_a_cluster_that_is_ready_is_not_refused(on_node: RunSpec) -> None:
    _, found = examine(need_of(on_node.cluster, on_node))
    refuse("laptop", found)
    assert [row["run"] for row in rows(preflights)] == [None]


def test_unknown_names_are_refused_before_any_node_is_asked() -> None:
    with pytest.raises(ConfigError, match=r"cluster = 'lapto': unknown\. Fix: did you mean 'laptop'"):
        need("lapto")
    with pytest.raises(ConfigError, match=r"release = 'v0\.9\.1': means nothing without a suite"):
        need("laptop", None, "v0.9.1")
    assert need("laptop", "tiny_grpo_cpu").release == "v0.9.1"
