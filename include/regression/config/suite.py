"""A suite: what is trained, how it is evaluated, and by what it is judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from include.regression.config.base import Model, Name, NodePath
from include.regression.config.release import Algorithm, Backend, Kind, Override, Release

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]


class ModelSource(Model):
    """The base model. ``heads`` is its number of attention heads, which tensor parallelism must divide; ``billions`` of parameters
    say how much disk a checkpoint takes.

    ``maker`` names the node script that makes model and data (include/node/NAME.py); without one, ``path`` is a Hugging
    Face folder that lies on the node.
    """

    heads: Positive
    billions: Annotated[float, Field(gt=0)]
    maker: Name | None = None
    path: str | None = None
    seed: int = 0


class Lengths(Model):
    """Token budgets. ``max_model_len`` must be ``input`` + ``output``: a server told anything else refuses requests
    ("maximum context length is 0 tokens"), as the reference procedure warns."""

    input: Positive
    output: Positive
    max_model_len: Positive


class Preprocess(Model):
    """How the training data are made: a script of verl's repository (below its source folder) and the raw data set on the node."""

    script: str
    dataset: NodePath


class Megatron(Model):
    """Parallel sizes of the Megatron backend.

    ``weights`` is ``hf`` where mbridge reads and writes Hugging Face weights, ``mcore`` where they are converted before and
    merged after.
    """

    tensor: Positive = 1
    pipeline: Positive = 1
    context: Positive = 1
    expert: Positive = 1
    expert_tensor: Positive = 1
    weights: Literal["hf", "mcore"] = "hf"

    @property
    def ranks(self) -> int:
        """Devices of one model replica."""
        return self.tensor * self.pipeline * self.context


class Training(Model):
    """GRPO or GSPO training.

    ``prompt_tokens`` and ``response_tokens`` are verl's padding lengths; ``mini_batch`` is prompts per update (default: all of a
    step), ``micro_batch`` samples per device (default: all at once); ``offload`` moves parameters and optimizer to the host
    between phases; ``sequence_parallel`` is Ulysses' size (FSDP). The rollout: ``tensor_parallel``, ``max_num_seqs``,
    ``gpu_memory_utilization``, ``enforce_eager``. Files default to what the maker or ``preprocess`` made. ``overrides`` are Hydra
    overrides in the newest release's names; a key that starts with ``+`` adds to verl's config. ``warmup_steps`` are left out of
    the steady window over which throughput and time per step are taken.
    """

    backend: Backend
    algorithm: Algorithm = "grpo"
    steps: Positive
    prompts_per_step: Positive
    samples_per_prompt: Positive
    learning_rate: Annotated[float, Field(gt=0)]
    kl_loss_coef: Annotated[float, Field(gt=0)] | None = None
    prompt_tokens: Positive
    response_tokens: Positive
    mini_batch: Positive | None = None
    micro_batch: Positive | None = None
    offload: bool = False
    remove_padding: bool = True
    sequence_parallel: Positive = 1
    megatron: Megatron | None = None
    preprocess: Preprocess | None = None
    train_file: str | None = None
    validation_file: str | None = None
    tensor_parallel: Positive = 1
    max_num_seqs: Positive = 256
    gpu_memory_utilization: Share = 0.6
    enforce_eager: bool = True
    warmup_steps: Annotated[int, Field(ge=0)] = 3
    seed: int = 1
    timeout_min: Positive
    overrides: dict[str, Override] = {}


class Serving(Model):
    """The vLLM server. Parallel sizes as for inference during training, unless set."""

    tensor_parallel: Positive | None = None
    data_parallel: Positive = 1
    max_num_seqs: Positive = 24
    gpu_memory_utilization: Share = 0.9
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
    top_p: Share = 1.0
    seed: int = 1234
    data_root: str | None = None
    timeout_min: Positive


class Judgement(Model):
    """By what the run is judged. ``confidence`` is that of every interval."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


class Budget(Model):
    """What one run may cost: ``minutes`` from start to verdict, and ``device_hours``, which is that time on all its devices."""

    minutes: Positive
    device_hours: Annotated[float, Field(gt=0)]


class Suite(Model):
    """A suite file (include/suites/NAME.yaml). ``version`` is bumped whenever convergence changes.

    ``release`` is a release's name, or ``newest`` for the newest dated one that the suite applies to.
    ``nightly`` is a cron expression (UTC) for runs of ``release`` by the scheduler; without it the suite runs by hand or backfill.
    """

    name: Name
    version: Positive
    owner: str
    description: str
    budget: Budget
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

    def why_not(self, release: Release) -> str | None:
        """Say why this suite does not apply to a release; None if it does."""
        return release.why_not(self.stack, self.training.backend, self.training.algorithm)
