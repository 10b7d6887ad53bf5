"""Start, find and stop our processes on a node, and nobody else's.

Every process of a run carries ``VERL_REGRESSION_HOME`` (the work folder) and ``VERL_REGRESSION_JOB`` ("RUN/JOB") in its
environment, and so does whatever it starts, in whichever session. What to stop is found by that tag in
``/proc/PID/environ`` (Linux, proc(5)), never by a process's name.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .result import write_result

HOME = "VERL_REGRESSION_HOME"
JOB = "VERL_REGRESSION_JOB"
GRACE_S = 15.0
KILL_WAIT_S = 5.0
LEADERS_FIRST_S = 4.0


def environment_of(pid: int) -> dict[str, str]:
    """Read the environment a process was started with; empty if it is gone, a zombie, or not ours to read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def where(matches: Callable[[dict[str, str]], bool]) -> list[int]:
    """List the processes whose environment matches.

    The caller and its ancestors are never listed: a script that cleans up must not stop itself.
    """
    spare = _ancestors()
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return sorted(pid for pid in pids if pid not in spare and matches(environment_of(pid)))


def tagged(home: str, job: str) -> list[int]:
    """List the processes of a work folder whose job is ``job`` or below it ("RUN" finds "RUN/ray"); "" finds all."""

    def matches(environment: dict[str, str]) -> bool:
        tag = environment.get(JOB)
        return tag is not None and environment.get(HOME) == home and (not job or tag == job or tag.startswith(f"{job}/"))

    return where(matches)


def stop(home: str, job: str, grace_s: float = GRACE_S) -> dict[str, list[int]]:
    """Stop all processes of a job; see :func:`stop_all`."""
    return stop_all(lambda: tagged(home, job), grace_s)


def stop_all(look: Callable[[], list[int]], grace_s: float = GRACE_S) -> dict[str, list[int]]:
    """Stop what ``look`` lists: TERM to the session leaders, soon after to the rest, after ``grace_s`` KILL, then look again.

    Leaders go first because Ray ends its own children in order; asked all at once, some of them wait for ever. Returns the pids
    that were ``found``, the ones that had to be ``killed``, and those that are ``left`` (none, unless the kernel holds them).
    """
    found = look()
    leaders = [pid for pid in found if _is_session_leader(pid)]
    if leaders:
        _signal(leaders, signal.SIGTERM)
        _gone_within(look, min(grace_s, LEADERS_FIRST_S))
    _signal(look(), signal.SIGTERM)
    killed: list[int] = []
    if not _gone_within(look, grace_s):
        killed = look()
        _signal(killed, signal.SIGKILL)
        _gone_within(look, KILL_WAIT_S)
    return {"found": found, "killed": killed, "left": look()}


def start(command: list[str], log: Path, environment: dict[str, str]) -> int:
    """Start a service in a session of its own, its output appended to ``log``. Returns its pid."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    return process.pid


def tail(path: Path, lines: int = 40) -> str:
    """Return the last lines of a log, or a note that there is none."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return f"(no log at {path})"


def _ancestors() -> set[int]:
    pids, pid = set(), os.getpid()
    while pid > 1:
        pids.add(pid)
        try:
            # Field 4 of /proc/PID/stat is the parent; the name in field 2 may hold spaces, so count from its ")".
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return pids


def _is_session_leader(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _gone_within(look: Callable[[], list[int]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["stop", "list"])
    parser.add_argument("--home", required=True)
    parser.add_argument("--job", default="", help="RUN or RUN/JOB; all of the work folder if left out")
    arguments = parser.parse_args()
    if arguments.action == "list":
        for pid in tagged(arguments.home, arguments.job):
            print(pid, environment_of(pid).get(JOB))
        return
    outcome = stop(arguments.home, arguments.job)
    print(f"{arguments.job or 'everything'}: stopped {len(outcome['found'])} processes, killed {len(outcome['killed'])}")
    write_result(dict(outcome))
    if outcome["left"]:
        sys.exit(f"still running after SIGKILL: {outcome['left']}; they are stuck in the kernel, look at `ps -o pid,stat,wchan`")


if __name__ == "__main__":
    main()
