"""When pages are due again, by the visits of one process."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from webcrawl.policies.crawl_threshold import Threshold
from webcrawl.policies.revisit_dates import (
    KnownPage,
    RevisitDate,
    RevisitDates,
    StoredVisit,
    bounds_of,
    value_now,
)

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, DAY = 3_600.0, 86_400.0


def visit(
    visited_at: datetime,
    before: datetime | None,
    outcome: str,
    evidence: Sequence[float | str] | None,
    path: str = "/a",
) -> StoredVisit:
    return StoredVisit(KnownPage("http://a.test", path, None, evidence), visited_at, before, outcome)


def revisited(dates: RevisitDates, outcomes: list[str], every: float = DAY, path: str = "/a") -> RevisitDate:
    """Visits a page in equal intervals; the first visit comes before those with the outcomes."""
    date = dates.date(visit(START, None, "changed", None, path))
    for number, outcome in enumerate(outcomes, 1):
        before, now = (START + timedelta(seconds=every * count) for count in (number - 1, number))
        evidence = json.loads(json.dumps(date.evidence))
        date = dates.date(visit(now, before, outcome, evidence, path))
    return date


def wait(date: RevisitDate, visits: int, every: float = DAY) -> float:
    return (date.due - START).total_seconds() - every * visits


def test_pages_that_change_are_due_sooner() -> None:
    often = revisited(RevisitDates(bounds_of(HOUR, math.inf)), ["changed"] * 10)
    never = revisited(RevisitDates(bounds_of(HOUR, math.inf)), ["unchanged"] * 10)
    assert often.rate > 10 * never.rate
    assert HOUR <= wait(often, 10) < wait(never, 10)


@pytest.mark.parametrize("outcome", ["changed", "unchanged"])
def test_dates_are_within_the_bounds(outcome: str) -> None:
    for shortest, longest in ((HOUR, 2 * HOUR), (10 * DAY, math.inf)):
        date = revisited(RevisitDates(bounds_of(shortest, longest)), [outcome] * 5)
        assert shortest - 1 <= wait(date, 5) <= longest + 1


def test_dead_pages_are_asked_ever_more_rarely_and_failures_teach_nothing() -> None:
    dates = RevisitDates(bounds_of(HOUR, 30 * DAY))
    waits = [wait(revisited(dates, ["gone"] * times), times) for times in (1, 2, 3)]
    assert waits == pytest.approx([DAY, 3 * DAY, 9 * DAY])
    failed = revisited(dates, ["changed", "failed", "failed"])
    assert failed.evidence[:3] == revisited(dates, ["changed"]).evidence[:3]
    assert wait(failed, 3) <= DAY


def test_pages_of_a_pattern_are_judged_by_each_other() -> None:
    dates, other = (RevisitDates(bounds_of(HOUR, math.inf)) for _ in range(2))
    for number in range(20):
        revisited(dates, ["changed"] * 5, path=f"/news/{number}")
        revisited(other, ["unchanged"] * 5, path=f"/news/{number}")
    first = [each.date(visit(START, None, "changed", None, "/news/99")) for each in (dates, other)]
    assert first[0].rate > 5 * first[1].rate
    assert first[0].due < first[1].due


def test_the_evidence_of_another_process_counts_once_in_its_own_pools() -> None:
    date = revisited(RevisitDates(bounds_of(HOUR, math.inf)), ["changed"] * 5)
    heir = RevisitDates(bounds_of(HOUR, math.inf))
    for number in range(6, 9):
        before, now = (START + timedelta(days=count) for count in (number - 1, number))
        date = heir.date(visit(now, before, "changed", date.evidence))
    assert heir._changes._crawl.pages == 1
    assert heir._changes._crawl.rates == pytest.approx(date.rate, rel=0.01)


def test_a_higher_threshold_and_a_lower_importance_put_a_page_off() -> None:
    dates = RevisitDates(bounds_of(HOUR, math.inf))
    evidence = revisited(dates, ["unchanged", "changed"] * 3).evidence
    days = [
        dates.next_days(KnownPage("http://a.test", "/a", importance, evidence)) for importance in (10, 1, 0.1)
    ]
    assert days[0] < days[1] < days[2]
    dates.threshold = Threshold(2 * dates.threshold.value)
    assert dates.next_days(KnownPage("http://a.test", "/a", 1, evidence)) > days[1]


def test_a_slow_host_has_a_threshold_of_its_own() -> None:
    dates = RevisitDates(bounds_of(HOUR, math.inf))
    evidence = revisited(dates, ["unchanged", "changed"] * 3).evidence
    here, there = (KnownPage(host, "/a", 1, evidence) for host in ("http://a.test", "http://b.test"))
    before = dates.next_days(here), dates.next_days(there)
    dates.of_hosts["http://a.test"] = Threshold(4 * dates.threshold.value)
    assert dates.next_days(here) > 1.5 * before[0]
    assert dates.next_days(there) == before[1]
    dates.of_hosts["http://a.test"] = Threshold(dates.threshold.value / 4)
    assert dates.next_days(here) == before[0]


def test_outcomes_of_repeated_visits_are_counted_once() -> None:
    dates = RevisitDates(bounds_of(HOUR, math.inf))
    revisited(dates, ["changed", "unchanged", "unchanged", "gone"])
    assert dates.take_outcomes() == {"changed": 1, "unchanged": 2, "gone": 1}
    assert dates.take_outcomes() == {}


def test_the_value_of_a_fetch_grows_with_age_and_importance() -> None:
    assert 0 < value_now(1, 0.1, 1) < value_now(1, 0.1, 5) < value_now(3, 0.1, 5)
    assert value_now(1, None, 3) > 0


def seen(dates: RevisitDates, path: str, new_links: list[int], every: float) -> RevisitDate:
    """Visits a page in equal intervals; the numbers are all its new links at each visit after the first."""
    date = dates.date(visit(START, None, "changed", None, path))
    for number, known in enumerate(new_links, 1):
        before, now = (START + timedelta(seconds=every * count) for count in (number - 1, number))
        evidence = json.loads(json.dumps(date.evidence))
        date = dates.date(visit(now, before, "changed", evidence, path)._replace(new_links=known))
    return date


def test_a_page_comes_back_by_its_new_links_although_it_changes_at_every_visit() -> None:
    dates = RevisitDates(bounds_of(60, math.inf))
    others = [seen(dates, f"/news/{number}/", [0] * 21, HOUR) for number in range(4)]
    hub = seen(dates, "/news/5/", [0, *range(10, 210, 10)], HOUR)
    assert hub.link_rate is not None
    assert hub.link_rate == pytest.approx(240, rel=0.1)
    # the clock of the host is nearly an ordinary one, since the visits cover a single day
    expected = DAY * math.sqrt(2 * dates.threshold.value / hub.link_rate)
    assert wait(hub, 21, HOUR) == pytest.approx(expected, rel=0.02)
    assert wait(others[-1], 21, HOUR) > 10 * wait(hub, 21, HOUR)
    bounded = seen(RevisitDates(bounds_of(2 * HOUR, 3 * HOUR)), "/news/", [0, 900, 1800], HOUR)
    assert wait(bounded, 3, HOUR) == pytest.approx(2 * HOUR)


def test_links_count_for_the_interval_before_their_visit() -> None:
    dates = RevisitDates(bounds_of(60, math.inf))
    first = dates.date(visit(START, None, "changed", None))
    assert first.link_rate is None
    day, later = (START + timedelta(days=days) for days in (1, 11))
    second = dates.date(visit(day, START, "changed", first.evidence))
    third = dates.date(visit(later, day, "changed", second.evidence)._replace(new_links=100))
    assert third.link_rate is not None
    assert 40 < third.link_rate < 60  # 100 links came in one day, and the prior knows a day without


def test_some_pages_of_a_pattern_come_back_soon_and_tell_about_the_others() -> None:
    dates = RevisitDates(bounds_of(HOUR, math.inf))
    paths = [f"/list/{number}/" for number in range(5)]
    firsts = [seen(dates, path, [], HOUR) for path in paths]
    assert [wait(date, 0) for date in firsts[:3]] == pytest.approx([HOUR] * 3)
    assert HOUR < wait(firsts[4], 0) < 2 * DAY
    usual = dates.next_days(KnownPage("http://a.test", paths[4], None, firsts[4].evidence))
    intervals = [wait(seen(dates, "/list/0/", [0] * visits, HOUR), visits, HOUR) for visits in (1, 3)]
    assert intervals == pytest.approx([HOUR, 3 * HOUR], rel=0.02)
    for path in paths[:3]:
        seen(dates, path, [0, *range(50, 500, 50)], HOUR)
    known = dates.next_days(KnownPage("http://a.test", paths[4], None, firsts[4].evidence))
    assert known < usual / 10
