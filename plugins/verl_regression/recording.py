"""Every try of every task becomes a row in the results: callbacks for a DAG's ``default_args``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import Context


def _record(state: str) -> Callable[[Context], None]:
    def callback(context: Context) -> None:
        from include.regression.store import queries, writes

        ti = context["ti"]
        run = queries.run_of(ti.dag_id, ti.run_id)
        if run is None:
            return  # not resolved yet: there is nothing to record the try under
        error = context.get("exception")
        writes.record_stage(
            run=run["run"],
            task=ti.task_id,
            map_index=-1 if ti.map_index is None else ti.map_index,
            attempt=ti.try_number,
            stage=ti.task_id.rpartition(".")[0] or ti.task_id,
            state=state,
            message=str(error)[:4000] if error else None,
        )

    return callback


#: For ``default_args``: records start, success, failure, retry and skip.
RECORDED: Mapping[str, Any] = {
    "on_execute_callback": _record("running"),
    "on_success_callback": _record("success"),
    "on_failure_callback": _record("failed"),
    "on_retry_callback": _record("retrying"),
    "on_skipped_callback": _record("skipped"),
}
