"""The plan of a run: every command that it would run, rendered, without touching a node."""

from __future__ import annotations

import shlex
from itertools import pairwise

from include.regression.commands import convert, data, environments, evaluate, ray, serve, train
from include.regression.commands.shell import Command
from include.regression.config import Catalogue, ConfigError, NotApplicable, RunSpec, check, draft


def why_not_applicable(spec: RunSpec) -> str | None:
    """Say why this suite cannot run on this release; None if it can. Raises ConfigError for a fault of the input itself."""
    try:
        check(spec)
        train.overrides(spec, attempt=1)
    except NotApplicable as reason:
        return str(reason)
    return None


def plan(spec: RunSpec) -> str:
    """Render every stage of a run that is applicable, in order, as text.

    What training leaves behind stands as its first attempt's; of the Ray workers, which are alike, the first stands for all.
    """
    job = train.job(spec, attempt=1)
    trained = convert.hf_dir(spec, job.checkpoint_dir)
    first = spec.suite.evaluation.datasets[0].name
    unconverted = convert.why_no_weight_conversion(spec)
    commands: list[tuple[str, Command | str]] = [
        ("environment: train", environments.build(spec, "train")),
        ("environment: eval", environments.build(spec, "eval")),
        ("data", data.prepare(spec)),
        ("weights", f"# {unconverted}" if unconverted else convert.weights(spec)),
        *((f"ray: {node.name}", ray.start(spec, node)) for node in spec.cluster.nodes[:2]),
        ("ray: proof", ray.prove(spec)),
        ("training", Command(job.entrypoint, job.runtime_env["env_vars"])),
        ("conversion", convert.merge(spec, job.checkpoint_dir)),
        ("server", serve.start(spec, "trained", trained)),
        (f"evaluation: {first}, repeat 1", evaluate.repeat(spec, "trained", trained, first, 1, 1)),
    ]
    rendered = [command for _, command in commands if isinstance(command, Command)]
    common = {
        name: value for name, value in rendered[0].environment.items() if all(c.environment.get(name) == value for c in rendered)
    }
    names = ", ".join(f"{dataset.name} x {spec.suite.evaluation.repeats}" for dataset in spec.suite.evaluation.datasets)
    head = f"verl {spec.release.name} x {spec.suite.name} v{spec.suite.version} on {spec.cluster.name}; evaluation: {names}"
    sections = ["\n".join(["## every command", *_exports(common)])]
    for title, command in commands:
        sections.append(f"## {title}\n{command if isinstance(command, str) else _script(command, common)}")
    return "\n\n".join([head, *sections]) + "\n"


def matrix(catalogue: Catalogue) -> dict[str, dict[str, str | None]]:
    """Map suite -> release -> why it is not applicable (None: it is), which may be that the release's file cannot be read."""
    found, faults = catalogue.releases()
    broken: dict[str, str | None] = {release: str(fault) for release, fault in faults.items()}
    return {
        suite: {release: _reason(catalogue, suite, release) for release in found} | broken for suite in catalogue.names("suites")
    }


def _reason(catalogue: Catalogue, suite: str, release: str) -> str | None:
    try:
        return why_not_applicable(draft(catalogue, "RUN", suite, release))
    except ConfigError:
        # A cluster whose address is not set on this machine: what release and suite alone decide can be told all the same.
        return catalogue.suite(suite).why_not(catalogue.release(release))


def _script(command: Command, common: dict[str, str]) -> str:
    own = {name: value for name, value in command.environment.items() if name not in common}
    lines = [_one_per_line(line) if line.count(" --") > 1 or len(line) > 300 else line for line in command.script.splitlines()]
    return "\n".join([*_exports(own), *lines])


def _exports(environment: dict[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]


def _one_per_line(line: str) -> str:
    """Break a long command before each option or override, so that two plans can be compared line by line."""
    words = shlex.split(line)
    broken = shlex.quote(words[0])
    for before, word in pairwise(words):
        quoted = word if word == "&&" else shlex.quote(word)
        option = word.startswith(("-", "+")) or ("=" in word and not before.startswith("--"))
        broken += f" \\\n  {quoted}" if option else f" {quoted}"
    return broken
