from __future__ import annotations

import math

import pytest

from include.regression.parsers.verl_metrics import as_number, parse_lines


def test_complete_lines_are_taken_and_a_torn_one_is_left() -> None:
    first = '{"step":1,"data":{"critic/rewards/mean":0.5,"perf/time_per_step":2}}\n'
    steps, consumed = parse_lines(first + '{"step":2,"data":{"critic/rew')
    assert [(step.step, step.values) for step in steps] == [(1, {"critic/rewards/mean": 0.5, "perf/time_per_step": 2.0})]
    assert consumed == len(first)


def test_null_is_what_verl_writes_for_nan() -> None:
    steps, _ = parse_lines('{"step":3,"data":{"actor/grad_norm":null,"flag":true,"name":"x"}}\n')
    assert steps[0].values == {"actor/grad_norm": None, "flag": 1.0, "name": None}


def test_offsets_count_bytes() -> None:
    line = '{"step":1,"data":{"ä":1}}\n'
    assert parse_lines(line)[1] == len(line.encode())


@pytest.mark.parametrize("line", ["step:1 - reward:0.5", '{"step":1}', '{"step":"x","data":{}}', "[1]"])
def test_something_else_in_the_file_is_an_error_that_shows_it(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of verl's file logger") as caught:
        parse_lines(line + "\n")
    assert line[:20] in str(caught.value) or repr(line)[1:20] in str(caught.value)


def test_infinities_stay_numbers() -> None:
    assert as_number(float("inf")) == math.inf
    assert math.isnan(as_number(float("nan")) or 0.0)


def test_numpy_scalars_become_floats() -> None:
    numpy = pytest.importorskip("numpy")
    assert as_number(numpy.float32(0.5)) == 0.5
    assert type(as_number(numpy.int64(3))) is float
