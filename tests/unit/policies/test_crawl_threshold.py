"""The threshold follows the capacity, smoothly, from wherever it begins."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.change_rates import LEAST_DAYS, ChangeRate
from webcrawl.policies.change_signals import SignalCounts, SignalEvidence, evidence_of
from webcrawl.policies.crawl_threshold import SMOOTHING_DAYS, Threshold
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate, is_due, turn_days

SOURCE = random.Random(4)
PAGES = [
    RecrawlCandidate(SOURCE.paretovariate(1.2), ChangeRate(2.0, 2.0 * SOURCE.paretovariate(0.5)))
    for _ in range(300)
]


CAPACITY = 30.0


def demand(threshold: Threshold) -> float:
    """The fetches a day of the pages at a threshold."""
    return sum(1 / page.ripe_days(threshold.value) for page in PAGES)


@pytest.mark.parametrize("fetches", [3.0, 30.0, 300.0])
def test_it_begins_with_what_the_capacity_bears(fetches: float) -> None:
    threshold = Threshold.for_capacity(PAGES, 1000 * len(PAGES), 1000 * fetches)
    assert demand(threshold) == pytest.approx(fetches, rel=0.05)


def test_bounds_count_against_the_capacity() -> None:
    """Pages that are fetched each day by RECRAWL_MAX_AGE leave less for the others, or nothing.

    Then the threshold is the highest by which a page could be due before: a higher one would only fall for longer.
    """
    free = Threshold.for_capacity(PAGES, len(PAGES), 1.5 * len(PAGES))
    bounded = Threshold.for_capacity(PAGES, len(PAGES), 1.5 * len(PAGES), Bounds(longest=1.0))
    assert bounded > free
    full = Threshold.for_capacity(PAGES, len(PAGES), 1.0, Bounds(longest=1.0))
    assert full.value == pytest.approx(max(page.value(1.0) for page in PAGES))


def test_it_begins_no_lower_than_the_shortest_times_want() -> None:
    """A crawl that could fetch all pages all the time."""
    free = Threshold.for_capacity(PAGES, len(PAGES), 1e9 * len(PAGES), Bounds(shortest=0.1))
    assert free.value == pytest.approx(min(page.value(0.1) for page in PAGES))


def test_announcements_of_the_moment_do_not_count() -> None:
    """Pages that are announced are due at once, and so again and again if the threshold took that for their rate."""
    quality = SignalCounts(hits=100, misses=5, mistakes=5, days=1000)
    announced = [page._replace(evidence=evidence_of([(quality, 1)], page.rate)) for page in PAGES]
    usual, now = (Threshold.for_capacity(pages, len(pages), 30.0) for pages in (PAGES, announced))
    ripe = [page.ripe_days(usual.value) for page in announced]
    assert sum(1 / max(LEAST_DAYS, days) for days in ripe) > 1000 * 30.0
    assert now == usual
    promise = SignalEvidence(lifetime=30.0, broken=0.1)
    lasting = [page._replace(evidence=promise) for page in PAGES]
    assert Threshold.for_capacity(lasting, len(lasting), 30.0) != usual


def followed(pages: list[RecrawlCandidate], start: float, days: int) -> Iterator[tuple[Threshold, int]]:
    """Plans and fetches pages each hour, 30 a day; yields the threshold and the late pages. Two may be early."""
    hour, threshold = 1 / 24, Threshold(start)
    source = random.Random(1)
    last = [-source.uniform(0, 10) for _ in pages]
    dates = [visit + turn_days(page.ripe_days(start)) for visit, page in zip(last, pages, strict=True)]
    left, late = 0.0, 0
    for step in range(days * 24):
        now, fetched, early = step * hour, 0, 2
        left = min(left, 1.0) + CAPACITY * hour
        for number in sorted(range(len(pages)), key=dates.__getitem__):
            is_early = dates[number] > now
            early -= is_early
            if left < 1 or early < 0:
                break
            ripe = pages[number].ripe_days(threshold.value)
            if is_due(ripe, now - last[number]):
                left, fetched, last[number] = left - 1, fetched + 1, now
            dates[number] = last[number] + turn_days(ripe, now - last[number])
        before, late = late, sum(date <= now for date in dates)
        threshold = threshold.followed(hour, CAPACITY * hour, fetched + late - before, late)
        yield threshold, late


@pytest.mark.parametrize("start", [0.03, 1.0, 300.0])
def test_it_approaches_the_capacity_from_any_start(start: float) -> None:
    *_, (threshold, late) = followed(PAGES, start, 90)
    assert demand(threshold) == pytest.approx(CAPACITY, rel=0.5)
    assert late < CAPACITY


def test_it_stays_while_early_pages_fill_the_capacity() -> None:
    """Equal pages are all due after the same time, so all of the first cycle are fetched before they are due."""
    pages = [RecrawlCandidate(1.0, ChangeRate(0.4, 4.0))] * len(PAGES)
    start = Threshold.for_capacity(pages, len(pages), CAPACITY).value
    values = [threshold.value for threshold, _ in followed(pages, start, 20)]
    assert start / 2 < min(values) < max(values) < 1.5 * start


def test_it_falls_fast_only_while_fetches_are_left_over() -> None:
    idle, busy = (Threshold(1.0).followed(0.01, 10, 5, late).value for late in (0, 1))
    saturated = Threshold(1.0).followed(0.01, 1.2, 1, 0).value
    assert idle < 1 - 3 * (1 - busy) < 1
    assert saturated > 1 - (1 - busy)


@given(st.floats(1e-3, 1e3), st.floats(0.01, 1e4), st.floats(0, 1e6), st.floats(0, 1e7))
def test_it_moves_smoothly(value: float, room: float, due: float, late: float) -> None:
    minute = 1 / 1440
    after = Threshold(value).followed(minute, room, due, late).value
    assert abs(after / value - 1) < 4 * minute / SMOOTHING_DAYS


def test_it_rises_if_pages_are_late_and_falls_if_none_is_due() -> None:
    balanced = Threshold(1.0).followed(0.01, 10, 10, 0)
    assert balanced.value == pytest.approx(1.0)
    assert Threshold(1.0).followed(0.01, 10, 10, 5000).value > 1
    assert Threshold(1.0).followed(0.01, 10, 0, 0).value < 1


def test_it_stays_while_nothing_can_be_fetched() -> None:
    assert Threshold(2.5).followed(1.0, 0, 100, 1e6) == Threshold(2.5)


def test_a_host_with_a_threshold_of_its_own_gets_its_best_pages() -> None:
    """Ten fetches a day: the pages whose value reaches the host's threshold in a day are its best ten."""
    own = Threshold.for_capacity(PAGES, len(PAGES), 10.0)
    ripe = {page for page in PAGES if page.ripe_days(own.value) < 5}
    others = [page.value(5.0) for page in PAGES if page not in ripe]
    assert 3 <= len(ripe) <= 50
    assert min(page.value(5.0) for page in ripe) >= max(others)
