"""Waiting for a training that runs as a Ray job: its state, its log, and its metrics into Postgres while it runs."""

from __future__ import annotations

import asyncio
import random
import shlex
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
from airflow.providers.ssh.hooks.ssh import SSHHookAsync
from airflow.triggers.base import BaseTrigger, TriggerEvent

MAX_FAILURES = 30
CHUNK_BYTES = 1_000_000


class RayTrainingTrigger(BaseTrigger):
    """Poll a Ray job over one SSH connection: the dashboard through a tunnel, log and metrics file by ``tail``.

    ``token_command`` prints the cluster's token on the node; the token is never stored. The event has ``status`` (Ray's terminal
    state, TIMEOUT or UNREACHABLE) and ``message``. ``console`` says that the metrics are lines of a log, not a file of their own.
    Metrics are keyed by run, attempt and step, so a trigger that starts over reads the file from the start and changes nothing.
    """

    def __init__(
        self,
        *,
        ssh_conn_id: str,
        host: str,
        port: int,
        token_command: str,
        run: str,
        attempt: int,
        submission_id: str,
        metrics_file: str,
        console: bool,
        log_file: str,
        poll_s: int,
        deadline: float,
    ) -> None:
        super().__init__()
        self.ssh_conn_id = ssh_conn_id
        self.host = host
        self.port = port
        self.token_command = token_command
        self.run_key = run
        self.attempt = attempt
        self.submission_id = submission_id
        self.metrics_file = metrics_file
        self.console = console
        self.log_file = log_file
        self.poll_s = poll_s
        self.deadline = deadline
        self._metrics_offset = 0
        self._log_offset = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ["ssh_conn_id", "host", "port", "token_command", "attempt", "submission_id"]
        names += ["metrics_file", "console", "log_file", "poll_s", "deadline"]
        arguments = {name: getattr(self, name) for name in names}
        return f"{type(self).__module__}.{type(self).__qualname__}", {**arguments, "run": self.run_key}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        failures = 0
        while True:
            try:
                async with await SSHHookAsync(ssh_conn_id=self.ssh_conn_id).get_conn() as ssh:
                    client = await self._client(ssh)
                    while True:
                        event = await self._look(ssh, client)
                        failures = 0
                        if event:
                            yield TriggerEvent(event)
                            return
                        await asyncio.sleep(self.poll_s)
            except (OSError, asyncssh.Error, RuntimeError) as error:
                # RuntimeError and ConnectionError (an OSError) are what Ray's job client raises for a head that does not answer.
                failures += 1
                self.log.warning("cannot see the Ray job (%d of %d): %s", failures, MAX_FAILURES, error)
                if failures >= MAX_FAILURES:
                    yield TriggerEvent({"status": "UNREACHABLE", "message": str(error)})
                    return
                await asyncio.sleep(min(30, self.poll_s * 2 ** min(failures, 5)) * random.uniform(0.8, 1.2))

    async def on_kill(self) -> None:
        """Stop the job: the user cleared or marked the deferred task."""
        async with await SSHHookAsync(ssh_conn_id=self.ssh_conn_id).get_conn() as ssh:
            client = await self._client(ssh)
            await asyncio.to_thread(client.stop_job, self.submission_id)

    async def _client(self, ssh: asyncssh.SSHClientConnection) -> Any:
        tunnel = await ssh.forward_local_port("127.0.0.1", 0, self.host, self.port)
        token = await ssh.run(self.token_command, check=True, timeout=30)
        return await asyncio.to_thread(job_client, tunnel.get_port(), str(token.stdout).strip())

    async def _look(self, ssh: asyncssh.SSHClientConnection, client: Any) -> dict[str, Any] | None:
        info = await asyncio.to_thread(client.get_job_info, self.submission_id)
        await self._follow_log(ssh)
        await self._follow_metrics(ssh)
        if info.status.is_terminal():
            return {"status": str(info.status.value), "message": info.message}
        if time.time() > self.deadline:
            await asyncio.to_thread(client.stop_job, self.submission_id)
            return {"status": "TIMEOUT", "message": "training.timeout_min of the suite is over; the job was stopped"}
        return None

    async def _follow_log(self, ssh: asyncssh.SSHClientConnection) -> None:
        text = await self._read(ssh, self.log_file, self._log_offset)
        lines = text[: text.rfind("\n") + 1]
        self._log_offset += len(lines.encode())
        if lines:
            self.log.info("%s", lines.rstrip())

    async def _follow_metrics(self, ssh: asyncssh.SSHClientConnection) -> None:
        from include.regression.config.metrics import REWARD, TIME_PER_STEP
        from include.regression.parsers.verl_console import parse_console
        from include.regression.parsers.verl_metrics import parse_lines
        from include.regression.store.writes import save_steps

        parse = parse_console if self.console else parse_lines
        steps, consumed = parse(await self._read(ssh, self.metrics_file, self._metrics_offset))
        if steps:
            await asyncio.to_thread(save_steps, self.run_key, self.attempt, steps)
        self._metrics_offset += consumed
        for step in steps:
            self.log.info("step %d: reward %s, %s s", step.step, step.values.get(REWARD), step.values.get(TIME_PER_STEP))

    async def _read(self, ssh: asyncssh.SSHClientConnection, path: str, offset: int) -> str:
        command = f"tail -c +{offset + 1} {shlex.quote(path)} 2>/dev/null | head -c {CHUNK_BYTES} || true"
        found = await ssh.run(command, timeout=60, errors="replace")
        return str(found.stdout or "")


def job_client(port: int, token: str) -> Any:
    """Make Ray's job client for a dashboard on a local port.

    Imported late: ``ray`` takes seconds to import, and only the task and the triggerer that use it should pay.
    """
    from ray.job_submission import JobSubmissionClient

    return JobSubmissionClient(f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"})
