"""The demo's node: this machine, behind an SSH server of the project on loopback: every stage goes through SSH as in production.

The server (asyncssh) takes one user key and shows one host key, both made fresh per state folder; the host key is pinned in the
Airflow connection. Commands run with a plain login's environment, never with Airflow's: a node knows nothing of the control plane.
Run as ``python -m include.localstack.node STATE_FOLDER``.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import asyncssh

from include.localstack.settings import ROOT, STACK_TAG, Settings, StackError, free_port, listening, write_private

#: Variables that a node's own login would have: where packages and certificates come from, and who and where the user is.
LOGIN_VARIABLES = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
LOGIN_PREFIXES = (
    "PIP_",
    "UV_",
    "SSL_",
    "REQUESTS_CA",
    "CURL_CA",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "OPENBLAS_",
)
START_TIMEOUT_S = 20


def login_environment(variables: dict[str, str], tag: str) -> dict[str, str]:
    """Pick a login's variables out of ``variables``; the stack's tag lets it find what was started through this server."""
    kept = {name: value for name, value in variables.items() if name in LOGIN_VARIABLES or name.startswith(LOGIN_PREFIXES)}
    if any(name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name in kept):
        # What is on this node itself is never reached through a proxy.
        listed = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
        exempt = ",".join(dict.fromkeys([*filter(None, listed.split(",")), "127.0.0.1", "localhost"]))
        kept |= {"no_proxy": exempt, "NO_PROXY": exempt}
    return {**kept, STACK_TAG: tag}


def start(settings: Settings) -> str:
    """Start the server if it does not run, and return the Airflow connection (JSON) that reaches it."""
    port = _port(settings)
    user_key, host_key = _key(settings.node / "user_key"), _key(settings.node / "host_key")
    connection = {
        "conn_type": "ssh",
        "host": "127.0.0.1",
        "port": port,
        "login": getpass.getuser(),
        "extra": {"key_file": str(user_key), "host_key": _public(host_key), "no_host_key_check": False},
    }
    if not listening(port):
        _launch(settings, port)
    return json.dumps(connection)


def _launch(settings: Settings, port: int) -> None:
    environment = {**login_environment(dict(os.environ), settings.tag("node")), "PYTHONPATH": str(ROOT)}
    with settings.node_log.open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "include.localstack.node", str(settings.state)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    write_private(settings.node / "pid", str(server.pid))
    deadline = time.monotonic() + START_TIMEOUT_S
    while not listening(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise StackError(f"the SSH node on port {port} did not start; its log is {settings.node_log}")
        time.sleep(0.1)


def _port(settings: Settings) -> int:
    """Return the port chosen at the first start; the connection's host key is bound to it."""
    file = settings.node / "port"
    if not file.exists():
        write_private(file, str(free_port()))
    return int(file.read_text())


def _key(path: Path) -> Path:
    if not path.exists():
        write_private(path, asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode())
    return path


def _public(path: Path) -> str:
    """Type and key, as the SSH provider's ``host_key`` wants them, without the comment."""
    return " ".join(asyncssh.read_private_key(path).export_public_key().decode().split()[:2])


class Loopback(asyncssh.SSHServer):
    """Lets clients open tunnels to this machine's own ports, as sshd does; Ray's dashboard is reached so."""

    def connection_requested(self, dest_host: str, *_: object) -> bool:
        return dest_host in ("127.0.0.1", "localhost")


async def _copy(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    """Pass on what a child prints, to the end; a client that has gone away does not stop the child."""
    while data := await source.read(65536):
        with contextlib.suppress(OSError, asyncssh.Error):
            target.write(data)
            await target.drain()


async def _feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    """Pass on what the client sends, to its end or the child's."""
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()


async def _run(process: asyncssh.SSHServerProcess[bytes], environment: dict[str, str]) -> None:
    """Run one command by bash, as sshd does."""
    command = ["bash", "-c", process.command] if process.command else ["bash", "-l"]
    child = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=environment.get("HOME", "/"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    # Not asyncssh's redirect: with a child that ends at once it loses output and status, now and then the whole connection.
    typing = asyncio.create_task(_feed(process.stdin, child.stdin))
    await asyncio.gather(_copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr))
    status = await child.wait()
    typing.cancel()
    process.exit(status)


async def serve(settings: Settings) -> None:
    """Serve SSH on the chosen loopback port for ever."""
    environment = login_environment(dict(os.environ), settings.tag("node"))
    user_key = asyncssh.read_private_key(settings.node / "user_key").export_public_key().decode()
    await asyncssh.listen(
        "127.0.0.1",
        _port(settings),
        server_host_keys=[str(settings.node / "host_key")],
        authorized_client_keys=asyncssh.import_authorized_keys(user_key),
        process_factory=lambda process: _run(process, environment),
        server_factory=Loopback,
        sftp_factory=True,
        encoding=None,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Settings(Path(sys.argv[1]), 0)))
