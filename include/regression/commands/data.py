"""Making the base model and the data sets."""

from __future__ import annotations

import shlex

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import RunSpec

MAKE_TIMEOUT_S = 1800


def prepare(spec: RunSpec) -> Command:
    """Run the suite's maker in the training environment (result: that script's; include/node/tiny_task.py).

    A suite that brings its model by path makes no model: that the folder holds one is checked, and the training data are made with
    verl's own script, where the suite names one.
    """
    variables, maker = job_environment(spec, "data"), spec.suite.model.maker
    if maker is None:
        config = shlex.quote(f"{spec.base_model}/config.json")
        problem = (
            f"model.path = {spec.base_model!r}: holds no config.json on this node. Fix: put the model there, or correct the suite."
        )
        test = f"test -f {config} || {{ echo {shlex.quote(problem)} >&2; exit 1; }}"
        return Command("\n".join([test, *_preprocess(spec), 'echo "{}" > "$RESULT_FILE"']), variables, MAKE_TIMEOUT_S)
    arguments = ["--into", spec.data_dir, "--seed", str(spec.suite.model.seed)]
    return Command(node_script(spec, maker, *arguments, python=spec.python("train")), variables, MAKE_TIMEOUT_S)


def _preprocess(spec: RunSpec) -> list[str]:
    """Call verl's preprocessing script. Before v0.6.0 these take no local raw data set: they load it from the hub or its cache."""
    preprocess = spec.suite.training.preprocess
    if preprocess is None:
        return []
    making = f"{spec.data_dir}.making"
    call = [spec.python("train"), f"{spec.source_dir('verl')}/{preprocess.script}", f"--local_dir={making}"]
    if spec.release.launcher.preprocess_local:
        call.append(f"--local_dataset_path={preprocess.dataset}")
    # Made once, by whichever release comes first: all releases train on the same rows.
    target = shlex.quote(spec.data_dir)
    make = [
        f"rm -rf {shlex.quote(making)} && mkdir -p {shlex.quote(making)}",
        shlex.join(call),
        f"mv {shlex.quote(making)} {target}",
    ]
    return [*spec.cluster.setup, f"if ! test -d {target}; then", *make, "fi"]
