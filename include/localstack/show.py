"""Tables for the terminal: a run's verdicts, stages and repeats."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from include.regression.report.tables import STYLES, state
from include.regression.store import queries


def summary(run_row: dict[str, Any]) -> Table:
    """The verdicts of a run."""
    style = STYLES.get(run_row["state"], "red")
    title = f"verl {run_row['release']} x {run_row['suite']} on {run_row['cluster']}: [{style}]{run_row['state']}[/{style}]"
    table = Table(title=title, title_justify="left")
    for column in ("metric", "verdict", "measured"):
        table.add_column(column)
    for row in queries.verdicts_of(run_row["run"]):
        table.add_row(row["metric"], state(row["verdict"] or "recorded"), row["text"])
    if run_row["reason"]:
        table.add_row("ended", state(run_row["state"]), run_row["reason"][:2000])
    return table


def stage_table(stages: list[dict[str, Any]]) -> Table:
    table = Table(title="stages", title_justify="left")
    for column, justify in (("task", "left"), ("state", "left"), ("attempt", "right"), ("time", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in stages:
        table.add_row(task_name(row), state(row["state"]), str(row["attempt"]), duration(row))
    return table


def repeat_table(run_row: dict[str, Any]) -> Table:
    """Accuracy per data set and repeat, of base and trained model."""
    table = Table(title="accuracy per repeat (ais_bench, %)", title_justify="left")
    for column in ("model", "data set", "repeats", "mean"):
        table.add_column(column, justify="right" if column == "mean" else "left")
    for model, run in (("base", run_row["base_run"]), ("trained", run_row["run"])):
        by_set: dict[str, list[float]] = {}
        for row in queries.repeats_of(run, model) if run else []:
            if row["valid"]:
                by_set.setdefault(row["dataset"], []).append(row["accuracy"])
        for dataset, values in by_set.items():
            table.add_row(model, dataset, "  ".join(f"{value:.1f}" for value in values), f"{sum(values) / len(values):.1f}")
    return table


def task_name(row: dict[str, Any]) -> str:
    return str(row["task"]) + (f" [{row['map_index']}]" if row["map_index"] >= 0 else "")


def duration(row: dict[str, Any]) -> str:
    end = row["finished_at"] or datetime.now(UTC)
    return f"{(end - row['started_at']).total_seconds():.0f} s"
