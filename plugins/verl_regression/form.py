"""What a suite's DAG shows of releases and clusters: the trigger form, and the table of what applies."""

from __future__ import annotations

from airflow.sdk import Param

from include.regression.config import NEWEST, Catalogue, Suite

WHAT, SHORTER, AFTER = "What runs", "Shorter than the suite", "Beside the run"


def params(suite: Suite, catalogue: Catalogue) -> dict[str, Param]:
    """Typed fields in sections; their meaning is that of include/regression/config/changes.py."""
    releases = catalogue.names("releases")
    training = suite.training
    datasets = [dataset.name for dataset in suite.evaluation.datasets]
    return {
        "release": Param(
            None,
            type=["null", "string"],
            enum=[None, NEWEST, *releases],
            title="verl release",
            description=f"Empty: the backfill's release, else the suite's ({suite.release}).",
            section=WHAT,
        ),
        "cluster": Param(suite.cluster, type="string", enum=catalogue.names("clusters"), title="Cluster", section=WHAT),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Validate and render everything, store the plan, touch no node.",
            section=WHAT,
        ),
        "steps": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Training steps",
            description=f"Empty: {training.steps}. At least {training.warmup_steps + 2}, of which {training.warmup_steps} warm up.",
            section=SHORTER,
        ),
        "datasets": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "enum": datasets},
            examples=datasets,
            title="Data sets",
            description=f"Empty: all ({', '.join(datasets)}).",
            section=SHORTER,
        ),
        "repeats": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Repeats per data set",
            description=f"Empty: {suite.evaluation.repeats}.",
            section=SHORTER,
        ),
        "baseline": Param(
            None,
            type=["null", "string"],
            enum=[None, *releases],
            title="Compare with release",
            description="Its newest judged run of this suite is printed beside the verdict.",
            section=AFTER,
        ),
        "keep_checkpoint": Param(
            False,
            type="boolean",
            title="Keep the checkpoint",
            description="Also if the run passes. A run that does not pass always keeps it.",
            section=AFTER,
        ),
    }


def applicability(suite: Suite, catalogue: Catalogue) -> str:
    """Markdown table of the releases: date, and whether the suite applies or why not."""
    lines = [
        f"`{suite.name}` version {suite.version}, owner {suite.owner}; at most {suite.budget.minutes} minutes and "
        f"{suite.budget.device_hours:g} device-hours a run.",
        "",
        "| release | published | applies |",
        "|---|---|---|",
    ]
    found, faults = catalogue.releases()
    for name, release in found.items():
        reason = suite.why_not(release)
        lines.append(f"| {name} | {release.released or 'moving branch'} | {f'no: {reason}' if reason else 'yes'} |")
    lines += [f"| {name} | ? | **broken file**: {fault} |" for name, fault in faults.items()]
    return "\n".join(lines)


def doctor(catalogue: Catalogue) -> dict[str, Param]:
    """The form of ``cluster_doctor``."""
    clusters, suites, releases = (catalogue.names(room) for room in ("clusters", "suites", "releases"))
    return {
        "cluster": Param(clusters[0], type="string", enum=clusters, title="Cluster", section=WHAT),
        "suite": Param(
            None,
            type=["null", "string"],
            enum=[None, *suites],
            title="For this suite",
            description="Empty: the cluster on its own.",
            section=WHAT,
        ),
        "release": Param(
            None,
            type=["null", "string"],
            enum=[None, NEWEST, *releases],
            title="And this verl release",
            description="Empty: the suite's.",
            section=WHAT,
        ),
    }
