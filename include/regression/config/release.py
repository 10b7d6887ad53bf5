"""A verl release and the stacks of software that it is qualified with."""

from __future__ import annotations

from datetime import date
from typing import Literal

from include.regression.config.base import Model, Name

Kind = Literal["cpu", "cuda", "npu"]


class Stack(Model):
    """The software of one release on one kind of device.

    ``train_lock`` and ``eval_lock`` are file names in include/releases/locks, each the full pin list of one node
    environment (format: ``uv pip compile``). ``plugins`` are folders of include/node installed on top of the train
    environment. ``smoke`` are modules whose import proves that an environment works.
    """

    python: str
    train_lock: str
    eval_lock: str
    plugins: tuple[str, ...] = ()
    train_smoke: tuple[str, ...] = ("verl", "vllm", "ray")
    eval_smoke: tuple[str, ...] = ("ais_bench",)


class Release(Model):
    """One release of verl. ``source`` says where its facts were read."""

    name: Name
    released: date | None
    source: str
    stacks: dict[Kind, Stack]
