"""The stack on one machine: Postgres, an SSH node and Airflow, started and stopped together, and the demo that runs on it.

``python -m include.localstack up|down|status|logs|demo|migrate``; the Makefile is its face.
"""
