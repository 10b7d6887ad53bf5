"""``make doctor``: the preflight of a cluster, in the terminal."""

from __future__ import annotations

import logging
import os
import sys

from rich.console import Console

from include.localstack import stack
from include.localstack.settings import ROOT, Settings


def run(settings: Settings, cluster: str, suite: str | None, release: str | None) -> int:
    """Print a table per node; return 0 if nothing stands against a run, else 1. Raises ConfigError for an unknown name."""
    os.environ |= stack.prepare_environment(settings)
    # Outside a task, Airflow's SDK looks for connections in its database only then (ensure_secrets_backend_loaded).
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    # Airflow reads its settings when it is imported, and this process began without them.
    sys.path.append(str(ROOT / "plugins"))
    from include.regression.report.preflight import summary
    from verl_regression.doctor import examine, need

    logging.disable(logging.INFO)  # the SSH client's and the database's, which are no part of the answer
    tables, findings = examine(need(cluster, suite, release), suite)
    console = Console()
    console.print(tables)
    console.print(f"[bold]{cluster}[/bold]: {summary(findings)}")
    return 1 if any(found.severity == "error" for found in findings) else 0
