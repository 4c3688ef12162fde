"""The verdict of the chaos run detects impolite requests."""

from __future__ import annotations

import math

import pytest

from benchmarks.chaos_verdict import TOLERANCE_SECONDS, politeness
from tests.web import Hit

DELAY = 2.0


def hit(started: float, finished: float, host: str = "127.0.1.1", path: str = "/") -> Hit:
    return Hit(host, path, "GET", {}, 1, started, finished)


def test_a_polite_log_has_no_fault() -> None:
    log = [hit(0, 1), hit(0.5, 0.6, "127.0.1.2"), hit(3, 3.1), hit(5.1 - TOLERANCE_SECONDS / 2, 6)]
    verdict = politeness(log, DELAY)
    assert (verdict.at_once, verdict.too_early, verdict.examples) == (0, 0, [])
    assert verdict.shortest_gap == pytest.approx(DELAY - TOLERANCE_SECONDS / 2)


@pytest.mark.parametrize("started", [1.0, 2.9])
def test_a_request_before_its_delay_is_too_early(started: float) -> None:
    verdict = politeness([hit(0, 1), hit(started, 4)], DELAY)
    assert (verdict.at_once, verdict.too_early) == (0, 1)


def test_early_requests_within_a_pause_are_excused() -> None:
    log = [hit(0, 1), hit(2.0, 2.1), hit(2.5, 2.6), hit(4.0, 4.1)]
    verdict = politeness(log, DELAY, [(1.9, 2.6)])
    assert (verdict.at_once, verdict.too_early, verdict.excused) == (0, 1, 2)


@pytest.mark.parametrize("end", [5.0, math.inf])
def test_overlaps_with_a_long_request_are_counted(end: float) -> None:
    verdict = politeness([hit(0, end), hit(2, 2.1), hit(4.5, 4.6)], DELAY)
    assert verdict.at_once == 2


def test_a_page_may_follow_robots_txt_but_not_overlap_with_it() -> None:
    robots = "/robots.txt"
    assert politeness([hit(0, 1, path=robots), hit(1.1, 2)], DELAY).too_early == 0
    assert politeness([hit(0, 1, path=robots), hit(0.5, 2)], DELAY).at_once == 1
    verdict = politeness([hit(0, 1), hit(3, 3.1, path=robots), hit(3.2, 4)], DELAY)
    assert (verdict.too_early, verdict.shortest_gap) == (0, pytest.approx(2.0))
    assert politeness([hit(0, 1), hit(1.5, 1.6, path=robots), hit(2.5, 3)], DELAY).too_early == 2
