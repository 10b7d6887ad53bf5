"""The demo: trigger one run, show it while it goes, print what came out. It ends with 0 only if the run passed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from include.localstack.airflow import Api
from include.localstack.settings import LOGIN, STACK_TAG, Settings
from include.localstack.show import duration, repeat_table, stage_table, summary, task_name
from include.localstack.stack import wait_for_dag
from include.node import processes
from include.regression.config.metrics import REWARD, TIME_PER_STEP
from include.regression.report.tables import state as show_state
from include.regression.store import queries

POLL_S = 1.0
ENDED = ("success", "failed")


def run(settings: Settings, suite: str, conf: dict[str, str], began: float) -> int:
    """Trigger the suite's DAG and follow it to its end. ``began`` is when the user's command began (time.time())."""
    console, api = Console(), Api(settings)
    dag_id = f"verl_regression.{suite}"
    wait_for_dag(api, dag_id)
    api.patch(f"/dags/{dag_id}", {"is_paused": False})
    dag_run_id = api.post(f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"]
    console.print(f"Airflow is up: {settings.url}  login {LOGIN} / {settings.password()}")
    console.print(f"run {dag_run_id} of {dag_id}\n")
    usage = UsageSampler(settings)
    usage.start()
    state = _follow(console, api, dag_id, dag_run_id, began)
    usage.finish()
    run_row = queries.run_of(dag_id, dag_run_id)
    if run_row is None:
        console.print(f"[red]the run was refused[/red]: {_refusal(api, dag_id, dag_run_id)}")
        return 1
    console.print(summary(run_row))
    console.print(stage_table(queries.newest_attempts(run_row["run"])))
    console.print(repeat_table(run_row))
    minutes = (time.time() - began) / 60
    console.print(
        f"total {minutes:.1f} min, peak memory {usage.peak_bytes / 1e9:.1f} GB, disk {disk_bytes(settings.state) / 1e9:.1f} GB"
    )
    console.print(f"UI     {settings.url}/dags/{dag_id}/runs/{dag_run_id}", soft_wrap=True)
    console.print(f"login  {LOGIN} / {settings.password()}", highlight=False)
    console.print("next   make demo (again, reuses everything), make status, make logs, make down, make clean", soft_wrap=True)
    return 0 if state == "success" and run_row["state"] == "passed" else 1


def _follow(console: Console, api: Api, dag_id: str, dag_run_id: str, began: float) -> str:
    """Show the run until it ends; returns Airflow's state of the DAG run. Without a terminal, print a line per change."""
    shown: set[str] = set()
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        while True:
            state = str(api.get(f"/dags/{dag_id}/dagRuns/{dag_run_id}")["state"])
            row = queries.run_of(dag_id, dag_run_id)
            stages = queries.stages_of(row["run"]) if row else []
            progress = training_progress(row["run"], row["spec"]) if row else ""
            if console.is_terminal:
                live.update(progress_table(stages, progress, time.time() - began))
            else:
                _print_news(console, shown, stages, progress, time.time() - began)
            if state in ENDED:
                return state
            time.sleep(POLL_S)


def _print_news(console: Console, shown: set[str], stages: list[dict[str, Any]], progress: str, elapsed: float) -> None:
    lines = [f"{task_name(row)} {row['state']}" + (f": {row['message']}" if row["message"] else "") for row in stages]
    for line in [*lines, *([progress] if progress else [])]:
        if line not in shown:
            shown.add(line)
            console.print(f"{_clock(elapsed)}  {line}", markup=False, highlight=False, soft_wrap=True)


def training_progress(run: str, spec: dict[str, Any]) -> str:
    """Say where the training is: step, reward, seconds per step; empty before its first step."""
    metrics = queries.train_metrics_of(run, [REWARD, TIME_PER_STEP])
    rewards = metrics.get(REWARD, {})
    if not rewards:
        return ""
    step = max(rewards)
    seconds = metrics.get(TIME_PER_STEP, {}).get(step) or 0.0
    total = spec["suite"]["training"]["steps"]
    return f"training step {step}/{total}, reward {rewards[step] or 0.0:.3f}, {seconds:.1f} s per step"


def progress_table(stages: list[dict[str, Any]], progress: str, elapsed: float) -> Table:
    """What runs now and what ended last."""
    table = Table(title=f"{_clock(elapsed)} elapsed", title_justify="left", show_header=False, box=None)
    running = [row for row in stages if row["state"] == "running"]
    done = [row for row in stages if row["state"] != "running"]
    for row in done[-6:]:
        table.add_row(show_state(row["state"]), task_name(row), duration(row))
    for row in running:
        table.add_row("[cyan]running[/cyan]", task_name(row), duration(row))
    if progress:
        table.add_row("", progress, "")
    return table


class UsageSampler(threading.Thread):
    """Sample the memory of everything the stack started: the sum of Pss (proc(5), smaps_rollup), so shared pages count once."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(daemon=True)
        self.tags = {settings.tag("airflow"), settings.tag("node")}
        self.peak_bytes = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(3):
            pids = processes.where(lambda environment: environment.get(STACK_TAG) in self.tags)
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, [*pids, os.getpid()])))

    def finish(self) -> None:
        self._over.set()
        self.join()


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def disk_bytes(folder: Path) -> int:
    """Bytes on disk below a folder, hard links counted once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for base, _, files in os.walk(folder):
        for name in files:
            try:
                entry = os.lstat(os.path.join(base, name))
            except OSError:
                continue
            if (entry.st_dev, entry.st_ino) not in seen:
                seen.add((entry.st_dev, entry.st_ino))
                total += entry.st_blocks * 512
    return total


def _refusal(api: Api, dag_id: str, dag_run_id: str) -> str:
    """Take the reason from the log of ``resolve``, the only task that can refuse a run."""
    content = api.get(f"/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/resolve/logs/1?full_content=true")["content"]
    errors = [entry for entry in content if isinstance(entry, dict) and entry.get("level") == "error"]
    detail = (errors[0].get("error_detail") or [{}])[0] if errors else {}
    return str(detail.get("exc_value") or "see the log of task resolve")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
