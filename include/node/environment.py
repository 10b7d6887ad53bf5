"""Build a Python environment on a node from a lock file, once, and prove that it imports.

The environment is built beside its final place and renamed, so that a killed build never looks finished; a stamp (hash of
lock, wheels, commits of sources, plug-ins and interpreter) says what it was built from, and an environment with the right stamp
is reused. Order: the lock, wheels that no index has, sources, plug-ins; each without dependencies, because the lock holds them all.

Where packages come from is the node's business: pip's and uv's own variables are honoured (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL,
PIP_FIND_LINKS, PIP_CERT, UV_*), so a mirror or a wheel folder behind a firewall needs no change here. PyTorch's CPU builds are
taken from a find-links folder when one holds them, else from PyTorch's own CPU index (uv's torch-backend).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import sources
from .result import stop_with, write_result

STAMP = "verl-regression-stamp.json"


def stamp_of(lock: Path, plugins: list[Path], python: str, others: Sequence[str] = ()) -> str:
    """Hash what the environment is made from: the lock's pins, ``others``, the plug-ins' files and the interpreter's version."""
    digest = hashlib.sha256()
    pins = [line.strip() for line in lock.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    digest.update("\n".join([*pins, *others]).encode())
    for plugin in plugins:
        for path in sorted(plugin.rglob("*")):
            if path.is_file() and path.suffix in {".py", ".toml", ".typed"}:
                digest.update(f"{path.relative_to(plugin)}\0".encode() + path.read_bytes())
    digest.update(subprocess.check_output([python, "-c", "import sys; print(sys.version_info[:3])"]))
    return digest.hexdigest()


def index_options(variables: dict[str, str], accelerator: bool = False) -> tuple[list[str], dict[str, str]]:
    """Translate pip's settings to uv's. Returns uv options and environment variables to add.

    uv reads UV_* itself and knows nothing of PIP_*; a UV_* setting wins. A find-links folder that holds a torch wheel
    makes PyTorch's own index unnecessary, and so does an explicit UV_TORCH_BACKEND. With ``accelerator``, torch is the package
    index's own wheel.
    """
    added: dict[str, str] = {}
    if variables.get("PIP_INDEX_URL") and not variables.get("UV_DEFAULT_INDEX"):
        added["UV_DEFAULT_INDEX"] = variables["PIP_INDEX_URL"]
    if variables.get("PIP_EXTRA_INDEX_URL") and not variables.get("UV_INDEX"):
        added["UV_INDEX"] = variables["PIP_EXTRA_INDEX_URL"]
    if variables.get("PIP_NO_INDEX", "").lower() in {"1", "true", "yes", "on"}:
        added["UV_NO_INDEX"] = "1"
    if variables.get("PIP_CERT") and not variables.get("SSL_CERT_FILE"):
        added["SSL_CERT_FILE"] = variables["PIP_CERT"]
    folders = variables.get("UV_FIND_LINKS") or variables.get("PIP_FIND_LINKS") or ""
    places = [place for place in folders.replace(",", " ").split() if place]
    options = [option for place in places for option in ("--find-links", place)]
    has_torch = any(any(Path(place).glob("torch-*.whl")) for place in places if Path(place).is_dir())
    if not accelerator and not has_torch and "UV_TORCH_BACKEND" not in variables and "UV_NO_INDEX" not in added:
        options += ["--torch-backend", "cpu"]
    return options, added


def find_uv(tools: Path, python: str) -> str:
    """Return uv: the one on PATH, else one that pip installs into the work folder."""
    on_path = shutil.which("uv")
    if on_path:
        return on_path
    own = tools / "bin" / "uv"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(tools)], check=True)
        subprocess.run([str(tools / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"], check=True)
    return str(own)


@contextmanager
def only_one(lock_file: Path) -> Iterator[None]:
    """Hold a file lock: two runs that need the same environment build it once."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(arguments: argparse.Namespace) -> dict[str, object]:
    """Build or reuse the environment; returns its folder, stamp, packages, whether it was reused, and the seconds."""
    began = time.monotonic()
    target: Path = arguments.into
    if arguments.wheel and not (arguments.wheels and arguments.wheels.is_dir()):
        wanted, folder = ", ".join(arguments.wheel), arguments.wheels
        stop_with(
            f"wheels = {str(folder) if folder else None!r}: no such folder on this node, and no package index has {wanted}. "
            "Fix: put the wheels in a folder here, and name it 'wheels' in the cluster file"
        )
    git = sources.git_environment(arguments.mirror)
    commits = {source.name: sources.commit_of(source, git) for source in arguments.source}
    made_from = [f"{source} {commits[source.name]}" for source in arguments.source]
    stamp = stamp_of(arguments.lock, arguments.plugin, arguments.python, arguments.wheel + made_from)
    with only_one(target.with_name(f"{target.name}.lock")):
        record = _read_stamp(target)
        if record.get("stamp") == stamp:
            print(f"reusing {target}: built from this very lock ({stamp[:12]})")
            return {**record, "directory": str(target), "reused": True, "seconds": round(time.monotonic() - began, 1)}
        for leftover in target.parent.glob(f"{target.name}.building-*"):
            print(f"removing an unfinished build: {leftover}")
            shutil.rmtree(leftover)
        building = target.with_name(f"{target.name}.building-{os.getpid()}")
        packages = _install(building, arguments, commits, git)
        record = {"stamp": stamp, "packages": packages, "sources": commits}
        (building / STAMP).write_text(json.dumps(record))
        if target.exists():
            print(f"replacing {target}: it was built from something else")
            shutil.rmtree(target)
        building.rename(target)
        if arguments.source:
            with only_one(target.parent / "src.lock"):
                sources.prune(target.parent / "src")
    seconds = round(time.monotonic() - began, 1)
    print(f"built {target} with {len(packages)} packages in {seconds} s")
    return {**record, "directory": str(target), "reused": False, "seconds": seconds}


def _read_stamp(target: Path) -> dict[str, object]:
    try:
        record = json.loads((target / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _install(building: Path, arguments: argparse.Namespace, commits: dict[str, str], git: dict[str, str]) -> dict[str, str]:
    uv = find_uv(arguments.tools, arguments.python)
    options, variables = index_options(dict(os.environ), arguments.accelerator)
    environment = {**os.environ, **variables}
    python = str(building / "bin" / "python")
    # Relocatable: its scripts find their interpreter beside them, so that the folder can be renamed.
    _run([uv, "venv", "--quiet", "--relocatable", "--python", arguments.python, str(building)], environment)
    install = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps"]
    _run([*install, *options, "--requirement", str(arguments.lock)], environment)
    if arguments.wheel:
        _run([*install, "--no-index", "--find-links", str(arguments.wheels), *arguments.wheel], environment)
    for source in arguments.source:
        with only_one(building.parent / "src.lock"):
            checkout = sources.check_out(source, commits[source.name], building.parent / "src", {**environment, **git}, _run)
            sources.link(source, checkout, building)
        sources.install(source, checkout, building, [*install, *options], {**environment, **git}, _run)
    if arguments.plugin:
        # Built with the setuptools that the lock pins: a node without an index can do that.
        plugins = [str(path) for path in arguments.plugin]
        _run([*install, "--no-build-isolation", *plugins], environment)
    smoke = "; ".join(f"import {module}" for module in arguments.smoke)
    _run([python, "-c", smoke], environment)
    listing = subprocess.check_output([uv, "pip", "list", "--quiet", "--python", python, "--format", "json"], env=environment)
    return {entry["name"]: entry["version"] for entry in json.loads(listing)}


def _run(command: list[str], environment: dict[str, str]) -> None:
    print("$", " ".join(command), flush=True)
    outcome = subprocess.run(command, env=environment, stdout=sys.stdout, stderr=subprocess.STDOUT)
    if outcome.returncode:
        stop_with(
            f"'{' '.join(command[:3])} ...' ended with {outcome.returncode} (its output is above). If packages could not be "
            "fetched, set PIP_INDEX_URL or PIP_FIND_LINKS for this node; nothing was left half-built"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="folder of the environment")
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--python", required=True, help="interpreter to build it with")
    parser.add_argument("--tools", type=Path, required=True, help="folder for uv, where the node has none")
    parser.add_argument("--plugin", type=Path, action="append", default=[], help="folder installed on top; repeatable")
    parser.add_argument("--accelerator", action="store_true", help="torch for an accelerator, not PyTorch's CPU build")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that no index has")
    parser.add_argument("--wheel", action="append", default=[], help="requirement to take from there; repeatable")
    parser.add_argument("--source", type=sources.parse_source, action="append", default=[], help="JSON; repeatable, in order")
    parser.add_argument("--mirror", action="append", default=[], help="beginning of a git URL=what stands in for it; repeatable")
    parser.add_argument("--smoke", action="append", default=[], help="module that must import; repeatable")
    write_result(build(parser.parse_args()))


if __name__ == "__main__":
    main()
