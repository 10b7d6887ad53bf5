"""Nodes without machines: network namespaces joined by a bridge, each with its own address, processes, mounts, host name and sshd.

Needs root and four Debian packages, which are installed if they are missing. What the nodes share is this machine's kernel, clock
and file system except /tmp; a fault puts something else in a node's place.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PACKAGES = {
    "/usr/sbin/sshd": "openssh-server",
    "/usr/sbin/nft": "nftables",
    "/usr/sbin/ip": "iproute2",
    "/usr/bin/faketime": "faketime",
}
#: The interpreter that this environment was made from: every node has it.
PYTHON = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
ROOT = Path(__file__).resolve().parents[2]
BRIDGE = "br-vrlab"
NETWORK = "10.77.0"


def why_not() -> str | None:
    """Say why there can be no lab here; None if there can."""
    return None if os.geteuid() == 0 else "namespaces need root; CI has it"


def install() -> None:
    missing = [package for path, package in PACKAGES.items() if not Path(path).exists()]
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True, env=environment, capture_output=True)
        command = ["apt-get", "install", "-yq", "--no-install-recommends", *missing]
        subprocess.run(command, check=True, env=environment, capture_output=True)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def remove(kind: str, name: str) -> None:
    """Remove a link or a network namespace of ours, if it is there: a test session that was killed leaves them."""
    subprocess.run(["ip", kind, "delete", name], capture_output=True)


class LabNode:
    """One node. ``sh`` runs a script inside it, as its root and with its own processes, mounts and network."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name = f"lab-{number}"
        self.address = f"{NETWORK}.{10 + number}"
        self.folder = folder / self.name
        self.ssh_conn_id = f"vr_lab_{number}"
        self.namespace = f"vr-{self.name}"
        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir()

    def start(self, key: Path) -> None:
        remove("link", f"v-{self.name}")
        remove("netns", self.namespace)
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", f"v-{self.name}", "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        run("ip", "link", "set", f"v-{self.name}", "master", BRIDGE, "up")
        run("ip", "-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", self.namespace, "link", "set", device, "up")
        run("ip", "-n", self.namespace, "route", "add", "default", "via", f"{NETWORK}.1")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/host")
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        self._write_config()
        sshd = f"exec /usr/sbin/sshd -D -f {self.folder}/sshd.conf -E {self.folder}/sshd.log"
        own = f"mount --bind {self.folder}/hosts /etc/hosts && mount -t tmpfs tmpfs /dev/shm && {self._own_tmp()}"
        begin = f"hostname {self.name} && {own} && {sshd}"
        inside = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *inside, begin],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_for_sshd()
        host_key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        self.connection = {
            "conn_type": "ssh",
            "host": self.address,
            "login": "root",
            "extra": {"key_file": str(key), "host_key": host_key, "no_host_key_check": False},
        }
        self.connect_with()

    def _own_tmp(self) -> str:
        """Give the node a /tmp of its own, as Ray's sockets are there; a checkout that is below /tmp stays in its place."""
        mount = "mount -t tmpfs tmpfs /tmp"
        if not ROOT.is_relative_to("/tmp"):
            return mount
        kept = self.folder / "checkout"
        kept.mkdir()
        return f"mount --bind {ROOT} {kept} && {mount} && mkdir -p {ROOT} && mount --bind {kept} {ROOT}"

    def connect_with(self, host: str | None = None, **extra: object) -> None:
        """Set the Airflow connection; ``extra`` replaces parts of it."""
        changed = {**self.connection, "host": host or self.address, "extra": {**self.connection["extra"], **extra}}  # type: ignore[dict-item]
        os.environ[f"AIRFLOW_CONN_{self.ssh_conn_id.upper()}"] = json.dumps(changed)

    @property
    def pid(self) -> int:
        """The node's first process, seen from outside."""
        assert self.process is not None
        return int(run("pgrep", "-P", str(self.process.pid)).split()[0])

    def sh(self, script: str) -> str:
        return run("nsenter", "-t", str(self.pid), "-a", "bash", "-c", script)

    @contextlib.contextmanager
    def running(self, *command: str, **variables: str) -> Iterator[None]:
        """Something that runs on the node meanwhile."""
        assigned = [f"{name}={value}" for name, value in variables.items()]
        with (self.folder / "running.log").open("wb") as log:
            started = subprocess.Popen(
                ["nsenter", "-t", str(self.pid), "-a", "env", *assigned, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            os.killpg(started.pid, signal.SIGTERM)
            started.wait()
            deadline = time.monotonic() + 30
            with contextlib.suppress(ProcessLookupError):
                while True:  # nsenter ends at once, what it started in the node when it is done
                    os.killpg(started.pid, 0)
                    assert time.monotonic() < deadline, (self.folder / "running.log").read_text()
                    time.sleep(0.05)

    @contextlib.contextmanager
    def login_with(self, **variables: str) -> Iterator[None]:
        """Give every login these variables (sshd's SetEnv)."""
        self._write_config("SetEnv " + " ".join(f"{name}={value}" for name, value in variables.items()))
        self._reread()
        try:
            yield
        finally:
            self._write_config()
            self._reread()

    @contextlib.contextmanager
    def mounted(self, *arguments: str) -> Iterator[None]:
        """Mount something in this node alone; the last argument is where."""
        self.sh(shlex.join(["mount", *arguments]))
        try:
            yield
        finally:
            self.sh(shlex.join(["umount", "-l", arguments[-1]]))

    @contextlib.contextmanager
    def firewall(self, *rules: str, hook: str = "input") -> Iterator[None]:
        self.sh(f"nft add table inet filter && nft 'add chain inet filter {hook} {{ type filter hook {hook} priority 0; }}'")
        try:
            for rule in rules:
                self.sh(f"nft 'add rule inet filter {hook} {rule}'")
            yield
        finally:
            self.sh("nft flush ruleset")

    def stop(self) -> None:
        """End all that runs in the node: its first process takes the others with it."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        remove("link", f"v-{self.name}")
        remove("netns", self.namespace)

    def _write_config(self, *more: str) -> None:
        lines = [
            "Port 22",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder.parent}/id.pub",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 100",
            f"PidFile {self.folder}/sshd.pid",
            "Subsystem sftp internal-sftp",
        ]
        (self.folder / "sshd.conf").write_text("\n".join([*lines, *more]) + "\n")

    def _reread(self) -> None:
        """sshd starts itself anew on SIGHUP."""
        before = (self.folder / "sshd.log").read_text().count("listening on")
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + 10
        while (self.folder / "sshd.log").read_text().count("listening on") == before:
            assert time.monotonic() < deadline, (self.folder / "sshd.log").read_text()
            time.sleep(0.05)
        self._wait_for_sshd()

    def _wait_for_sshd(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection((self.address, 22), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "sshd.log").read_text()
                time.sleep(0.05)


@contextlib.contextmanager
def lab(count: int) -> Iterator[list[LabNode]]:
    """Start ``count`` nodes; end them, and all that runs in them."""
    install()
    Path("/run/sshd").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="vr-lab-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "work").mkdir()
    nodes = [LabNode(folder, number) for number in range(1, count + 1)]
    begun: list[LabNode] = []
    try:
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/id")
        remove("link", BRIDGE)
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for node in nodes:
            begun.append(node)
            node.start(folder / "id")
        yield nodes
    finally:
        for node in begun:
            node.stop()
        remove("link", BRIDGE)
        shutil.rmtree(folder, ignore_errors=True)
