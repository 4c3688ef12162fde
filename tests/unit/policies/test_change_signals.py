"""Signals: learned recall and false announcements, and what they tell of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.policies.change_rates import DAY, ChangeRate, PageVisit
from webcrawl.policies.change_signals import (
    CACHE_CONTROL,
    ETAG,
    NO_SIGNALS,
    SITEMAP,
    Announcements,
    PageSignal,
    SignalCounts,
    SignalEvidence,
    evidence_of,
    lesson,
    lifetime_days,
    signal_evidence,
)
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate, is_due, turn_days
from webcrawl.policies.revisit_dates import KnownPage, RevisitDates, StoredVisit

RATE = ChangeRate(20.0, 100.0)
SURE = SignalCounts(hits=400, misses=4, mistakes=2, days=2000)
LYING = SignalCounts(hits=2, misses=40, mistakes=400, days=400)
counts = st.floats(0, 1000)


def simulated(recall: float, false_rate: float, visits: int = 1500) -> Iterator[tuple[PageVisit, int]]:
    """Visits of a page that changes every five days and whose changes are announced with this recall."""
    random = np.random.default_rng(5)
    for _ in range(visits):
        days = random.uniform(1, 10)
        changes, mistakes = random.poisson(RATE.mean * days), random.poisson(false_rate * days)
        yield PageVisit(days, changed=bool(changes)), int(random.binomial(changes, recall) + mistakes)


def learned(recall: float, false_rate: float) -> SignalCounts:
    signal = SignalCounts()
    for visit, announced in simulated(recall, false_rate):
        signal = signal.merged(signal.learned(visit, announced, RATE))
    return signal


@pytest.mark.parametrize(("recall", "false_rate"), [(0.9, 0.01), (0.5, 0.1), (0.8, 0.4)])
def test_recall_and_false_announcements_are_learned(recall: float, false_rate: float) -> None:
    signal = learned(recall, false_rate)
    assert signal.recall == pytest.approx(recall, abs=0.12)
    assert signal.false_rate == pytest.approx(false_rate, rel=0.35, abs=0.02)


@cases(("recall", "false_rate"), [(0.9, 0.01), (0.5, 0.1), (0.1, 1.0), (0.8, 0.4)])
def test_the_freshness_that_signals_tell_is_the_share_of_pages_that_are_fresh(
    recall: float, false_rate: float
) -> None:
    signal, expected, fresh = learned(recall, false_rate), 0.0, 0
    for visit, announced in simulated(recall, false_rate):
        page = RecrawlCandidate(1.0, RATE, evidence_of([(signal, announced)], RATE))
        expected, fresh = expected + page.freshness(visit.days), fresh + (not visit.changed)
    assert expected == pytest.approx(fresh, rel=0.12)


def test_a_signal_that_turns_bad_is_noticed() -> None:
    signal = learned(0.95, 0.001)
    before = signal.precision(RATE)
    for _ in range(1000):
        visit = PageVisit(1.0, changed=False)
        signal = signal.merged(signal.learned(visit, 1, RATE))
    assert before > 0.9
    assert signal.precision(RATE) < 0.25


def test_a_dead_page_tells_that_an_announcement_was_false() -> None:
    visit = PageVisit(3.0, changed=True, gone=True)
    assert SignalCounts().learned(visit, 2, RATE) == SignalCounts(mistakes=2, days=3.0)


@given(counts, counts, counts, counts, st.integers(0, 50), st.floats(1e-4, 1e3), st.booleans())
def test_a_visit_explains_each_announcement_once(
    hits: float, misses: float, mistakes: float, days: float, announced: int, gap: float, changed: bool
) -> None:
    signal = SignalCounts(hits, misses, mistakes, days)
    added = signal.learned(PageVisit(gap, changed), announced, RATE)
    assert min(added) >= 0
    assert added.hits + added.mistakes == pytest.approx(announced)
    assert added.days == gap
    assert 0 < signal.recall < 1
    assert 0 < signal.precision(RATE) < 1


def test_announcements_make_a_page_stale_as_far_as_they_are_believed() -> None:
    sure, lying = (math.exp(-evidence_of([(signal, 1)], RATE).wear) for signal in (SURE, LYING))
    assert sure < 0.05
    assert lying > 0.9
    assert evidence_of([(SURE, 1)], RATE).is_believed
    assert not evidence_of([(LYING, 1)], RATE).is_believed


def test_announcements_are_no_evidence_before_some_of_the_host_were_checked() -> None:
    few, enough = (evidence_of([(SignalCounts(hits, days=20), 1)], RATE) for hits in (9.0, 10.0))
    assert few == NO_SIGNALS
    assert enough.is_believed


def test_the_absence_of_a_signal_makes_a_page_fresher() -> None:
    assert evidence_of([(SURE, 0)], RATE).unannounced < 0.05
    assert evidence_of([(LYING, 0)], RATE).unannounced > 0.9
    assert evidence_of([], RATE) == NO_SIGNALS


def test_signals_of_two_kinds_complete_each_other() -> None:
    half = SignalCounts(hits=50, misses=50, mistakes=1, days=1000)
    alone, both = evidence_of([(half, 1)], RATE), evidence_of([(half, 1), (half, 1)], RATE)
    assert both.unannounced == pytest.approx(alone.unannounced**2)
    assert both.wear == pytest.approx(2 * alone.wear)
    assert both.step == pytest.approx(alone.step)
    assert both.announcements == pytest.approx(2 * alone.announcements)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=30), st.floats(1, 1e6))
def test_announcements_are_later_than_the_visit_and_a_day_apart(
    told: list[tuple[float, float]], visited: float
) -> None:
    announced = Announcements()
    for changed, after in sorted(told, key=lambda each: each[1]):
        now, before = visited + after, announced
        announced = announced.heard(changed, visited, now, "map")
        assert announced.heard(changed, visited, now, "map") == announced
        assert announced.latest <= now
        if announced.times > before.times:
            assert announced.latest + DAY > visited
            assert not before.times or announced.latest >= before.latest + DAY
            assert visited <= announced.first <= now
    assert announced.visited()._replace(latest=0.0) == Announcements()


def test_a_date_without_a_time_may_be_later_than_a_visit_on_that_day() -> None:
    visited, now = 10.5 * DAY, 11 * DAY
    known = Announcements().heard(9 * DAY, visited - DAY, visited, "map")
    assert known.visited().heard(10 * DAY, visited, now, "map").times == 1
    assert (
        Announcements().heard(10 * DAY, visited, now, "map").times == 0
    )  # it may be the change that was seen


class AnnouncedPage(NamedTuple):
    """A page of a simulated host: its changes, its date, what is known of it."""

    path: str
    changes: list[float]
    due: float
    visited: float
    evidence: Sequence[float | str]
    announced: Announcements = Announcements()

    def has_changed(self, day: float) -> bool:
        return any(self.visited < change <= day for change in self.changes)


class AnnouncingHost:
    """A host of 40 pages that change at random; `lastmod` returns what its sitemap tells of changes until a day."""

    def __init__(self, lastmod: Callable[[list[float], float], float] | None) -> None:
        self.lastmod, self.counts = lastmod, SignalCounts()
        self.dates = RevisitDates(Bounds(1 / 24))
        random = np.random.default_rng(3)
        self.pages = []
        for number in range(40):
            rate = (0.02, 0.1, 0.5, 2.0)[number % 4]
            changes = np.sort(random.uniform(0, 70, random.poisson(70 * rate))).tolist()
            path = f"/{'abcd'[number % 4]}/{number}"
            first = StoredVisit(KnownPage("http://a", path, None, None), at(0), None, "changed")
            date = self.dates.date(first)
            self.pages.append(AnnouncedPage(path, changes, day_of(date.due), 0.0, date.evidence))

    def known(self, page: AnnouncedPage) -> KnownPage:
        signals = {SITEMAP: PageSignal(self.counts, page.announced)} if self.lastmod else {}
        return KnownPage("http://a", page.path, None, page.evidence, 1.0, signals)

    def run(self, first: int, last: int) -> tuple[int, float]:
        """Returns the visits and the mean freshness between two days, with a plan each six hours."""
        visits, fresh = 0, 0
        for step in range(4 * first, 4 * last):
            day = step / 4
            for number, page in enumerate(self.pages):
                page = self.told(page, day)
                fresh += not page.has_changed(day)
                if page.due <= day:
                    page, is_visited = self.turn(page, day)
                    visits += is_visited
                self.pages[number] = page
        return visits, fresh / (4 * (last - first) * len(self.pages))

    def told(self, page: AnnouncedPage, day: float) -> AnnouncedPage:
        if self.lastmod is None:
            return page
        changed = self.lastmod(page.changes, day)
        announced = page.announced.heard(changed * DAY, page.visited * DAY, day * DAY, "")
        is_new = announced.times > page.announced.times
        page = page._replace(announced=announced)
        due = page.visited + self.dates.next_days(self.known(page))
        return page._replace(due=min(page.due, due)) if is_new else page

    def turn(self, page: AnnouncedPage, day: float) -> tuple[AnnouncedPage, bool]:
        known, age = self.known(page), day - page.visited
        next_days = self.dates.next_days(known)
        if not is_due(next_days, age):
            return page._replace(due=page.visited + turn_days(next_days, age)), False
        outcome = "changed" if page.has_changed(day) else "unchanged"
        date = self.dates.date(StoredVisit(known, at(day), at(page.visited), outcome))
        self.counts = self.counts.merged(date.learned.get(SITEMAP, SignalCounts()))
        page = page._replace(due=day_of(date.due), visited=day, evidence=date.evidence)
        return page._replace(announced=page.announced.visited()), True


def at(day: float) -> datetime:
    return datetime.fromtimestamp(day * DAY, UTC)


def day_of(time: datetime) -> float:
    return time.timestamp() / DAY


def test_a_host_whose_pages_all_change_now_is_not_visited_more_often() -> None:
    plain, lying = AnnouncingHost(None), AnnouncingHost(lambda changes, day: day)
    (visits, _), (told_visits, _) = plain.run(1, 10), lying.run(1, 10)
    assert told_visits < visits + 3 * len(lying.pages)  # until it is learned
    (visits, fresh), (told_visits, told_fresh) = plain.run(10, 70), lying.run(10, 70)
    assert told_visits <= 1.02 * visits
    assert told_fresh > 0.96 * fresh


def test_a_host_that_tells_the_truth_is_fresher_with_as_many_visits() -> None:
    def last_change(changes: list[float], day: float) -> float:
        return max((change for change in changes if change <= day), default=0.0)

    plain, honest = AnnouncingHost(None), AnnouncingHost(last_change)
    (visits, fresh), (told_visits, told_fresh) = plain.run(1, 40), honest.run(1, 40)
    assert told_fresh > fresh + 0.12
    assert told_visits < 1.1 * visits


DATE, NEXT_DAY = "Mon, 02 Feb 2026 10:00:00 GMT", "Tue, 03 Feb 2026 10:00:00 GMT"


@cases(
    ("cache_control", "expires", "days"),
    [
        ("max-age=43200", NEXT_DAY, 0.5),
        ("public, max-age=60, s-maxage=86400", None, 1.0),
        ('Max-Age="86400", immutable', None, 1.0),
        ("max-age=86400, no-cache", None, 0.0),
        ("no-store", NEXT_DAY, 0.0),
        ("max-age=-1", None, 0.0),
        ("max-age=99999999999", None, 365.0),
        ("private", NEXT_DAY, 1.0),
        ("stale-while-revalidate=86400", None, 0.0),
        (None, NEXT_DAY, 1.0),
        (None, "0", 0.0),
        (None, None, 0.0),
    ],
)
def test_headers_tell_for_how_long_a_page_stays(
    cache_control: str | None, expires: str | None, days: float
) -> None:
    assert lifetime_days(cache_control, expires, DATE) == pytest.approx(days)


def kept(broken: float, visits: int = 500) -> SignalCounts:
    """What is learned of lifetimes of two days in which so many of the changes happen nevertheless."""
    random, counts, lifetime = np.random.default_rng(7), SignalCounts(), 2.0
    for _ in range(visits):
        days = random.uniform(0.5, 8)
        within = min(days, lifetime)
        expected = RATE.mean * (broken * within + days - within)
        signal = PageSignal(counts, Announcements(lifetime=lifetime))
        visit = PageVisit(days, changed=bool(random.poisson(expected)))
        counts = counts.merged(lesson(CACHE_CONTROL, signal, visit, RATE))
    return counts


@pytest.mark.parametrize("broken", [0.02, 0.3, 1.0])
def test_it_is_learned_how_many_changes_happen_in_lifetimes(broken: float) -> None:
    assert kept(broken).broken == pytest.approx(broken, abs=0.1)


def test_lifetimes_are_not_believed_before_there_is_evidence() -> None:
    signals = {CACHE_CONTROL: PageSignal(SignalCounts(), Announcements(lifetime=300.0))}
    page = RecrawlCandidate(1.0, RATE, signal_evidence(signals, RATE))
    assert page.ripe_days(0.3) == RecrawlCandidate(1.0, RATE).ripe_days(0.3)


@given(st.floats(0.02, 1), st.floats(0.1, 40), st.floats(0.1, 40), st.floats(0.05, 0.9), st.booleans())
def test_the_value_of_a_fetch_is_the_freshness_that_is_gained(
    broken: float, lifetime: float, days: float, unannounced: float, is_announced: bool
) -> None:
    """The integral of F from 0 to t, minus t F(t), whatever F is."""
    evidence = SignalEvidence(lifetime=lifetime, broken=broken)
    page = RecrawlCandidate(1.0, RATE, evidence)
    times = np.linspace(0, days, 4_001)
    gained = np.trapezoid([page.freshness(time) for time in times], times) - days * page.freshness(days)
    assert page.value(days) == pytest.approx(gained, abs=1e-3 * days)
    assert page.value(page.ripe_days(0.5)) == pytest.approx(0.5, rel=0.02)
    # announcements make the page older, also in a lifetime
    told = evidence._replace(unannounced=unannounced, announcements=1.0, wear=2.0 * is_announced, step=2.0)
    assert page._replace(evidence=told).value(days) >= 0


def test_etags_are_compared_with_texts() -> None:
    same, differs = Announcements(), Announcements(1)
    changed, unchanged = PageVisit(2.0, changed=True), PageVisit(2.0, changed=False)
    lessons = [
        lesson(ETAG, PageSignal(SignalCounts(), etag), visit, RATE)
        for etag, visit in ((differs, changed), (same, changed), (differs, unchanged), (same, unchanged))
    ]
    assert [each[:3] for each in lessons] == [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)]
    assert {each.days for each in lessons} == {2.0}
    gone = lesson(ETAG, PageSignal(SignalCounts(), differs), PageVisit(2.0, changed=True, gone=True), RATE)
    assert gone.hits == gone.misses == 0


def test_an_etag_tells_no_time_of_a_change() -> None:
    etag = {ETAG: PageSignal(SURE, Announcements(1))}
    assert not signal_evidence(etag, RATE).is_believed
    dates = RevisitDates(Bounds())
    first = dates.date(StoredVisit(KnownPage("http://a", "/", None, None), at(0), None, "changed"))
    page = KnownPage("http://a", "/", None, first.evidence)
    date = dates.date(StoredVisit(page, at(3), at(0), "changed", shown=etag))
    assert date.learned[ETAG].hits == 1
    assert date.rate == pytest.approx(dates_of_a_change_without_signals())


def dates_of_a_change_without_signals() -> float:
    dates = RevisitDates(Bounds())
    first = dates.date(StoredVisit(KnownPage("http://a", "/", None, None), at(0), None, "changed"))
    page = KnownPage("http://a", "/", None, first.evidence)
    return dates.date(StoredVisit(page, at(3), at(0), "changed")).rate


def test_validators_are_valid_until_they_have_missed_changes() -> None:
    assert SignalCounts().is_valid
    assert SignalCounts(hits=100, misses=20, mistakes=400).is_valid
    assert not SignalCounts(misses=6).is_valid
    assert not SignalCounts(hits=40, misses=40).is_valid


class PublishingHost:
    """Pages that change each so many days, and whose headers tell when they will, truly or not."""

    def __init__(self, *, interval: float = 6.0, lifetime: float | None = None) -> None:
        self.interval, self.lifetime, self.counts = interval, lifetime, SignalCounts()
        self.dates = RevisitDates(Bounds(1 / 24))
        self.dates.threshold = self.dates.threshold._replace(value=0.5)

    def run(self, days: int) -> tuple[int, float]:
        """Returns the visits, and the share of time in which the text of the last visit was current."""
        pages = [(number * self.interval / 20, 0.0, 0.0, None) for number in range(20)]
        visits, fresh = 0, 0
        for step in range(24 * days):
            now = step / 24
            for number, (phase, due, visited, evidence) in enumerate(pages):
                version, seen = (math.floor((day + phase) / self.interval) for day in (now, visited))
                fresh += version == seen
                if due > now:
                    continue
                promise = (version + 1) * self.interval - phase - now
                if self.lifetime is not None:
                    promise = self.lifetime
                signals = {}
                if evidence is not None and self.lifetime != 0:
                    told = (
                        (math.floor((visited + phase) / self.interval) + 1) * self.interval - phase - visited
                    )
                    signals[CACHE_CONTROL] = PageSignal(
                        self.counts, Announcements(lifetime=self.lifetime or told)
                    )
                known = KnownPage("http://a", f"/{number}", None, evidence, 1.0, signals)
                outcome = "changed" if version != seen else "unchanged"
                before = None if evidence is None else at(visited)
                new = PageSignal(self.counts, Announcements(lifetime=promise)) if self.lifetime != 0 else None
                date = self.dates.date(StoredVisit(known, at(now), before, outcome, promise=new))
                self.counts = self.counts.merged(date.learned.get(CACHE_CONTROL, SignalCounts()))
                visits += 1
                pages[number] = (phase, day_of(date.due), now, date.evidence)
        return visits, fresh / (24 * days * len(pages))


def test_pages_that_tell_when_they_change_are_fetched_after_their_changes() -> None:
    plain, telling = PublishingHost(lifetime=0).run(60), PublishingHost().run(60)
    assert telling[0] < plain[0]
    assert telling[1] > plain[1] + 0.06


def test_a_host_whose_lifetimes_are_wrong_is_visited_as_often() -> None:
    plain, lying = PublishingHost(lifetime=0).run(60), PublishingHost(lifetime=300.0).run(60)
    assert lying[0] == pytest.approx(plain[0], rel=0.1)
    assert lying[1] > 0.97 * plain[1]
