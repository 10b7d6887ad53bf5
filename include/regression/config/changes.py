"""What one run changes of its suite: the trigger form's fields."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from include.regression.config.base import Model, Name
from include.regression.config.errors import ConfigError, unknown
from include.regression.config.suite import Positive, Suite


class Changes(Model):
    """Deviations of one run from its suite, recorded with it.

    ``steps``, ``datasets`` and ``repeats`` shorten it; empty means the suite's own. ``baseline`` is a release whose newest judged
    run the result is printed beside. ``keep_checkpoint`` keeps the trained checkpoint on the node also after a run that passed.
    ``dry_run`` renders everything and touches no node.
    """

    steps: Positive | None = None
    datasets: tuple[Name, ...] = ()
    repeats: Positive | None = None
    baseline: Name | None = None
    keep_checkpoint: bool = False
    dry_run: bool = False

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> Changes:
        """Take the fields from a DAG run's parameters. Raises ConfigError for a value of the wrong kind."""
        given = {name: parameters[name] for name in cls.model_fields if parameters.get(name) is not None}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigError(str(first["loc"][0]), first["input"], first["msg"], "correct it in the form") from error

    def applied_to(self, suite: Suite) -> Suite:
        """Return the suite as this run does it. Raises ConfigError for a data set that the suite does not have."""
        evaluation, training = suite.evaluation, suite.training
        known = {dataset.name: dataset for dataset in evaluation.datasets}
        for name in self.datasets:
            if name not in known:
                raise unknown("datasets", name, known)
        chosen = tuple(dataset for dataset in evaluation.datasets if not self.datasets or dataset.name in self.datasets)
        repeats = self.repeats or evaluation.repeats
        return suite.model_copy(
            update={
                "training": training.model_copy(update={"steps": self.steps or training.steps}),
                "evaluation": evaluation.model_copy(
                    update={"datasets": chosen, "repeats": repeats, "base_repeats": min(repeats, evaluation.base_repeats)}
                ),
            }
        )
