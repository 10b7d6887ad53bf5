"""Making the base model and the data sets."""

from __future__ import annotations

import shlex

from include.regression.commands.shell import Command, job_environment, node_script
from include.regression.config import RunSpec

MAKE_TIMEOUT_S = 1800


def prepare(spec: RunSpec) -> Command:
    """Run the suite's maker in the training environment (result: that script's; include/node/tiny_task.py).

    A suite that brings its model by path has nothing to make: only that the folder holds a model is checked.
    """
    variables, maker = job_environment(spec, "data"), spec.suite.model.maker
    if maker is None:
        config = shlex.quote(f"{spec.base_model}/config.json")
        problem = (
            f"model.path = {spec.base_model!r}: holds no config.json on this node. Fix: put the model there, or correct the suite."
        )
        script = f'test -f {config} || {{ echo {shlex.quote(problem)} >&2; exit 1; }}\necho "{{}}" > "$RESULT_FILE"'
        return Command(script, variables, timeout_s=60)
    arguments = ["--into", spec.data_dir, "--seed", str(spec.suite.model.seed)]
    return Command(node_script(spec, maker, *arguments, python=spec.python("train")), variables, MAKE_TIMEOUT_S)
