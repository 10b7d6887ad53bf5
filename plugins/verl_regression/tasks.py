"""The tasks that run on the control plane: resolve, plan, judge, close.

What they call is imported inside them: scipy and SQLAlchemy cost a second that the DAG processor must not pay for every parse.
"""

from __future__ import annotations

import hashlib
from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.regression.commands import convert
from include.regression.config import Catalogue, Changes, ConfigError, RunSpec, draft
from include.regression.plan import plan, why_not_applicable
from verl_regression.timetables.releases import NIGHTLY_PREFIX

#: Stages whose failure says something about the cluster, not about the software under test.
INFRASTRUCTURE = ("preflight", "cluster_setup", "teardown")


class NotPassed(AirflowFailException):
    """The verdict is not ``passed``; everything that was measured is in the store."""


def run_key(suite: str, dag_id: str, dag_run_id: str) -> str:
    """Name a run: the suite and eight digits of the hash of its DAG run. The same DAG run always has the same name."""
    return f"{suite}-{hashlib.sha256(f'{dag_id} {dag_run_id}'.encode()).hexdigest()[:8]}"


def release_of(partition_key: str | None) -> str | None:
    """Read a release from a DAG run's partition key; None for a nightly or a manual run, which take the suite's own."""
    return None if partition_key is None or partition_key.startswith(NIGHTLY_PREFIX) else partition_key


@task(retries=0)
def resolve(suite: str) -> dict[str, Any]:
    """Validate the run's input, render its plan and make its RunSpec; nothing else has been done when this fails.

    A suite that does not apply to the release, and a dry run, end here: recorded, with reason or plan, and skipped.
    """
    from include.regression.report.comparison import baseline_of
    from include.regression.store import migrate, writes

    context = get_current_context()
    dag_run, params = context["dag_run"], context["params"]
    key = run_key(suite, dag_run.dag_id, dag_run.run_id)
    try:
        changes = Changes.of(dict(params))
        release = params.get("release") or release_of(dag_run.partition_key)
        spec = draft(Catalogue(), key, suite, release, params.get("cluster"), changes)
        reason = why_not_applicable(spec)
        migrate()
        if changes.baseline:
            baseline_of(suite, changes.baseline)
    except ConfigError as error:
        raise AirflowFailException(str(error)) from error
    rendered = None if reason else plan(spec)
    writes.start_run(spec, dag_run.dag_id, dag_run.run_id, rendered)
    print(f"run {spec.run}: verl {spec.release.name} x {suite} v{spec.suite.version} on {spec.cluster.name}; folder {spec.run_dir}")
    if reason:
        writes.finish_run(spec.run, "not_applicable", reason)
        raise AirflowSkipException(f"not applicable, because {reason}")
    if changes.dry_run:
        writes.finish_run(spec.run, "planned", "dry run")
        print(rendered)
        raise AirflowSkipException("dry run: the plan is above and in table runs; no node was touched")
    return spec.model_dump(mode="json")


@task(retries=0)
def refuse(message: str) -> None:
    """Fail with the reason why a suite cannot be run."""
    raise AirflowFailException(message)


@task(retries=0)
def preflight(spec: dict[str, Any]) -> None:
    """Ask all nodes, and fail before anything is done on them unless they can do the run."""
    from include.regression.preflight import need_of
    from verl_regression.doctor import NotReady, examine, refuse

    the_spec = RunSpec.model_validate(spec)
    tables, findings = examine(need_of(the_spec.cluster, the_spec), the_spec.suite.name, the_spec)
    _show(tables, findings)
    try:
        refuse(the_spec.cluster.name, findings)
    except NotReady as error:
        raise AirflowFailException(str(error)) from error


@task(retries=0)
def doctor() -> None:
    """The preflight by itself: of a cluster, or of a cluster for a suite and a release."""
    from include.regression.store import migrate
    from verl_regression.doctor import NotReady, examine, need, refuse

    params = get_current_context()["params"]
    cluster, suite = str(params["cluster"]), params.get("suite")
    try:
        wanted = need(cluster, suite, params.get("release"))
        migrate()
        tables, findings = examine(wanted, suite)
        _show(tables, findings)
        refuse(cluster, findings)
    except (ConfigError, NotReady) as error:
        raise AirflowFailException(str(error)) from error


def _show(tables: Any, findings: Any) -> None:
    from include.regression.report.preflight import summary
    from include.regression.report.tables import as_text

    print(f"{as_text(tables)}\n{summary(findings)}")


@task
def record_environment(spec: dict[str, Any], train: Any, evaluation: Any) -> None:
    """Store what the run is made of."""
    from include.regression.store import writes

    writes.record_environment(spec["run"], {"train": train, "eval": evaluation})


@task.branch
def is_base_known(spec: dict[str, Any], data: Any, otherwise: str) -> str | None:
    """Go on with the evaluation of the base model only if no earlier run has made it with the same fingerprint."""
    from include.regression.results import base_to_evaluate

    needed = base_to_evaluate(RunSpec.model_validate(spec), dict(data))
    print("evaluating the base model" if needed else "an earlier run evaluated this very base model; its answers count here")
    return otherwise if needed else None


@task.branch
def needs_conversion(spec: dict[str, Any], conversion: str) -> str | None:
    """Go on with the conversion of the base weights only where the trainer cannot read them."""
    reason = convert.why_no_weight_conversion(RunSpec.model_validate(spec))
    print(reason or "Megatron reads its own format: converting")
    return None if reason else conversion


@task
def repeats(spec: dict[str, Any], which: str, model_dir: str) -> list[dict[str, Any]]:
    """List every data set x repeat."""
    from include.regression.results import plan_repeats

    return plan_repeats(RunSpec.model_validate(spec), which, model_dir)


@task(retries=0)
def judge(spec: dict[str, Any]) -> str:
    """Judge the run from the store, and fail the task unless it passed, after everything is stored."""
    from include.regression.config.metrics import EXTRA_WORK, REWARD, THROUGHPUT, TIME_PER_STEP
    from include.regression.judge.verdict import judge_run, overall
    from include.regression.report.comparison import baseline_of, entry_of
    from include.regression.report.tables import as_text, comparison
    from include.regression.store import queries, writes

    the_spec = RunSpec.model_validate(spec)
    baseline = the_spec.changes.baseline
    # Taken before this run is judged, which may be of the very same release.
    beside = baseline_of(the_spec.suite.name, baseline) if baseline else None
    context = get_current_context()
    run = queries.run_of(context["dag_run"].dag_id, context["dag_run"].run_id)
    assert run is not None
    judged = judge_run(
        metrics=queries.train_metrics_of(the_spec.run, [REWARD, THROUGHPUT, TIME_PER_STEP, *EXTRA_WORK]),
        base=queries.shares_of(run["base_run"], "base"),
        trained=queries.shares_of(the_spec.run, "trained"),
        confidence=the_spec.suite.judgement.confidence,
        warmup_steps=the_spec.suite.training.warmup_steps,
    )
    writes.save_verdicts(the_spec.run, judged)
    verdict = overall(judged)
    for entry in judged:
        print(f"{entry.verdict or 'recorded':>12}  {entry.metric}: {entry.text}")
    writes.set_verdict(the_spec.run, verdict)
    if beside is not None:
        print(as_text(comparison([beside, entry_of(run["dag_id"], run["dag_run_id"])])))
    if verdict != "passed":
        raise NotPassed(f"verdict: {verdict}; the reasons are above and in table verdicts, run {the_spec.run}")
    return verdict


@task(retries=2)
def close_run(spec: dict[str, Any] | None) -> str:
    """Record how the run ended: its verdict, or which stage broke."""
    from include.regression.store import queries, writes

    dag_run = get_current_context()["dag_run"]
    run = queries.run_of(dag_run.dag_id, dag_run.run_id)
    if spec is None:
        # Ended by resolve, whose message says why: refused, and there is no run; or not applicable, or a dry run.
        return run["state"] if run else "refused"
    assert run is not None
    broken = [row for row in queries.newest_attempts(spec["run"]) if row["state"] == "failed" and row["task"] != "judge"]
    if broken:
        first = broken[0]
        state = "infra_error" if first["stage"].startswith(INFRASTRUCTURE) else "failed"
        reason: str | None = f"{first['task']}: {first['message'] or 'no message'}"
    elif run["verdict"]:
        state, reason = run["verdict"], None
    else:
        state, reason = "failed", "the run ended before it was judged"
    writes.finish_run(run["run"], state, reason)
    print(f"run {spec['run']} ended as {state}")
    return state
