"""Ask every node of a cluster what a run would need of it, and say what is wrong, where, and which command mends it.

| stage | what it does | if it fails |
|---|---|---|
| examine | asks all nodes over SSH; each listens, all connect; compares them | a table per node in the log: cause and fix |

**Run it**: *Trigger* in the UI, or `make doctor CLUSTER=...`. With a suite (and a release), the nodes are also held against what
that run needs: Python versions, CANN and driver, model and data, disk for its checkpoints. Every run does so before it begins.

**What it touches**: nothing. A probe script is read by Python from standard input; for the seconds that it takes, a listener
stands on the ports that a run would use, and a marker file in the work folder shows whether that is shared. Everything it saw
and found is in Postgres, tables `preflights` and `findings`.
"""

from datetime import timedelta

from airflow.sdk import DAG

from include.regression.config import Catalogue
from verl_regression import form, tasks

with DAG(
    dag_id="cluster_doctor",
    description="What is wrong with a cluster, and how to mend it",
    doc_md=__doc__,
    schedule=None,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=10),
    tags=["verl", "cluster"],
    default_args={"owner": "verl-regression"},
    params=form.doctor(Catalogue()),
):
    tasks.doctor.override(task_id="examine")()
