"""One DAG, three ways in: a nightly run, a manual run, and a backfill that makes one run per verl release."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import pendulum
from airflow.exceptions import InvalidPartitionKeyError
from airflow.timetables.base import DagRunInfo, TimeRestriction, Timetable
from airflow.timetables.trigger import CronPartitionTimetable

NIGHTLY_PREFIX = "nightly-"


class ReleaseTimetable(CronPartitionTimetable):
    """Partitions of a suite's DAG: verl releases by their date, and nights.

    ``releases`` maps a release's name to its date (YYYY-MM-DD): a backfill over a range of dates makes one run per release in it,
    oldest first, with the name as partition key. ``nightly`` is a cron expression (UTC) for runs by the scheduler, or None for
    none; their key is "nightly-YYYY-MM-DD". An unknown partition key is refused with the known ones.

    Airflow keeps these arguments in the serialized DAG, so a new release is a new DAG version.
    """

    def __init__(self, nightly: str | None, releases: dict[str, str]) -> None:
        # Without a nightly run the expression is never asked for a time; it must be valid all the same.
        super().__init__(nightly or "0 0 1 1 *", timezone="UTC", key_format=f"{NIGHTLY_PREFIX}%Y-%m-%d")
        self.nightly = nightly
        self.releases = dict(sorted(releases.items(), key=lambda entry: (entry[1], entry[0])))
        self.description = f"{f'nightly at {nightly} UTC; ' if nightly else ''}backfill over {', '.join(self.releases)}"

    @property
    def summary(self) -> str:
        return self.nightly or "by hand or backfill"

    def serialize(self) -> dict[str, Any]:
        return {"nightly": self.nightly, "releases": self.releases}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        return cls(data["nightly"], data["releases"])

    def next_dagrun_info_v2(self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction) -> DagRunInfo | None:
        """Tell the scheduler about the next night; a backfill does not come through here."""
        if self.nightly is None:
            return None
        return super().next_dagrun_info_v2(last_dagrun_info=last_dagrun_info, restriction=restriction)

    def iter_partition_dagrun_infos(self, *, earliest: datetime.datetime, latest: datetime.datetime) -> Iterable[DagRunInfo]:
        """List a backfill's runs: the releases dated within the range, both ends included."""
        for name in self.releases:
            when = self._date_of(name)
            if earliest <= when <= latest:
                yield DagRunInfo(run_after=when, data_interval=None, partition_date=when, partition_key=name)

    def _decode_partition_date(self, partition_key: str) -> datetime.datetime:
        if partition_key in self.releases:
            return self._date_of(partition_key)
        if partition_key.startswith(NIGHTLY_PREFIX):
            return super()._decode_partition_date(partition_key)
        known = ", ".join(self.releases)
        raise InvalidPartitionKeyError(f"partition key = {partition_key!r}: unknown verl release. Fix: choose one of: {known}.")

    def _date_of(self, release: str) -> pendulum.DateTime:
        date = datetime.date.fromisoformat(self.releases[release])
        return pendulum.datetime(date.year, date.month, date.day, tz="UTC")
