"""The tiny task's data: disjoint uses, AISBench's own formats, one seed."""

from __future__ import annotations

import json
from pathlib import Path

from include.node import tiny_task
from include.regression.config import RunSpec


def sums(questions: list[tiny_task.Question]) -> set[str]:
    return {
        "+".join(part.strip("?. ") for part in q.text.removeprefix("What is ").removeprefix("Calculate ").split("+"))
        for q in questions
    }


def test_no_sum_serves_two_purposes() -> None:
    made = tiny_task.make_questions(0)
    parts = [sums(part) for part in (*made.evaluation, made.validation, made.training)]
    assert all(parts[i].isdisjoint(parts[j]) for i in range(4) for j in range(i))
    assert len(set.union(*parts)) == 900


def test_the_seed_decides() -> None:
    assert tiny_task.make_questions(3) == tiny_task.make_questions(3)
    assert tiny_task.make_questions(3) != tiny_task.make_questions(4)


def test_the_evaluation_sets_have_aisbenchs_formats_and_the_suites_sizes(tmp_path: Path, spec: RunSpec) -> None:
    tiny_task.write_evaluation_sets(tiny_task.make_questions(0), tmp_path)
    aime, math = spec.suite.evaluation.datasets
    lines = [json.loads(line) for line in (tmp_path / aime.file).read_text().splitlines()]
    assert len(lines) == aime.questions
    assert set(lines[0]) == {"origin_prompt", "gold_answer"}
    problems = json.loads((tmp_path / math.file).read_text())
    assert len(problems) == math.questions
    assert set(problems["0"]) == {"problem", "solution"}
    assert "\\boxed{" in problems["0"]["solution"]


def test_answers_are_right() -> None:
    for question in tiny_task.make_questions(0).training:
        a, b = question.text.strip("?.").removeprefix("What is ").removeprefix("Calculate ").split(" + ")
        assert int(a) + int(b) == int(question.answer)
