"""Releases side by side, from a real store."""

from __future__ import annotations

import pytest

from include.regression.config import Catalogue, ConfigError, RunSpec, resolve
from include.regression.judge.verdict import Judged
from include.regression.report.comparison import compare, package_differences
from include.regression.report.tables import as_text, comparison
from include.regression.store import writes

pytestmark = pytest.mark.usefixtures("store")


def judged_run(release: str, number: int, seconds: float, verl: str) -> RunSpec:
    spec = resolve(Catalogue(), f"run-{release}-{number}", "tiny_grpo_cpu", release)
    writes.start_run(spec, "dag", spec.run)
    writes.record_environment(spec.run, {"train": {"stamp": release, "packages": {"verl": verl, "torch": "2.13.0"}}})
    entry = Judged("time_per_step", None, f"{seconds:.2f} s", {"mean": seconds})
    writes.save_verdicts(spec.run, [Judged("reward", "passed", "rose"), entry])
    writes.set_verdict(spec.run, "passed")
    writes.finish_run(spec.run, "passed", None)
    return spec


def test_the_newest_judged_run_of_each_release_counts() -> None:
    judged_run("v0.9.0", 1, 9.0, "0.9.0")
    newer = judged_run("v0.9.0", 2, 5.7, "0.9.0")
    judged_run("v0.9.1", 1, 2.6, "0.9.1")
    entries = compare("tiny_grpo_cpu")
    assert [(entry.release, entry.numbers["time_per_step"]["mean"]) for entry in entries] == [("v0.9.0", 5.7), ("v0.9.1", 2.6)]
    assert entries[0].run == newer.run
    assert package_differences(entries) == {"verl": ["0.9.0", "0.9.1"]}
    said = as_text(comparison(entries))
    assert "5.70 s" in said
    assert "2.60 s" in said


def test_the_order_is_the_users() -> None:
    judged_run("v0.9.0", 1, 5.7, "0.9.0")
    judged_run("v0.9.1", 1, 2.6, "0.9.1")
    assert [entry.release for entry in compare("tiny_grpo_cpu", ["v0.9.1", "v0.9.0"])] == ["v0.9.1", "v0.9.0"]


def test_a_release_without_a_judged_run_is_refused_by_name() -> None:
    judged_run("v0.9.1", 1, 2.6, "0.9.1")
    with pytest.raises(ConfigError, match=r"release = 'v0\.9\.0': unknown\. Fix: did you mean 'v0\.9\.1'"):
        compare("tiny_grpo_cpu", ["v0.9.0"])
