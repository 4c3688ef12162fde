"""The clock of a host whose pages change in working hours."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.change_clock import WEEK_HOURS, ChangeClock, WeekProfile, week_of
from webcrawl.policies.change_rates import ChangeRate, PageVisit

DAY = 86_400.0
MONDAY = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
RATE = ChangeRate(50.0, 50.0)
ORDINARY = WeekProfile().clock()
times = st.floats(0, 4e9)
profiles = st.lists(st.floats(0, 500), min_size=31, max_size=31).map(tuple)


def in_working_hours(time: float) -> bool:
    date = datetime.fromtimestamp(time, UTC)
    return 9 <= date.hour < 17 and date.weekday() < 5


@pytest.fixture(scope="module")
def learned() -> WeekProfile:
    """The profile after 4,000 visits of pages that change 4.2 times a day from 9 to 17 h, Monday to Friday."""
    source, profile, time = random.Random(6), WeekProfile(), MONDAY
    clock = profile.clock()
    for number in range(4000):
        gap = source.uniform(0.5, 12) / 24 * DAY
        quarters = sum(in_working_hours(time + second) for second in range(0, int(gap), 900))
        changed = source.random() > math.exp(-4.2 * quarters / 96)
        visit = PageVisit(clock.days(time, time + gap), changed)
        profile = profile.merged(week_of(visit, time, RATE, clock))
        time += gap
        if number % 200 == 199:
            clock = profile.clock()
    return profile


def test_the_clock_runs_faster_in_working_hours(learned: WeekProfile) -> None:
    clock = learned.clock()
    tuesday = [clock.speed(24 + hour) for hour in range(24)]
    assert min(tuesday[10:16]) > 3 * max(tuesday[:6])
    assert clock.speed(5 * 24 + 12) < 0.5 * clock.speed(24 + 12)


def test_a_page_is_due_in_working_hours(learned: WeekProfile) -> None:
    clock = learned.clock()
    due = [clock.time(MONDAY + number * DAY / 10, 0.3) for number in range(70)]
    ordinary = [MONDAY + number * DAY / 10 + 0.3 * DAY for number in range(70)]
    assert sum(map(in_working_hours, due)) > 1.3 * sum(map(in_working_hours, ordinary))


def test_without_evidence_the_clock_is_an_ordinary_one() -> None:
    assert [ORDINARY.speed(hour) for hour in range(WEEK_HOURS)] == pytest.approx([1.0] * WEEK_HOURS)
    assert ORDINARY.days(MONDAY, MONDAY + 5 * DAY) == pytest.approx(5)


@given(times, times)
def test_an_ordinary_clock_counts_days(start: float, end: float) -> None:
    assert ORDINARY.days(start, end) == pytest.approx((end - start) / DAY, abs=1e-6)


@given(profiles, profiles, times, st.floats(0, 400))
def test_the_time_of_a_date_is_the_reverse_of_the_days(
    seen: tuple[float, ...], expected: tuple[float, ...], start: float, days: float
) -> None:
    clock = WeekProfile(seen, expected).clock()
    end = clock.time(start, days)
    assert end >= start
    assert clock.days(start, end) == pytest.approx(days, abs=1e-3)
    assert clock.days(start, start + 7 * DAY) == pytest.approx(7, abs=1e-6)


def test_a_few_visits_hardly_move_the_clock() -> None:
    profile = WeekProfile()
    for _ in range(3):
        profile = profile.merged(week_of(PageVisit(0.1, changed=True), MONDAY, RATE, ORDINARY))
    assert profile.clock().speed(1) < 1.7


def test_long_times_between_visits_and_dead_pages_tell_nothing() -> None:
    assert week_of(PageVisit(3.0, changed=True), MONDAY, RATE, ORDINARY) == WeekProfile()
    assert week_of(PageVisit(0.1, changed=True, gone=True), MONDAY, RATE, ORDINARY) == WeekProfile()


def test_a_visit_with_a_change_counts_once() -> None:
    clock: ChangeClock = ORDINARY
    added = week_of(PageVisit(0.7, changed=True), MONDAY + 1234.0, RATE, clock)
    assert sum(added.seen[:24]) == pytest.approx(1)
    assert sum(added.seen[24:]) == pytest.approx(1)
    assert sum(added.expected[:24]) == pytest.approx(1 - RATE.fresh(0.7))
