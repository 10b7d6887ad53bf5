"""From what a stage left behind to rows in the store and the small result that the next stage gets."""

from __future__ import annotations

import hashlib
from typing import Any

from include.regression.commands import convert, evaluate
from include.regression.config import RunSpec
from include.regression.parsers.ais_bench import InvalidRepeat, parse_repeat
from include.regression.store import queries, writes


def data_ready(spec: RunSpec, found: dict[str, Any]) -> dict[str, Any]:
    """Say where the base model lies, beside what the maker reported."""
    return {**found, "model_dir": spec.base_model}


def converted(spec: RunSpec, found: dict[str, Any], checkpoint_dir: str) -> dict[str, Any]:
    """Say where the converted weights lie, beside what the check found."""
    return {**found, "model_dir": convert.hf_dir(spec, checkpoint_dir)}


def repeat_done(
    spec: RunSpec, found: dict[str, Any], which: str, model_dir: str, dataset: str, number: int, attempt: int
) -> dict[str, Any]:
    """Store one repeat. Raises InvalidRepeat, after recording why, if its score must not count."""
    questions, seed = spec.dataset(dataset).questions, evaluate.seed_of(spec, number)
    try:
        repeat = parse_repeat(found, questions)
    except InvalidRepeat as error:
        writes.save_invalid_repeat(spec.run, which, dataset, number, attempt, seed, questions, str(error))
        raise
    writes.save_repeat(spec.run, which, dataset, number, attempt, seed, repeat)
    return {"dataset": dataset, "number": number, "accuracy": repeat.accuracy, "seconds": repeat.seconds, "model": model_dir}


def plan_repeats(spec: RunSpec, which: str, model_dir: str) -> list[dict[str, Any]]:
    """List the arguments of every (data set x repeat) of ``base`` or ``trained``, data set by data set as in the reference loop."""
    evaluation = spec.suite.evaluation
    repeats = evaluation.base_repeats if which == "base" else evaluation.repeats
    return [
        {"which": which, "model_dir": model_dir, "dataset": dataset.name, "number": number}
        for dataset in evaluation.datasets
        for number in range(1, repeats + 1)
    ]


def base_to_evaluate(spec: RunSpec, data: dict[str, Any]) -> bool:
    """Tell whether the base model must be evaluated in this run, or an earlier run's evaluation serves; records whose it is.

    ``data`` is the result of the data stage, whose hashes say which model and which questions these are.
    """
    data_hash = hashlib.sha256(f"{data.get('model_hash')} {data.get('evaluation_hash')}".encode()).hexdigest()
    fingerprint = evaluate.base_fingerprint(spec, data_hash)
    names = [dataset.name for dataset in spec.suite.evaluation.datasets]
    earlier = queries.evaluated_base(fingerprint, spec.suite.evaluation.base_repeats, names)
    writes.set_base(spec.run, earlier or spec.run, fingerprint)
    return earlier is None or earlier == spec.run
