"""Only our own processes are found and stopped, whatever they call themselves and wherever they hide. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.node import processes

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path)
    processes.stop(str(tmp_path), "", grace_s=0)


def start(home: str, job: str, *command: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, processes.HOME: home, processes.JOB: job}
    return subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE)


def reaped(process: subprocess.Popen[bytes]) -> int:
    return process.wait(timeout=10)


def test_a_job_is_found_by_its_tag_and_by_its_runs(home: str) -> None:
    ray, server = start(home, "r1/ray", "sleep", "60"), start(home, "r1/server", "sleep", "60")
    other = start(home, "r10/ray", "sleep", "60")
    assert processes.tagged(home, "r1/ray") == [ray.pid]
    assert processes.tagged(home, "r1") == sorted([ray.pid, server.pid]), "r10 is another run"
    assert processes.tagged(home, "") == sorted([ray.pid, server.pid, other.pid])
    assert processes.tagged(home + "x", "") == []


def test_stopping_takes_the_job_and_spares_all_others(home: str) -> None:
    ours, stranger = start(home, "r1/ray", "sleep", "60"), subprocess.Popen(["sleep", "60"])
    neighbour = start(home, "r2/ray", "sleep", "60")
    try:
        outcome = processes.stop(home, "r1")
        assert outcome["found"] == [ours.pid]
        assert outcome["left"] == []
        assert reaped(ours) == -signal.SIGTERM
        assert stranger.poll() is None
        assert neighbour.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_children_in_sessions_of_their_own_are_stopped_too(home: str) -> None:
    parent = start(home, "r1/job", "bash", "-c", "setsid sleep 60 & setsid sleep 61 & wait")
    deadline = time.monotonic() + 5
    while len(processes.tagged(home, "r1")) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(processes.tagged(home, "r1")) == 3
    assert processes.stop(home, "r1")["left"] == []
    reaped(parent)


def test_one_that_ignores_the_request_is_killed(home: str) -> None:
    deaf = start(home, "r1/job", sys.executable, "-c", STUBBORN)
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == b"deaf\n"
    outcome = processes.stop(home, "r1", grace_s=0.3)
    assert outcome["killed"] == [deaf.pid]
    assert outcome["left"] == []
    assert reaped(deaf) == -signal.SIGKILL


def test_who_cleans_up_does_not_stop_itself(home: str) -> None:
    script = f"from include.node import processes; print(processes.stop({home!r}, 'r1')['found'])"
    environment = {**os.environ, processes.HOME: home, processes.JOB: "r1/stop"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_nothing_to_stop_is_no_error(home: str) -> None:
    assert processes.stop(home, "r1") == {"found": [], "killed": [], "left": []}
