"""When jobs are due: time zones, changes of the clock, gaps without schedulers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from tests.cases import cases
from webcrawl.errors import WrongJob
from webcrawl.jobs.schedule import MOST_MISSED, Schedule

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Havana",
]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
minutes = st.sampled_from(["0", "30", "7,45", "*/20", "59"])
hours = st.sampled_from(["*", "2", "1,2,3", "*/6", "0"])
days = st.sampled_from(["* * *", "1 * *", "* * MON-FRI", "* * SUN", "29 2 *"])
crons = st.builds("{} {} {}".format, minutes, hours, days)
moments = st.integers(0, 730 * 24 * 60).map(lambda number: BEGIN + timedelta(minutes=number))


@given(crons, st.sampled_from(ZONES), moments, st.integers(0, 40 * 24 * 60), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_firings_do_not_depend_on_when_they_are_looked_up(
    cron: str, zone: str, begin: datetime, length: int, share: int
) -> None:
    """However a time is cut in two, the firings are the same: none is lost, and none comes twice."""
    schedule = Schedule(cron, zone)
    end = begin + timedelta(minutes=length)
    middle = begin + (end - begin) * share / 100
    whole = schedule.between(begin, end)
    assert whole == sorted(set(whole))
    assert all(begin < due <= end for due in whole)
    parts = schedule.between(begin, middle) + schedule.between(middle, end)
    assert parts[-MOST_MISSED:] == whole
    following = schedule.after(begin)
    assert following > begin
    if whole and len(whole) < MOST_MISSED:
        assert following == whole[0]
    elif not whole:
        assert following > end


@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(ZONES), st.integers(2020, 2035))
@settings(max_examples=12, deadline=None)
def test_daily_job_fires_once_a_day_all_the_year(hour: int, minute: int, zone: str, year: int) -> None:
    schedule = Schedule(f"{minute} {hour} * * *", zone)
    found = []
    for month in range(12):
        begin = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        end = datetime(year + (month + 1) // 12, (month + 1) % 12 + 1, 1, tzinfo=UTC)
        found += schedule.between(begin - timedelta(seconds=1), end - timedelta(seconds=1))
    gaps = [after - before for before, after in zip(found, found[1:], strict=False)]
    assert all(timedelta(hours=22) < gap < timedelta(hours=26) for gap in gaps)
    assert len(found) in (365, 366)


@cases(
    ("cron", "day", "firings"),
    [
        # the hour from 2 to 3 does not exist on 29 March, and comes twice on 25 October
        ("30 2 * * *", "2026-03-29", ["01:00"]),
        ("30 2 * * *", "2026-10-25", ["00:30"]),
        ("0 2-3 * * *", "2026-03-29", ["01:00"]),
        ("*/30 2 * * *", "2026-10-25", ["00:00", "00:30", "01:00", "01:30"]),
    ],
)
def test_changes_of_the_clock(cron: str, day: str, firings: list[str]) -> None:
    begin = datetime.fromisoformat(f"{day}T00:00+00:00") - timedelta(seconds=1)
    found = Schedule(cron, "Europe/Berlin").between(begin, begin + timedelta(hours=12))
    assert [f"{due:%H:%M}" for due in found] == firings


def test_a_job_applied_within_an_hour_that_comes_twice_fires_the_next_day() -> None:
    schedule = Schedule("30 2 * * *", "Europe/Berlin")
    in_the_second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert schedule.after(in_the_second) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_a_long_gap_has_its_latest_firings() -> None:
    found = Schedule("* * * * *").between(BEGIN - timedelta(days=3650), BEGIN)
    assert found == [BEGIN - timedelta(minutes=ago) for ago in reversed(range(MOST_MISSED))]


def test_a_clock_that_goes_back_brings_no_firing() -> None:
    assert Schedule("* * * * *").between(BEGIN, BEGIN - timedelta(days=1)) == []


@cases(
    ("cron", "zone", "message"),
    [
        ("61 * * * *", "UTC", "cron: '61 .* bad minute"),
        ("* * * *", "UTC", "cron: .*must have five fields"),
        ("0 0 0 * * *", "UTC", "cron: .*must have five fields"),
        ("@daily", "UTC", "cron: .*must have five fields"),
        ("0 0 30 2 *", "UTC", "cron: .*bad day-of-month"),
        ("0 0 * * *", "Mars/Olympus", "timezone: there is no 'Mars/Olympus'"),
        ("0 0 * * *", "../etc/passwd", "timezone: there is no"),
    ],
)
def test_a_wrong_schedule_is_refused(cron: str, zone: str, message: str) -> None:
    with pytest.raises(WrongJob, match=message):
        Schedule(cron, zone)
