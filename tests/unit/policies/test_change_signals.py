"""Signals: learned recall and false announcements, and what they tell of a page."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.change_rates import ChangeRate, PageVisit
from webcrawl.policies.change_signals import NO_SIGNALS, SignalCounts, evidence_of
from webcrawl.policies.crawl_value import RecrawlCandidate

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
    assert signal.false_rate == pytest.approx(false_rate, rel=0.35, abs=0.01)


@pytest.mark.parametrize(("recall", "false_rate"), [(0.9, 0.01), (0.5, 0.1), (0.1, 1.0), (0.8, 0.4)])
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
