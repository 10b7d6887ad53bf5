"""Up and down: Postgres, node, Airflow, in this order and back."""

from __future__ import annotations

import os
import shutil
import time

from include.localstack import airflow, node, postgres
from include.localstack.settings import (
    DISK_GB,
    LOGIN,
    STACK_TAG,
    STATE_VARIABLE,
    Settings,
    StackError,
    airflow_environment,
    listening,
)
from include.node import processes
from include.regression.store import migrate

DAG_TIMEOUT_S = 60


def up(settings: Settings) -> None:
    """Start what does not run. Raises StackError, naming field, value and fix, before anything is started that cannot be."""
    if airflow.running(settings) is not None:
        prepare_environment(settings)
        return
    check_disk(settings)
    airflow.check_port(settings)
    environment = prepare_environment(settings)
    airflow.start(settings, environment)


def prepare_environment(settings: Settings) -> dict[str, str]:
    """Start Postgres and the node, migrate the results, and return Airflow's environment, which this process takes on as well."""
    airflow_db, results_db = postgres.start(settings)
    migrate(results_db)
    environment = airflow_environment(settings, airflow_db, results_db, node.start(settings))
    os.environ["VERL_REGRESSION_DB"] = results_db
    os.environ["VERL_REGRESSION_WORK_DIR"] = environment["VERL_REGRESSION_WORK_DIR"]
    return environment


def use_results(settings: Settings) -> None:
    """Make the results readable in this process, whether or not the rest of the stack runs."""
    os.environ["VERL_REGRESSION_DB"] = postgres.start(settings)[1]


def down(settings: Settings) -> None:
    """Stop everything: Airflow first (it would start more), then what runs on the node, the node itself, Postgres."""
    airflow.stop(settings)
    on_node = processes.stop(str(settings.work_dir), "")
    if on_node["found"]:
        print(f"stopped {len(on_node['found'])} processes of a run on the node")
    processes.stop_all(lambda: processes.where(lambda env: env.get(STACK_TAG) == settings.tag("node")), grace_s=5)
    postgres.stop(settings)


def status(settings: Settings) -> bool:
    """Print what runs; return whether all of it does."""
    health = airflow.Api(settings).health() if airflow.running(settings) else {}
    node_port = settings.node / "port"
    node_up = node_port.exists() and listening(int(node_port.read_text()))
    on_node = processes.tagged(str(settings.work_dir), "")
    print(f"Airflow   {' '.join(f'{name}={state}' for name, state in health.items()) or 'down'}")
    print(f"node      {'up' if node_up else 'down'}, {len(on_node)} processes of runs")
    if health:
        print(f"UI        {settings.url}  login {LOGIN} / {settings.password()}")
    return node_up and set(health.values()) == {"healthy"}


def check_disk(settings: Settings) -> None:
    """Refuse to start what would fill the disk. Raises StackError."""
    place = settings.state
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    # Most of it is the node's environments, which are there after the first run.
    needed = 2 if (settings.work_dir / "environments").exists() else DISK_GB
    if free < needed:
        raise StackError(
            f"{STATE_VARIABLE} = {str(settings.state)!r}: {free:.1f} GB are free there, {needed} are needed. Fix: free disk space, "
            f"or set {STATE_VARIABLE} to a folder with more."
        )


def wait_for_dag(api: airflow.Api, dag_id: str) -> None:
    """Wait until Airflow has parsed a DAG; raise StackError with its import error, or with the names that exist."""
    deadline = time.monotonic() + DAG_TIMEOUT_S
    while time.monotonic() < deadline:
        known = [dag["dag_id"] for dag in api.get("/dags?limit=200")["dags"]]
        if dag_id in known:
            return
        errors = api.get("/importErrors")["import_errors"]
        if errors:
            raise StackError(f"Airflow cannot import {errors[0]['filename']}:\n{errors[0]['stack_trace']}")
        time.sleep(1)
    raise StackError(f"there is no DAG {dag_id!r}; there are: {', '.join(known) or 'none yet'}")
