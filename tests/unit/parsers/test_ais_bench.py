"""Only a complete repeat is a score. The folders are outputs of the real ais_bench; all of its runs ended with 0."""

from __future__ import annotations

from typing import Any

import pytest

from include.node.evaluate import gather
from include.regression.parsers.ais_bench import InvalidRepeat, parse_repeat
from tests.conftest import DATA

ABBR = "vllm-api-stream-chat"


def gathered(case: str) -> dict[str, Any]:
    found = gather(DATA / "ais_bench_real" / case, ABBR, "aime2024")
    for item in found["items"]:
        item |= {"prompt_tokens": 30, "output_tokens": 5}
    return {**found, "exit_status": 0, "server_alive_after": True, "seconds": 1.0, "log_tail": ""}


def test_a_clean_run_gives_ais_benchs_own_number_and_every_answer() -> None:
    repeat = parse_repeat(gathered("ok"), 8)
    assert repeat.accuracy == 12.5
    assert len(repeat.items) == 8
    assert repeat.correct == 1
    assert repeat.items[0].reference == "5"
    assert repeat.items[0].prompt.startswith("What is 2 + 3?")


def test_refused_requests_are_no_score_though_ais_bench_gives_one() -> None:
    found = gathered("partial")
    assert found["accuracy"] == 0.0, "this is the lie"
    with pytest.raises(InvalidRepeat, match="2 of 8 requests failed"):
        parse_repeat(found, 8)


def test_a_server_killed_half_way_is_no_score() -> None:
    with pytest.raises(InvalidRepeat, match=r"\d predictions and 0 results for 8 questions"):
        parse_repeat(gathered("srvkill"), 8)


def test_a_dash_is_not_zero() -> None:
    with pytest.raises(InvalidRepeat, match="wrote no accuracy"):
        parse_repeat(gathered("down"), 8)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"exit_status": 143}, "ended with 143"),
        ({"server_alive_after": False}, "the server was gone"),
        ({"unsuccessful": 1}, "not marked as successful"),
        ({"accuracy": 50.0}, "its own per-question results say 12.50"),
    ],
)
def test_each_doubt_is_named(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRepeat, match=reason):
        parse_repeat(gathered("ok") | change, 8)


def test_a_data_set_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidRepeat, match="8 predictions and 8 results for 30 questions"):
        parse_repeat(gathered("ok"), 30)


def test_a_real_zero_counts() -> None:
    found = gathered("ok")
    found["accuracy"] = 0.0
    for item in found["items"]:
        item["correct"] = False
    assert parse_repeat(found, 8).accuracy == 0.0
