"""What a deferrable task remembers of its job between its tries (Airflow's task state store)."""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow.sdk import Context


class Job(NamedTuple):
    """A job that was started: its attempt, counted from 1, and until when it may run (Unix time)."""

    attempt: int
    deadline: float


class JobMemory:
    """Remembers one job per task instance. Forgotten on success, so that clearing the task starts a new job."""

    KEY = "job"

    def __init__(self, context: Context) -> None:
        self.store: Any = context["task_state_store"]

    def recall(self) -> Job | None:
        found = self.store.get(self.KEY)
        return Job(int(found["attempt"]), float(found["deadline"])) if found else None

    def remember(self, job: Job) -> None:
        """Called before the job is started: a worker that dies in between finds no such job and starts this very one."""
        self.store.set(self.KEY, job._asdict())

    def forget(self) -> None:
        self.store.delete(self.KEY)
