"""The golden files: every command of every release x suite that applies, as reviewed by eye.

After a wanted change: ``pytest tests/unit/test_plan.py --update-golden``, then read ``git diff tests/data/golden``.
"""

from __future__ import annotations

import pytest

from include.regression.config import Catalogue, RunSpec, draft
from include.regression.plan import matrix, plan, why_not_applicable
from tests.conftest import DATA

CATALOGUE = Catalogue()
SUITES, RELEASES = CATALOGUE.names("suites"), CATALOGUE.names("releases")
GOLDEN = DATA / "golden"


def drafted(suite: str, release: str) -> RunSpec:
    return draft(CATALOGUE, "run-1", suite, release)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("suite", SUITES)
def test_the_plan_is_the_reviewed_one(
    suite: str, release: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERL_REGRESSION_PYTHON", raising=False)
    spec = drafted(suite, release)
    reason = why_not_applicable(spec)
    text = f"not applicable, because {reason}\n" if reason else plan(spec)
    file = GOLDEN / suite / f"{release}.txt"
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.read_text() == text


def test_no_golden_file_is_left_of_a_cell_that_is_gone() -> None:
    assert {str(file.relative_to(GOLDEN)) for file in GOLDEN.rglob("*.txt")} == {f"{s}/{r}.txt" for s in SUITES for r in RELEASES}


def test_the_matrix_has_every_cell_also_where_a_clusters_address_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    table = matrix(CATALOGUE)
    assert table["qwen3_8b_grpo_fsdp_a2"]["v0.8.0"] is None
    assert "Megatron on Ascend is not supported" in str(table["qwen3_30b_a3b_gspo_megatron_a3"]["v0.5.0"])
    assert "no GSPO loss" in str(table["qwen3_32b_gspo_fsdp_a3_x4"]["v0.5.0"])
    monkeypatch.delenv("VERL_REGRESSION_A3_1")
    assert matrix(CATALOGUE) == table
