"""What extends Airflow: operators and triggers that run the regression's commands on nodes over SSH and Ray.

No module here imports ray, scipy or anything of a node environment at its top: the DAG processor, every task and the triggerer
import these files, and Airflow's parse time is a budget (tests/dags/test_policy.py).
"""
