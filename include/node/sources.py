"""Packages of an environment that come from git repositories: finding the commit, checking it out, installing it.

A checkout lies beside the environments, in src/NAME-COMMIT, is complete or not there, and is shared by environments; each
environment links to its own in its folder src. ``mirrors`` (the beginning of a URL and what stands in for it) reach git by its
own url.insteadOf, so that submodules follow too; a mirror may be a folder, which is how a node without network installs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .result import stop_with

Run = Callable[[list[str], dict[str, str]], None]


@dataclass(frozen=True)
class Source:
    """One package; fields as in the release file (include/regression/config/release.py)."""

    name: str
    git: str
    ref: str
    submodules: bool = False
    build_isolation: bool = True
    env: dict[str, str] = field(default_factory=dict)
    how: str = "install"


def parse_source(text: str) -> Source:
    """Read a source from JSON."""
    return Source(**json.loads(text))


def git_environment(mirrors: list[str]) -> dict[str, str]:
    """Variables that make git use the mirrors (``PREFIX=MIRROR`` each) and never ask for a password."""
    settings = []
    for mirror in mirrors:
        prefix, _, instead = mirror.partition("=")
        settings.append((f"url.{instead}.insteadOf", prefix))
        if instead.startswith(("/", "file:")):
            # Git refuses submodules from a folder, unless told that the folder is trusted: the cluster file names it.
            settings.append(("protocol.file.allow", "always"))
    variables = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def commit_of(source: Source, variables: dict[str, str]) -> str:
    """Resolve the ref: a tag or a branch by asking the repository, a commit (hexadecimal) as it is."""
    if re.fullmatch(r"[0-9a-f]{7,40}", source.ref):
        return source.ref
    wanted = [f"refs/tags/{source.ref}^{{}}", f"refs/tags/{source.ref}", f"refs/heads/{source.ref}"]
    command = ["git", "ls-remote", source.git, *wanted]
    asked = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if asked.returncode:
        _unreachable(source, asked.stderr)
    found = {name: commit for commit, name in (line.split("\t") for line in asked.stdout.splitlines())}
    # An annotated tag is an object of its own; with ^{} it is the commit.
    commit = next((found[name] for name in wanted if name in found), None)
    if commit is None:
        stop_with(
            f"source {source.name}: ref = {source.ref!r}: no tag or branch of {source.git}. Fix: correct it in the release file"
        )
    return str(commit)


def check_out(source: Source, commit: str, folder: Path, variables: dict[str, str], run: Run) -> Path:
    """Return the complete checkout of a commit below ``folder``; made only if it is not there.

    Call it and :func:`link` under one lock, so that :func:`prune` never sees a checkout between the two.
    """
    target = folder / f"{source.name}-{commit[:12]}"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    cloning = folder / f"{target.name}.cloning-{os.getpid()}"
    for leftover in folder.glob(f"{target.name}.cloning-*"):
        shutil.rmtree(leftover)
    # Every commit, so that a short one is found and versions can be read from tags; files only of the one that is checked out.
    cloned = ["git", "clone", "--quiet", "--filter=blob:none", "--no-checkout", source.git, str(cloning)]
    run(cloned, variables)
    run(["git", "-C", str(cloning), "checkout", "--quiet", "--detach", commit], variables)
    if source.submodules:
        run(["git", "-C", str(cloning), "submodule", "--quiet", "update", "--init", "--recursive", "--depth", "1"], variables)
    cloning.rename(target)
    return target


def link(source: Source, checkout: Path, environment_dir: Path) -> None:
    """Say in an environment which checkout is its own; relative, because the environment is renamed when it is finished."""
    place = environment_dir / "src" / source.name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(Path("..") / ".." / checkout.parent.name / checkout.name)


def prune(folder: Path) -> None:
    """Remove the checkouts that no environment links to: a branch leaves one behind every night. Call it under the lock."""
    linked = {place.resolve() for place in folder.parent.glob("*/src/*")}
    for checkout in folder.iterdir():
        if checkout.resolve() not in linked:
            print(f"removing a checkout that no environment uses: {checkout}")
            shutil.rmtree(checkout)


def install(source: Source, checkout: Path, environment_dir: Path, command: list[str], variables: dict[str, str], run: Run) -> None:
    """Install a checkout into an environment; ``command`` is ``uv pip install`` with its options."""
    if source.how == "path":
        site_packages = next(environment_dir.glob("lib/python3.*/site-packages"))
        (site_packages / f"{source.name}.pth").write_text(f"{checkout}\n")
        return
    isolation = [] if source.build_isolation else ["--no-build-isolation"]
    editable = ["--editable"] if source.how == "editable" else []
    run([*command, *isolation, *editable, str(checkout)], {**variables, **source.env})


def _unreachable(source: Source, error: str) -> None:
    stop_with(
        f"source {source.name}: git = {source.git!r}: cannot be read ({error.strip()[:500]}). "
        "Fix: let the node reach it, or name a mirror (URL or folder) under 'mirrors' in the cluster file"
    )
