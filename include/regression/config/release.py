"""A verl release: where it comes from, the stacks of software it is qualified with, and how its trainer is called."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from include.regression.config.base import Model, Name

Kind = Literal["cpu", "cuda", "npu"]
Backend = Literal["fsdp", "megatron"]
Algorithm = Literal["grpo", "gspo"]
#: A Hydra value.
Override = bool | int | float | str
PythonVersion = Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]


class Component(Model):
    """One part of a stack. ``value`` is None where no source states it; it is never guessed. ``source`` is FILE@REF."""

    value: str | None
    source: str | None = None


class Conflict(Model):
    """Sources that contradict each other: what they say, what was taken, and why."""

    said: str
    taken: str


class Source(Model):
    """A package that is installed from a git repository, after the lock and in the order in which sources are listed.

    ``ref`` is a tag, a branch or a commit; a branch is resolved to a commit when the environment is built, and that commit is
    part of what the environment is. ``env`` is set for its build. ``how`` is ``install`` (a wheel is built, without dependencies:
    the lock holds them), ``editable`` (the same, in place) or ``path`` (only put on the import path).
    """

    name: Name
    git: str
    ref: str
    submodules: bool = False
    build_isolation: bool = True
    env: dict[str, str] = {}
    how: Literal["install", "editable", "path"] = "install"


class Stack(Model):
    """The software of one release on one kind of device.

    ``components`` is the matrix as its sources state it. ``train_lock`` and ``eval_lock`` are file names in
    include/releases/locks, each the full pin list of one node environment (format: ``uv pip compile``); training and serving
    share the first. ``wheels`` are requirements that no package index has: they come from the cluster's wheel folder. ``sources``
    are installed on top, then ``plugins``, folders of include/node. ``smoke`` are modules whose import proves that an environment
    works. ``backends`` lists the training backends; for one that is not there, why.
    """

    python: PythonVersion
    eval_python: PythonVersion = "3.11"
    components: dict[str, Component] = {}
    conflicts: tuple[Conflict, ...] = ()
    train_lock: str
    eval_lock: str
    wheels: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    plugins: tuple[str, ...] = ()
    train_smoke: tuple[str, ...] = ("verl", "vllm", "ray")
    eval_smoke: tuple[str, ...] = ("ais_bench",)
    backends: dict[Backend, str | None] = {"fsdp": None}


class Launcher(Model):
    """How this release's trainer and tools are called, where releases differ.

    The suite and the commands speak of the newest key names. ``renamed`` maps such a key, or the beginning of one, to this
    release's. ``absent`` maps a key that this release does not have to the value it behaves as; None means that leaving it out
    changes nothing. A suite that asks for another value cannot run on this release. ``settings`` are this release's own keys, set
    explicitly. ``select`` are arguments that choose the backend.
    """

    entry_module: str = "verl.trainer.main_ppo"
    select: dict[Backend, tuple[str, ...]] = {"fsdp": ()}
    algorithms: tuple[Algorithm, ...] = ("grpo", "gspo")
    renamed: dict[str, str] = {}
    absent: dict[str, Override | None] = {}
    settings: dict[str, Override] = {}
    rollout_mode: Literal["sync", "async"]
    file_logger: bool
    #: Arguments of the interpreter that call the checkpoint merger; ``{verl}`` is the folder of verl's source.
    merger: tuple[str, ...] = ("-m", "verl.model_merger", "merge")
    #: Where Megatron leaves Hugging Face weights, below the checkpoint folder.
    megatron_weights: str = "actor/huggingface"
    #: Whether the preprocessing scripts take --local_dataset_path; before, they load from the hub (HF_ENDPOINT) or its cache.
    preprocess_local: bool = False


class Release(Model):
    """One release of verl. ``source`` says where its facts were read; ``commit`` is the tag's, or the branch's when they were read.

    ``released`` is None for a branch, which a backfill leaves out. ``unsupported`` says for a kind of device without a stack why
    there is none: a suite of that kind is not applicable to this release, for that reason.
    """

    name: Name
    released: date | None
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = None
    source: str
    launcher: Launcher
    stacks: dict[Kind, Stack] = Field(default={})
    unsupported: dict[Kind, str] = {}

    def why_not(self, kind: Kind, backend: Backend, algorithm: Algorithm) -> str | None:
        """Say why suites of this kind, backend and algorithm do not apply to this release; None if they do."""
        stack = self.stacks.get(kind)
        if stack is None:
            return self.unsupported.get(kind, f"no source states a {kind} stack for verl {self.name}")
        if backend not in stack.backends:
            return f"no source states the {backend} backend for verl {self.name} on {kind}"
        if stack.backends[backend] is None and algorithm not in self.launcher.algorithms:
            return f"verl {self.name} has no {algorithm.upper()} loss (it has: {', '.join(self.launcher.algorithms)})"
        return stack.backends[backend]
