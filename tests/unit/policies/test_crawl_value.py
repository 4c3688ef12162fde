"""The value of a fetch: the Lagrangian of the best schedule, and when it crosses a threshold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.policies.change_rates import ChangeHistory, ChangeRate, PageVisit
from webcrawl.policies.change_signals import SignalCounts, evidence_of
from webcrawl.policies.crawl_value import (
    GONE_DAYS,
    LEAST_IMPORTANCE,
    LONGEST_DAYS,
    REVIEW_DAYS,
    Bounds,
    ExpectedFreshness,
    RecrawlCandidate,
    freshness_of,
    is_due,
    next_visit_days,
    page_weight,
    turn_days,
)

shapes, scales = st.floats(0.1, 50), st.floats(0.05, 3000)
rates = st.builds(ChangeRate, shapes, scales)
signals = st.builds(SignalCounts, *[st.floats(0, 500)] * 3, st.floats(0, 5000))
weights = st.floats(0.001, 1000)
thresholds = st.floats(0.001, 1000)


@st.composite
def candidates(draw: st.DrawFn) -> RecrawlCandidate:
    rate = draw(rates)
    kinds = draw(st.lists(st.tuples(signals, st.integers(0, 5)), max_size=2))
    return RecrawlCandidate(
        draw(weights), rate, evidence_of(kinds, rate), draw(st.just(0.0) | st.floats(0.001, 1000))
    )


def known(changes_a_day: float) -> ChangeRate:
    """A rate that is known for certain."""
    return ChangeRate(1e7, 1e7 / changes_a_day)


@cases("rate", [0.01, 0.3, 2.0])
@cases("days", [0.5, 7.0, 40.0])
def test_the_value_is_that_of_cho_and_garcia_molina_if_the_rate_is_known(rate: float, days: float) -> None:
    """The derivative, by visits a day, of the freshness of a page that is visited every so many days."""
    exact = 3 / rate * (1 - (1 + rate * days) * math.exp(-rate * days))
    assert RecrawlCandidate(3.0, known(rate)).value(days) == pytest.approx(exact, rel=1e-3)


@given(candidates(), st.floats(0.001, 300), st.floats(1.0, 10))
def test_the_value_grows_with_time(page: RecrawlCandidate, days: float, times: float) -> None:
    assert page.value(days * times) >= page.value(days) * (1 - 1e-6)


@given(candidates(), thresholds)
def test_a_page_is_ripe_when_its_value_crosses_the_threshold(
    page: RecrawlCandidate, threshold: float
) -> None:
    days = page.ripe_days(threshold)
    if days == 0:
        assert page.value(1e-4) >= threshold * 0.99
    elif days >= LONGEST_DAYS:
        assert page.value(LONGEST_DAYS) <= threshold * 1.03
    else:
        assert page.value(days) == pytest.approx(threshold, rel=0.03)


@given(rates, weights, thresholds, st.floats(1.1, 100))
def test_the_more_important_page_is_due_earlier(
    rate: ChangeRate, weight: float, threshold: float, times: float
) -> None:
    light, heavy = RecrawlCandidate(weight, rate), RecrawlCandidate(weight * times, rate)
    assert heavy.ripe_days(threshold) <= light.ripe_days(threshold) * 1.01


def test_a_page_without_weight_is_never_due() -> None:
    assert RecrawlCandidate(0.0, known(1.0)).ripe_days(0.1) == LONGEST_DAYS


def test_a_page_that_changes_too_often_for_its_weight_is_never_due() -> None:
    assert RecrawlCandidate(1.0, known(50.0)).ripe_days(0.5) == LONGEST_DAYS
    assert RecrawlCandidate(1.0, known(0.2)).ripe_days(0.5) < 3
    assert RecrawlCandidate(100.0, known(50.0)).ripe_days(0.5) < 0.1


def test_a_page_that_changes_too_often_is_due_for_its_new_links() -> None:
    page = RecrawlCandidate(1.0, known(1000.0))
    hub = page._replace(new_links=50.0)
    assert page.ripe_days(1.0) == LONGEST_DAYS
    assert hub.ripe_days(1.0) == pytest.approx(0.2)
    # four times as many links: half of the interval
    assert page._replace(new_links=200.0).ripe_days(1.0) == pytest.approx(0.1)


def test_an_announcement_that_is_believed_makes_a_page_due() -> None:
    rate = ChangeRate(20.0, 200.0)
    sure, lying = SignalCounts(400, 4, 2, 2000), SignalCounts(2, 40, 400, 400)
    quiet = RecrawlCandidate(1.0, rate).ripe_days(1.0)
    pages = {
        (name, number): RecrawlCandidate(1.0, rate, evidence_of([(signal, number)], rate)).ripe_days(1.0)
        for name, signal in (("sure", sure), ("lying", lying))
        for number in (0, 1)
    }
    assert pages["sure", 1] == 0
    assert pages["sure", 0] > 3 * quiet
    assert pages["lying", 1] == pytest.approx(quiet, rel=0.3)
    assert pages["lying", 0] == pytest.approx(quiet, rel=0.3)


def test_the_value_of_a_page_whose_changes_are_all_announced_is_that_of_its_next_change() -> None:
    """Its copy stays current from one change to the next: for 1 / rate days on average."""
    rate = known(0.5)
    page = RecrawlCandidate(2.0, rate, evidence_of([(SignalCounts(1e9, 0, 0, 1e9), 1)], rate))
    assert page.value(0.1) == pytest.approx(2 / 0.5, rel=0.1)


def test_an_announcement_tells_that_a_page_changes_more_often_than_was_known() -> None:
    """A change after a tenth of a day makes a Gamma distribution (2, 20) one of (3, 20.1): 10 days until the next."""
    rate = ChangeRate(2.0, 20.0)
    page = RecrawlCandidate(1.0, rate, evidence_of([(SignalCounts(1e9, 0, 0, 1e9), 1)], rate))
    assert page.value(0.1) == pytest.approx(20.1 / 2, rel=0.1)


@given(rates, st.floats(0, 500), st.floats(0, 500), st.floats(0.01, 1000))
def test_silence_makes_a_page_fresher_as_bayes_theorem_tells(
    rate: ChangeRate, hits: float, misses: float, days: float
) -> None:
    """The probability of no change at all, given that none was announced."""
    signal = SignalCounts(10 + hits, misses, 0, 1e9)
    page = RecrawlCandidate(1.0, rate, evidence_of([(signal, 0)], rate))
    expected = rate.fresh(days) / rate.fresh(signal.recall * days)
    assert page.freshness(days) == pytest.approx(expected, rel=1e-6)


@given(candidates(), thresholds, st.floats(0.01, 1), st.floats(1, 400))
def test_a_page_is_due_within_its_bounds(
    page: RecrawlCandidate, threshold: float, shortest: float, longest: float
) -> None:
    days = next_visit_days(page, ChangeHistory(), threshold, Bounds(shortest, longest))
    assert shortest <= days <= longest


def test_a_dead_page_is_asked_ever_more_rarely() -> None:
    page, history, waits = RecrawlCandidate(1e6, known(5.0)), ChangeHistory(), []
    for _ in range(10):
        history = history.after(PageVisit(1.0, changed=True, gone=True))
        waits.append(next_visit_days(page, history, 1e-6, Bounds(longest=30.0)))
    assert waits[0] == GONE_DAYS
    assert waits == sorted(waits)
    assert waits[4] > 60
    assert waits[-1] > 1000


def test_the_turn_of_a_page_may_come_a_little_early() -> None:
    assert is_due(10.0, 10.0)
    assert is_due(10.0, 8.5)
    assert not is_due(10.0, 6.0)


def test_a_page_has_its_turn_within_a_month() -> None:
    assert turn_days(3.0) == 3.0
    assert turn_days(4000.0) == REVIEW_DAYS
    assert turn_days(4000.0, 100.0) == 100.0 + REVIEW_DAYS


@given(st.lists(st.tuples(candidates(), st.floats(0, 100)), max_size=5))
def test_freshness_adds_up(pages: list[tuple[RecrawlCandidate, float]]) -> None:
    whole = ExpectedFreshness()
    for page, days in pages:
        whole = whole.merged(freshness_of(page, days))
    assert whole.weight == pytest.approx(sum(page.weight for page, _ in pages))
    assert 0 <= whole.share <= 1 + 1e-9


def test_freshness_is_that_of_the_weights() -> None:
    fresh, stale = RecrawlCandidate(3.0, known(0.1)), RecrawlCandidate(1.0, known(10.0))
    whole = freshness_of(fresh, 0.0).merged(freshness_of(stale, 100.0))
    assert whole.share == pytest.approx(0.75)
    assert freshness_of(fresh, 10.0).share == pytest.approx(math.exp(-1), rel=1e-3)


def test_a_seed_to_which_nobody_links_has_a_weight() -> None:
    assert page_weight(0.0, 2.0) == 2 * LEAST_IMPORTANCE
    assert page_weight(None) == 1.0
    assert page_weight(7.5) == 7.5
