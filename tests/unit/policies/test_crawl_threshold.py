"""The threshold follows the capacity, smoothly, from wherever it begins."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.change_rates import ChangeRate
from webcrawl.policies.crawl_threshold import SMOOTHING_DAYS, Threshold
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate, is_due, turn_days

SOURCE = random.Random(4)
PAGES = [
    RecrawlCandidate(SOURCE.paretovariate(1.2), ChangeRate(2.0, 2.0 * SOURCE.paretovariate(0.5)))
    for _ in range(300)
]


def demand(threshold: Threshold) -> float:
    """The fetches a day of the pages at a threshold."""
    return sum(1 / page.ripe_days(threshold.value) for page in PAGES)


@pytest.mark.parametrize("fetches", [3.0, 30.0, 300.0])
def test_it_begins_with_what_the_capacity_bears(fetches: float) -> None:
    threshold = Threshold.for_capacity(PAGES, 1000 * len(PAGES), 1000 * fetches)
    assert demand(threshold) == pytest.approx(fetches, rel=0.05)


def test_bounds_count_against_the_capacity() -> None:
    """Pages that are fetched each day by RECRAWL_MAX_AGE leave less for the others, or nothing."""
    free = Threshold.for_capacity(PAGES, len(PAGES), 1.5 * len(PAGES))
    bounded = Threshold.for_capacity(PAGES, len(PAGES), 1.5 * len(PAGES), Bounds(longest=1.0))
    assert bounded > free
    assert Threshold.for_capacity(PAGES, len(PAGES), 1.0, Bounds(longest=1.0)).value > 1e6


@pytest.mark.parametrize("start", [0.03, 1.0, 300.0])
def test_it_approaches_the_capacity_from_any_start(start: float) -> None:
    """The pages are planned and fetched each hour, for a quarter. If there is room, the next two have their turns."""
    capacity, hour, threshold = 30.0, 1 / 24, Threshold(start)
    source = random.Random(1)
    last = [-source.uniform(0, 10) for _ in PAGES]
    dates = [visit + turn_days(page.ripe_days(start)) for visit, page in zip(last, PAGES, strict=True)]
    left, late = 0.0, 0
    for step in range(90 * 24):
        now, fetched, early = step * hour, 0, 2
        left = min(left, 1.0) + capacity * hour
        for number in sorted(range(len(PAGES)), key=dates.__getitem__):
            is_early = dates[number] > now
            early -= is_early
            if left < 1 or early < 0:
                break
            days = PAGES[number].ripe_days(threshold.value)
            if is_due(days, now - last[number]):
                left, fetched, last[number] = left - 1, fetched + (not is_early), now
            dates[number] = last[number] + turn_days(days, now - last[number])
        before, late = late, sum(date <= now for date in dates)
        threshold = threshold.followed(hour, capacity * hour, fetched + late - before, late)
    assert demand(threshold) == pytest.approx(capacity, rel=0.5)
    assert late < capacity


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
