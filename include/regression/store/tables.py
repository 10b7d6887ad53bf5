"""Tables of the results. Every primary key is natural, so that writing twice changes nothing.

``attempt`` counts tries of the same task from 1. Times are UTC. The migrations in ``migrations/versions`` make these tables; a
test holds the two equal.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "ix": "%(table_name)s_%(column_0_name)s_idx",
    }
)

#: One row per Airflow DAG run. ``run`` names the run everywhere; ``state`` is running, passed, regressed, inconclusive, failed,
#: infra_error, not_applicable (``reason`` says why) or planned (a dry run); ``verdict`` is the judge's word; ``base_run`` is the
#: run whose base-model evaluation counts for this one; ``plan`` is every command as rendered before the run began.
runs = Table(
    "runs",
    metadata,
    Column("run", Text, primary_key=True),
    Column("dag_id", Text, nullable=False),
    Column("dag_run_id", Text, nullable=False),
    Column("suite", Text, nullable=False),
    Column("suite_version", Integer, nullable=False),
    Column("release", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("spec", JSONB, nullable=False),
    Column("environment", JSONB),
    Column("fingerprint", Text),
    Column("base_run", Text),
    Column("base_fingerprint", Text),
    Column("state", Text, nullable=False),
    Column("verdict", Text),
    Column("reason", Text),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Column("plan", Text),
    UniqueConstraint("dag_id", "dag_run_id", name="runs_dag_id_dag_run_id_key"),
    Index("runs_suite_started_at_idx", "suite", "started_at"),
    Index("runs_base_fingerprint_idx", "base_fingerprint"),
)

#: One row per attempt of a task. ``stage`` is the task group; ``map_index`` is -1 for a task that is not mapped.
stages = Table(
    "stages",
    metadata,
    Column("run", Text, ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    Column("task", Text, primary_key=True),
    Column("map_index", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("stage", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("message", Text),
    Column("started_at", DateTime(timezone=True), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
)

#: One row per attempt, step and metric key of verl. ``value`` is null where verl wrote no number (NaN and infinity become null in
#: its file logger); NaN and infinity from other sources are stored as such.
train_metrics = Table(
    "train_metrics",
    metadata,
    Column("run", Text, ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Double),
)

_repeat_key = ("run", "model", "dataset", "repeat", "attempt")

#: One row per attempt at a repeat. ``model`` is base or trained; ``accuracy`` is ais_bench's own, in percent, null if
#: not ``valid``; ``seed`` is what was sent with the requests, null if none was.
evaluation_repeats = Table(
    "evaluation_repeats",
    metadata,
    Column("run", Text, ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    Column("model", Text, primary_key=True),
    Column("dataset", Text, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("valid", Boolean, nullable=False),
    Column("reason", Text),
    Column("accuracy", Double),
    Column("correct", Integer),
    Column("questions", Integer, nullable=False),
    Column("seed", Integer),
    Column("seconds", Double),
    Column("folder", Text),
)

#: One row per question of a valid repeat. ``prompt_id`` is the SHA-256 of the prompt: the same question in every run.
evaluation_items = Table(
    "evaluation_items",
    metadata,
    Column("run", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("dataset", Text, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("question", Integer, primary_key=True),
    Column("prompt_id", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("prediction", Text, nullable=False),
    Column("extracted", Text),
    Column("reference", Text),
    Column("correct", Boolean, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    ForeignKeyConstraint(
        _repeat_key, [f"evaluation_repeats.{name}" for name in _repeat_key], ondelete="CASCADE", name="evaluation_items_repeat_fkey"
    ),
)

#: One row per judged metric. ``verdict`` is null where a metric is recorded only.
verdicts = Table(
    "verdicts",
    metadata,
    Column("run", Text, ForeignKey("runs.run", ondelete="CASCADE"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("verdict", Text),
    Column("text", Text, nullable=False),
    Column("numbers", JSONB, nullable=False),
)

#: One row per preflight of a cluster. ``run`` is the run that it was made for, null for one made by hand; ``facts`` is what every
#: node said (include/regression/preflight/observed.py), in the cluster file's order.
preflights = Table(
    "preflights",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), primary_key=True),
    Column("run", Text, ForeignKey("runs.run", ondelete="CASCADE")),
    Column("suite", Text),
    Column("release", Text),
    Column("seconds", Double, nullable=False),
    Column("facts", JSONB, nullable=False),
)

#: One row per finding, worst first. ``severity`` is error, warning or note; ``fix`` is the command or the change that mends it.
findings = Table(
    "findings",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("started_at", DateTime(timezone=True), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("node", Text, nullable=False),
    Column("check", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("fix", Text, nullable=False),
    ForeignKeyConstraint(
        ("cluster", "started_at"),
        ["preflights.cluster", "preflights.started_at"],
        ondelete="CASCADE",
        name="findings_preflight_fkey",
    ),
)
