"""Packages from git repositories.

Real git, real uv, repositories in a temporary folder that stand in for the named URL as a mirror.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from include.node import environment
from include.node.sources import Source, commit_of, git_environment, parse_source

URL = "https://git.invalid/team/greeter.git"
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "greeter"
version = "1"
[tool.setuptools]
py-modules = ["greeter"]
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, word: str) -> str:
    (folder / "greeter.py").write_text(f"word = {word!r}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", word)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A package with tag v1 (annotated) and a branch main that is ahead of it."""
    folder = tmp_path / "mirror" / "team" / "greeter.git"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "pyproject.toml").write_text(PROJECT)
    commit(folder, "one")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    commit(folder, "two")
    return folder


@pytest.fixture
def wanted(tmp_path: Path, tools: Path, repository: Path) -> argparse.Namespace:
    lock = tmp_path / "lock.txt"
    lock.write_text("setuptools==80.9.0\n")
    return argparse.Namespace(
        into=tmp_path / "environments" / "train",
        lock=lock,
        python=sys.executable,
        tools=tools,
        plugin=[],
        smoke=["greeter"],
        accelerator=True,
        wheels=None,
        wheel=[],
        source=[Source("greeter", URL, "v1", build_isolation=False)],
        mirror=[f"https://git.invalid={repository.parents[1]}"],
    )


def said(wanted: argparse.Namespace) -> str:
    command = [wanted.into / "bin" / "python", "-c", "import greeter; print(greeter.word)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("how", ["install", "editable", "path"])
def test_a_tag_is_installed_in_each_way_and_linked(wanted: argparse.Namespace, repository: Path, how: str) -> None:
    wanted.source = [Source("greeter", URL, "v1", build_isolation=False, how=how)]
    record = environment.build(wanted)
    assert said(wanted) == "one"
    assert record["sources"] == {"greeter": git(repository, "rev-parse", "v1^{commit}")}
    assert (wanted.into / "src" / "greeter" / "greeter.py").read_text() == "word = 'one'\n"


def test_a_branch_that_moved_makes_a_new_environment_and_a_tag_does_not(wanted: argparse.Namespace, repository: Path) -> None:
    wanted.source = [Source("greeter", URL, "main", build_isolation=False)]
    environment.build(wanted)
    assert said(wanted) == "two"
    assert environment.build(wanted)["reused"] is True
    commit(repository, "three")
    assert environment.build(wanted)["reused"] is False
    assert said(wanted) == "three"
    assert len(list((wanted.into.parent / "src").iterdir())) == 1, "the checkout of the commit before is gone"


def test_a_short_commit_is_found(wanted: argparse.Namespace, repository: Path) -> None:
    wanted.source = [Source("greeter", URL, git(repository, "rev-parse", "--short=8", "v1^{commit}"), build_isolation=False)]
    environment.build(wanted)
    assert said(wanted) == "one"


def test_a_submodule_comes_from_the_mirror_too(wanted: argparse.Namespace, repository: Path, tmp_path: Path) -> None:
    kernels = tmp_path / "mirror" / "team" / "kernels.git"
    kernels.mkdir()
    git(kernels, "init", "-q")
    commit(kernels, "kernels")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(kernels), "csrc")
    git(repository, "config", "-f", ".gitmodules", "submodule.csrc.url", "https://git.invalid/team/kernels.git")
    commit(repository, "four")
    wanted.source = [Source("greeter", URL, "main", submodules=True, build_isolation=False)]
    environment.build(wanted)
    assert (wanted.into / "src" / "greeter" / "csrc" / "greeter.py").exists()


def test_an_unknown_ref_and_an_unreachable_repository_say_what_to_change(
    wanted: argparse.Namespace, capfd: pytest.CaptureFixture[str]
) -> None:
    variables = git_environment(wanted.mirror)
    with pytest.raises(SystemExit):
        commit_of(Source("greeter", URL, "v9"), variables)
    assert "ref = 'v9': no tag or branch" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        commit_of(Source("other", "https://git.invalid/team/other.git", "v1"), variables)
    assert "name a mirror" in capfd.readouterr().err


def test_a_wheel_that_no_index_has_comes_from_the_named_folder(
    wanted: argparse.Namespace, repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted.source, wanted.wheel = [], ["greeter==1"]
    with pytest.raises(SystemExit):
        environment.build(wanted)
    assert "name it 'wheels' in the cluster file" in capfd.readouterr().err
    wanted.wheels = tmp_path / "wheels"
    wanted.wheels.mkdir()
    build = [environment.find_uv(wanted.tools, wanted.python), "build", "--quiet", "--wheel", "--out-dir", str(wanted.wheels)]
    subprocess.run([*build, "--python", sys.executable, str(repository)], check=True)
    environment.build(wanted)
    assert said(wanted) == "two"


def test_a_source_is_read_from_the_release_files_words() -> None:
    assert parse_source('{"name": "a", "git": "u", "ref": "r", "how": "path"}') == Source("a", "u", "r", how="path")
