"""The delay that adapts to what a host can bear."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.hosts.adaptation import MOST_FACTOR, RATE_STEP, RECENT, WINDOW, Adaptation

SECONDS = st.floats(0, 100)
LATENCIES = st.lists(st.one_of(st.floats(0, 10), st.none()), max_size=60)


def play(adaptation: Adaptation, latencies: list[float | None]) -> None:
    for latency in latencies:
        if latency is None:
            adaptation.strained()
        else:
            adaptation.answered(latency)


@given(SECONDS, SECONDS, SECONDS, LATENCIES)
def test_the_delay_stays_within_its_bounds(
    usual: float, least: float, start: float, latencies: list[float | None]
) -> None:
    adaptation = Adaptation(usual, least)
    adaptation.begin_with(start)
    for latency in latencies:
        play(adaptation, [latency])
        assert least <= adaptation.delay <= MOST_FACTOR * max(usual, least)


@given(st.floats(0.01, 10), st.lists(st.floats(0.1, 0.11), max_size=60), st.integers(1, RECENT))
def test_one_strain_doubles_and_what_was_under_way_does_not(
    usual: float, latencies: list[float], errors: int
) -> None:
    adaptation = Adaptation(usual, 0.001)
    play(adaptation, [*latencies])
    before = adaptation.delay
    play(adaptation, [None] * errors)
    assert adaptation.delay == 2 * before
    play(adaptation, [None] * (RECENT + 2 - errors))
    assert adaptation.delay == 4 * before


@given(st.floats(0.01, 10), st.integers(RECENT, 200))
def test_flat_latency_lowers_the_delay_step_by_step(usual: float, answers: int) -> None:
    adaptation, delays = Adaptation(usual, usual / 100), [usual]
    for _ in range(answers):
        adaptation.answered(0.1)
        delays.append(adaptation.delay)
    assert delays == sorted(delays, reverse=True)
    steps = answers - RECENT + 1
    assert delays[-1] == pytest.approx(max(usual / (1 + steps * RATE_STEP), usual / 100))


def test_a_slow_page_is_no_strain_and_a_queue_is() -> None:
    adaptation = Adaptation(1.0, 0.1)
    play(adaptation, [0.1] * 20)
    before = adaptation.delay
    play(adaptation, [5.0, 0.1, 5.0, 5.0, 5.0, 0.1])
    assert adaptation.delay < before
    before = adaptation.delay
    play(adaptation, [0.3] * (RECENT - 1))
    assert adaptation.delay < before, "the answer before them was quick"
    before = adaptation.delay
    play(adaptation, [0.3])
    assert adaptation.delay == 2 * before


def test_a_host_that_has_become_slower_for_good_has_a_new_base() -> None:
    adaptation = Adaptation(1.0, 0.1)
    play(adaptation, [0.1] * 20)
    play(adaptation, [0.5] * 2 * WINDOW)
    before = adaptation.delay
    play(adaptation, [0.5] * WINDOW)
    assert adaptation.delay < before


def test_a_latency_that_was_not_measured_counts_for_nothing() -> None:
    adaptation = Adaptation(1.0, 0.1)
    play(adaptation, [0.0] * 100)
    assert adaptation.delay == 1.0


def queue(
    adaptation: Adaptation, service: float, others: float, answers: int, seed: int
) -> list[tuple[float, float]]:
    """Plays a server that works `service` seconds on each request, for us and, at random times, `others` a second.

    Requests wait in one queue (M/D/1), and ours is answered when its work begins: the rest is done behind its back, so
    that the rate of a client with one connection can exceed what the server bears. Returns delay and latency of each.
    """
    dice, now, busy_until, found = random.Random(seed), 0.0, 0.0, []
    next_other = dice.expovariate(others) if others else math.inf
    for _ in range(answers):
        now += adaptation.delay
        while next_other <= now:
            busy_until = max(busy_until, next_other) + service
            next_other += dice.expovariate(others)
        latency = max(busy_until - now, 0.0) + 0.02
        busy_until = max(busy_until, now) + service
        now += latency
        found.append((adaptation.delay, latency))
        adaptation.answered(latency)
    return found


@cases("others", [0.0, 1.0, 2.0])
@cases("seed", range(3))
def test_it_settles_below_the_knee_of_a_queue(others: float, seed: int) -> None:
    service = 0.2
    knee = 1 / service - others
    found = queue(Adaptation(2.0, 0.01), service, others, 4000, seed)
    settled = found[1000:]
    rate = len(settled) / sum(delay + latency for delay, latency in settled)
    assert 0.3 * knee < rate < knee
    # without adaptation the wait would grow until each request meets a full queue
    assert sum(latency for _, latency in settled) / len(settled) < 2 * service
    assert found[0][0] == 2.0 and min(delay for delay, _ in settled) < 1.0
