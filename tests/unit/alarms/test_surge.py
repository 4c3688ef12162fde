"""Error surges: a share of errors against the past of the same crawl."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings, strategies as st

from webcrawl.alarms.reading import CrawlReading
from webcrawl.alarms.surge import LEARNED, SURGE_SECONDS, WINDOW_SECONDS, Errors, Past, Surge, judge_errors


def judged(windows: list[tuple[int, int]], errors: Errors | None = None) -> tuple[Errors, list[Surge | None]]:
    """What is known after windows of (fine, bad) fetches, and the surge that begins in each."""
    known = errors or judge_errors(Errors(), CrawlReading(now=1000.0))[0]
    found = []
    for fine, bad in windows:
        reading = CrawlReading(now=known.began + WINDOW_SECONDS, fine=known.fine + fine, bad=known.bad + bad)
        known, surge = judge_errors(known, reading)
        found.append(surge)
    return known, found


def test_a_jump_is_a_surge_once_and_again_after_it_ended() -> None:
    calm, wild = (95, 5), (40, 60)
    _, found = judged([calm] * 9 + [wild] * 9 + [calm] * 3 + [wild])
    assert [number for number, surge in enumerate(found) if surge] == [9, 21]
    assert found[9] and (found[9].bad, found[9].fetches, round(found[9].mean, 3)) == (60, 100, 0.05)


def test_a_surge_that_lasts_becomes_the_usual() -> None:
    minutes = int(SURGE_SECONDS / WINDOW_SECONDS)
    known, found = judged([(95, 5)] * 9 + [(40, 60)] * (minutes + LEARNED + 5))
    assert sum(surge is not None for surge in found) == 1
    assert known.surge == 0 and math.isclose(known.past.mean, 0.6)


def test_nothing_is_judged_before_the_past_is_known() -> None:
    _, found = judged([(100, 0)] * (LEARNED - 1) + [(0, 100)])
    assert found == [None] * LEARNED


def test_few_fetches_and_short_windows_are_not_judged() -> None:
    known, _ = judged([(100, 0)] * 9)
    few = CrawlReading(now=known.began + 9999, fine=known.fine, bad=known.bad + 49)
    assert judge_errors(known, few) == (known, None)
    soon = CrawlReading(now=known.began + WINDOW_SECONDS - 1, fine=known.fine, bad=known.bad + 500)
    assert judge_errors(known, soon) == (known, None)


def test_repeated_fetches_count_as_errors() -> None:
    known, _ = judged([(100, 0)] * 9)
    dead = CrawlReading(
        now=known.began + WINDOW_SECONDS, fine=known.fine, bad=known.bad, retried=known.retried + 80
    )
    assert judge_errors(known, dead)[1] == Surge(known.began, WINDOW_SECONDS, 80, 80, 0.0)


def test_totals_that_went_back_begin_a_window() -> None:
    known, _ = judged([(100, 0)] * 9)
    after, surge = judge_errors(known, CrawlReading(now=known.began + 99, fine=1, bad=1))
    assert (surge, after.fine, after.bad, after.past) == (None, 1, 1, known.past)


def test_binomial_noise_is_no_surge() -> None:
    dice = random.Random(7)
    for share in (0.0, 0.02, 0.3, 0.7, 1.0):
        windows = [sum(dice.random() < share for _ in range(60)) for _ in range(2000)]
        _, found = judged([(60 - bad, bad) for bad in windows])
        assert [surge for surge in found if surge] == [], share


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_mean_and_variance_are_those_of_the_shares(shares: list[float]) -> None:
    """The first ten windows have equal weights; later ones keep mean and variance within their bounds."""
    past = Past()
    for share in shares:
        past = past.and_then(share)
    if len(shares) <= 10:
        mean = sum(shares) / len(shares)
        assert math.isclose(past.mean, mean, abs_tol=1e-9)
        variance = sum((share - mean) ** 2 for share in shares) / len(shares)
        assert math.isclose(past.variance, variance, abs_tol=1e-9)
    assert min(shares) - 1e-9 <= past.mean <= max(shares) + 1e-9
    assert -1e-9 <= past.variance <= 0.25 + 1e-9


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 60),
    st.lists(st.integers(-5, 5), min_size=LEARNED, max_size=30),
    st.integers(0, 100),
)
def test_a_steady_share_is_none_and_a_large_rise_is_a_surge(
    usual: int, changes: list[int], last: int
) -> None:
    """Shares within five points of a usual one never surge; one that is 45 points higher does."""
    steady = [min(max(usual + change, 0), 100) for change in changes]
    known, found = judged([(100 - bad, bad) for bad in steady])
    assert found == [None] * len(steady)
    _, [surge] = judged([(100 - last, last)], known)
    if last <= usual:
        assert surge is None
    if last >= usual + 45:
        assert surge is not None
