"""A suite: what is trained, how it is evaluated, and by what it is judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from include.regression.config.base import Model, Name
from include.regression.config.release import Kind

Positive = Annotated[int, Field(ge=1)]
Override = bool | int | float | str


class ModelSource(Model):
    """The base model. ``heads`` is its number of attention heads, which tensor parallelism must divide.

    ``maker`` names the node script that makes model and data (include/node/NAME.py); without one, ``path`` is a Hugging
    Face folder that lies on the node.
    """

    heads: Positive
    maker: Name | None = None
    path: str | None = None
    seed: int = 0


class Lengths(Model):
    """Token budgets. ``max_model_len`` must be ``input`` + ``output``: a server told anything else refuses requests
    ("maximum context length is 0 tokens"), as the reference procedure warns."""

    input: Positive
    output: Positive
    max_model_len: Positive


class Training(Model):
    """GRPO training.

    ``prompt_tokens`` and ``response_tokens`` are verl's padding lengths; ``micro_batch`` is samples per device (default: all at
    once); files default to what the maker made. ``overrides`` are Hydra overrides of verl; a key that starts with ``+`` adds to its
    config. ``warmup_steps`` are left out of the steady window over which throughput and time per step are taken.
    """

    backend: Literal["fsdp", "megatron"]
    steps: Positive
    prompts_per_step: Positive
    samples_per_prompt: Positive
    learning_rate: Annotated[float, Field(gt=0)]
    prompt_tokens: Positive
    response_tokens: Positive
    micro_batch: Positive | None = None
    train_file: str | None = None
    validation_file: str | None = None
    tensor_parallel: Positive = 1
    warmup_steps: Annotated[int, Field(ge=0)] = 3
    seed: int = 1
    timeout_min: Positive
    overrides: dict[str, Override] = {}


class Serving(Model):
    """The vLLM server. Parallel sizes as for inference during training, unless set."""

    tensor_parallel: Positive | None = None
    data_parallel: Positive = 1
    max_num_seqs: Positive = 24
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    dtype: str = "auto"
    ready_timeout_s: Positive = 1800


class DataSet(Model):
    """One data set of the evaluation.

    ``config`` is the name that ais_bench knows (``--datasets``), ``abbr`` the one in its results, ``file`` the path below
    its data root. ``questions`` is how many it must contain.
    """

    name: Name
    config: Name
    abbr: Name
    file: str
    questions: Positive


class Evaluation(Model):
    """Repeats per data set and the client's settings. ``at_once`` is how many repeats run against the server together,
    ``concurrency`` how many requests each sends together; ``data_root`` is where the data sets lie (default: what the maker
    made). At temperature 0 repeats measure only system noise."""

    datasets: Annotated[tuple[DataSet, ...], Field(min_length=1)]
    repeats: Positive
    base_repeats: Positive
    at_once: Positive = 1
    concurrency: Positive = 48
    temperature: Annotated[float, Field(ge=0)]
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int = 1234
    data_root: str | None = None
    timeout_min: Positive


class Judgement(Model):
    """By what the run is judged. ``confidence`` is that of every interval."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


class Suite(Model):
    """A suite file (include/suites/NAME.yaml). ``version`` is bumped whenever convergence changes.

    ``nightly`` is a cron expression (UTC) for runs of ``release`` by the scheduler; without it the suite runs by hand or backfill.
    """

    name: Name
    version: Positive
    owner: str
    description: str
    stack: Kind
    release: Name
    cluster: Name
    nightly: str | None = None
    model: ModelSource
    lengths: Lengths
    training: Training
    serving: Serving = Serving()
    evaluation: Evaluation
    judgement: Judgement = Judgement()
