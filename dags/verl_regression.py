"""Qualify a verl release with a suite on a cluster, from an empty node to a verdict.

| stage | what it does | if it fails |
|---|---|---|
| resolve | release x suite x cluster, validated | the message names field, value and fix; nothing was touched |
| preflight | every node asked what it is, has and reaches | a table per node in the task's log: cause and fix of each finding |
| cluster_setup | environments, Ray | look at the node: package index, disk, Ray's log |
| training | data, weights, verl as a Ray job | the task log ends with verl's own; metrics so far are stored |
| base_evaluation | the base model's accuracy, once per fingerprint | as serving and evaluation |
| hf_conversion | checkpoint to Hugging Face format, checked | the checkpoint is incomplete, or training changed nothing |
| serving | vLLM from the training environment | its log's end is in the task log |
| evaluation | ais_bench, data set x repeat | a repeat whose requests failed is no score: read the reason, it is retried once |
| judge | verdict per metric; red unless passed | everything measured is in Postgres, table verdicts |
| teardown | stops all that the run started, records how it ended | processes it could not end are named |

**Run it**: `make demo`, or *Trigger* in the UI: the form takes release, cluster, fewer steps, data sets or repeats, a release to
compare with, and *dry run*, which renders every command and touches no node. **Over releases**: *Trigger*, *Backfill* with a
range of dates makes one run per release published in it, oldest first; one that the suite does not apply to is skipped with the
reason. *Reprocess* makes a new run beside the old one. **Again after a fault**: clear the failed task; what still runs on the
node is found again, what finished is not repeated. **Stop it**: mark the run failed; the teardown ends its processes by their
tag. Nothing outside the run's own processes is ever stopped.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, XComArg

from include.regression import results
from include.regression.commands import convert, data, environments, evaluate, ray, serve, train
from include.regression.config import Catalogue, ConfigError, Suite
from verl_regression import form, tasks
from verl_regression.operators.node_command import NodeCommand, PrepareNode
from verl_regression.operators.node_job import NodeJob
from verl_regression.operators.ray_training import RayTraining
from verl_regression.operators.ray_up import RayUp
from verl_regression.recording import RECORDED
from verl_regression.timetables.releases import ReleaseTimetable


def evaluated(which: str, suite: Suite, spec: XComArg, model_dir: XComArg) -> tuple[Any, Any, Any]:
    """Serve a model, run every data set x repeat against it, and stop the server whatever happened."""
    model = {"which": which, "model_dir": model_dir}
    repeats = tasks.repeats(spec, which, model_dir)
    server = NodeJob(task_id="start_server", spec=spec, render=serve.start, arguments=model).as_setup()
    repeat = NodeJob.partial(
        task_id="repeat",
        spec=spec,
        render=evaluate.repeat,
        collect=results.repeat_done,
        per_attempt=True,
        max_active_tis_per_dagrun=suite.evaluation.at_once,
        map_index_template="{{ label }}",
    ).expand(arguments=repeats)
    stop = NodeCommand(task_id="stop_server", spec=spec, render=environments.stop, arguments={"job": serve.job(which)}).as_teardown(
        setups=server
    )
    server >> repeat >> stop
    return server, repeat, stop


def pipeline(suite: Suite, catalogue: Catalogue) -> DAG:
    """Build the DAG of one suite."""
    with DAG(
        dag_id=f"verl_regression.{suite.name}",
        description=suite.description,
        doc_md=f"{__doc__}\n{form.applicability(suite, catalogue)}",
        schedule=ReleaseTimetable(suite.nightly, catalogue.dated_releases()),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=suite.budget.minutes),
        tags=["verl", suite.stack, suite.training.backend],
        # A retry finds the job of the try before it; what a retry cannot mend fails at once.
        default_args={"owner": suite.owner, "retries": 1, "retry_delay": timedelta(seconds=10), **RECORDED},
        params=form.params(suite, catalogue),
    ) as dag:
        spec = tasks.resolve(suite.name)

        with TaskGroup("preflight"):
            examined = tasks.preflight.override(task_id="examine")(spec)

        with TaskGroup("cluster_setup"):
            node = PrepareNode(task_id="node", spec=spec).as_setup()
            build = {
                name: NodeJob(
                    task_id=f"{name}_environment",
                    spec=spec,
                    render=environments.build,
                    arguments={"environment": name},
                )
                for name in ("train", "eval")
            }
            environment = tasks.record_environment(spec, build["train"].output, build["eval"].output)
            ray_up = RayUp(task_id="ray", spec=spec).as_setup()
            # One after the other: everything else waits for the training environment, and both at once would halve its speed.
            examined >> node >> build["train"] >> [build["eval"], ray_up]

        with TaskGroup("training"):
            prepare = NodeJob(task_id="prepare_data", spec=spec, render=data.prepare, collect=results.data_ready)
            weights = NodeJob(task_id="convert_weights", spec=spec, render=convert.weights)
            # Weights that need no conversion and a base model that is known are skipped; only a failure stops the way.
            ready = EmptyOperator(task_id="ready", trigger_rule="none_failed")
            trained = RayTraining(task_id="train", spec=spec)
            build["train"] >> prepare >> tasks.needs_conversion(spec, weights.task_id) >> weights >> ready >> trained

        with TaskGroup("base_evaluation"):
            base_server, base_repeat, base_stop = evaluated("base", suite, spec, prepare.output["model_dir"])
            build["eval"] >> tasks.is_base_known(spec, prepare.output, base_server.task_id) >> base_server

        with TaskGroup("hf_conversion"):
            merge = NodeJob(
                task_id="merge",
                spec=spec,
                render=convert.merge,
                arguments={"checkpoint_dir": trained.output["checkpoint_dir"]},
                collect=results.converted,
            )

        with TaskGroup("evaluation"):
            server, repeat, stop = evaluated("trained", suite, spec, merge.output["model_dir"])

        verdict = tasks.judge(spec)

        with TaskGroup("teardown"):
            stop_ray = NodeCommand(task_id="stop_ray", spec=spec, render=ray.stop, everywhere=True)
            stop_run = NodeCommand(task_id="stop_run", spec=spec, render=ray.stop, arguments={"job": ""}, everywhere=True)
            tidy = NodeCommand(task_id="tidy", spec=spec, render=train.tidy, arguments={"verdict": verdict})
            close = tasks.close_run(spec)

        stop_ray.as_teardown(setups=ray_up)
        stop_run.as_teardown(setups=node, on_failure_fail_dagrun=True)
        tidy.as_teardown(setups=node)
        close.as_teardown()
        # A teardown runs whatever happened before it, so what must have succeeded is named beside it.
        [base_repeat, base_stop] >> ready
        [ray_up, environment] >> trained >> stop_ray >> server
        [repeat, stop] >> verdict >> stop_run >> tidy >> close
        [merge, stop_ray] >> stop_run
    return dag


def broken(name: str, error: ConfigError) -> DAG:
    """Show a suite file that cannot be read as a DAG that says so; the other suites stay usable."""
    with DAG(f"verl_regression.{name}", schedule=None, doc_md=str(error), tags=["verl", "broken"]) as dag:
        tasks.refuse(str(error))
    return dag


catalogue = Catalogue()
for suite_name in catalogue.names("suites"):
    try:
        dag = pipeline(catalogue.suite(suite_name), catalogue)
    except ConfigError as error:
        dag = broken(suite_name, error)
    globals()[dag.dag_id] = dag
