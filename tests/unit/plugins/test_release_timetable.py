"""The timetable as Airflow uses it: through serialization, for the scheduler, for a backfill, for a partition key by hand."""

from __future__ import annotations

import pendulum
import pytest
from airflow.exceptions import InvalidPartitionKeyError
from airflow.timetables.base import TimeRestriction

from verl_regression.tasks import release_of
from verl_regression.timetables.releases import ReleaseTimetable

RELEASES = {"v0.9.1": "2026-09-20", "v0.8.0": "2026-06-01", "v0.9.0": "2026-08-14"}


def again(timetable: ReleaseTimetable) -> ReleaseTimetable:
    """As the scheduler has it: from the serialized DAG."""
    found = ReleaseTimetable.deserialize(timetable.serialize())
    assert isinstance(found, ReleaseTimetable)
    return found


def day(text: str) -> pendulum.DateTime:
    found = pendulum.parse(text)
    assert isinstance(found, pendulum.DateTime)
    return found


def test_a_backfill_makes_one_run_per_release_oldest_first() -> None:
    timetable = again(ReleaseTimetable(None, RELEASES))
    infos = list(timetable.iter_partition_dagrun_infos(earliest=day("2026-06-01"), latest=day("2026-12-01")))
    assert [info.partition_key for info in infos] == ["v0.8.0", "v0.9.0", "v0.9.1"]
    assert infos[1].partition_date == day("2026-08-14")
    some = timetable.iter_partition_dagrun_infos(earliest=day("2026-06-02"), latest=day("2026-09-20"))
    assert [info.partition_key for info in some] == ["v0.9.0", "v0.9.1"]


def test_without_a_nightly_run_the_scheduler_makes_none() -> None:
    restriction = TimeRestriction(earliest=day("2026-01-01"), latest=None, catchup=False)
    assert again(ReleaseTimetable(None, RELEASES)).next_dagrun_info_v2(last_dagrun_info=None, restriction=restriction) is None


def test_a_night_is_a_partition_of_its_own() -> None:
    restriction = TimeRestriction(earliest=day("2026-01-01"), latest=None, catchup=False)
    info = again(ReleaseTimetable("30 18 * * *", RELEASES)).next_dagrun_info_v2(last_dagrun_info=None, restriction=restriction)
    assert info is not None
    assert str(info.partition_key).startswith("nightly-20")
    assert (info.run_after.hour, info.run_after.minute) == (18, 30)


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidPartitionKeyError, match=r"'v9\.9': unknown verl release\. Fix: choose one of: v0\.8\.0, v0\.9\.0"):
        ReleaseTimetable(None, RELEASES)._decode_partition_date("v9.9")
    assert ReleaseTimetable(None, RELEASES)._decode_partition_date("v0.9.0") == day("2026-08-14")


def test_the_partition_key_decides_the_release() -> None:
    assert release_of("v0.9.0") == "v0.9.0"
    assert release_of("nightly-2026-12-01") is None
    assert release_of(None) is None
