"""Waiting for a job on a node, in the triggerer."""

from __future__ import annotations

import shlex
import time
from typing import Any

from airflow.providers.ssh.triggers.ssh_remote_job import SSHRemoteJobTrigger


class JobLost(Exception):
    """The job's process is gone and left no exit status, or its time is over."""


class NodeJobTrigger(SSHRemoteJobTrigger):
    """The provider's trigger, for jobs that may be killed, may die, and may take too long.

    On top of it: a job whose process vanished is noticed (the provider's waits for ever); at ``deadline`` (Unix time) the job is
    stopped and the task fails; a task that is cleared or marked while deferred stops its job (``stop_command``, a shell command).
    """

    def __init__(self, *, pid_file: str, stop_command: str, deadline: float, **provider: Any) -> None:
        super().__init__(**provider)
        self.pid_file = pid_file
        self.stop_command = stop_command
        self.deadline = deadline
        self._missed = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        _, arguments = super().serialize()
        arguments |= {"pid_file": self.pid_file, "stop_command": self.stop_command, "deadline": self.deadline}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def _check_completion(self, conn: Any) -> int | None:
        code = await super()._check_completion(conn)
        if code is not None:
            return code
        if time.time() > self.deadline:
            await self._run_command(conn, self.stop_command)
            raise JobLost("the job's time is over; it was stopped (the timeouts stand in the suite file)")
        pid_file = shlex.quote(self.pid_file)
        _, alive, _ = await self._run_command(conn, f'pid=$(cat {pid_file}) && kill -0 "$pid" && echo alive || true')
        # Looked at twice: between the two commands the job may end and only then write its exit status.
        self._missed = 0 if "alive" in alive else self._missed + 1
        if self._missed > 2:
            raise JobLost("the job's process is gone and left no exit status: killed (out of memory?), or the node restarted")
        return None

    async def on_kill(self) -> None:
        """Stop the job: the user cleared or marked the deferred task."""
        conn = await self._connect()
        try:
            await self._run_command(conn, self.stop_command)
            self.log.info("stopped job %s", self.job_id)
        finally:
            await self._close(conn)
