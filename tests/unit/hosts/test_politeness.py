"""When the next request to a host may start: exact examples, and a state machine that tries to be impolite."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cases import cases
from webcrawl.config import PolitenessConfig
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.politeness import (
    Failed,
    HostTurn,
    Ok,
    Outcome,
    Pace,
    Throttled,
    Unjudged,
    parse_retry_after,
)

EXACT = PolitenessConfig(jitter=0.0)


def ready_after(turn: HostTurn, at: float, outcome: Outcome, took: float = 0.0) -> float:
    """Makes one request; returns the time from which the next may start."""
    turn.start(at)
    turn.finish(at + took, outcome)
    return turn.ready_at


def test_gap_counts_from_completion() -> None:
    turn = HostTurn(EXACT, None, now=100.0)
    assert turn.may_start(100.0)
    turn.start(100.0)
    assert turn.ready_at == math.inf
    assert not turn.may_start(10_000.0)
    turn.finish(107.0, Ok(7.0))
    assert turn.ready_at == 108.0
    assert not turn.may_start(107.999)
    assert turn.may_start(108.0)


@cases(
    ("config", "crawl_delay", "latency", "gap"),
    [
        (EXACT, None, 9.0, 1.0),
        (EXACT, 0.5, 9.0, 1.0),
        (EXACT, 5.0, 9.0, 5.0),
        (EXACT, 3600.0, 9.0, 60.0),
        (EXACT, math.inf, 9.0, 60.0),
        (EXACT, math.nan, 9.0, 1.0),
        (EXACT, -3.0, 9.0, 1.0),
        (replace(EXACT, latency_factor=2.0), 5.0, 9.0, 18.0),
        (replace(EXACT, latency_factor=2.0), 5.0, 1.0, 5.0),
        (replace(EXACT, latency_factor=2.0), None, math.nan, 1.0),
        (replace(EXACT, latency_factor=2.0), None, math.inf, 1.0),
        (replace(EXACT, latency_factor=1e9), None, 1e9, 86400.0),
        (replace(EXACT, delay=0.0), None, 9.0, 0.0),
    ],
)
def test_largest_gap_applies(
    config: PolitenessConfig, crawl_delay: float | None, latency: float, gap: float
) -> None:
    turn = HostTurn(config, crawl_delay, now=0.0)
    assert ready_after(turn, 0.0, Ok(latency), took=9.0) == 9.0 + gap


def test_a_turn_tells_how_fast_its_host_is_asked_and_why() -> None:
    turn = HostTurn(EXACT, None, now=0.0)
    assert turn.pace(0.0) == Pace(1.0, "settings", 0.0, "", 0)
    turn.set_crawl_delay(5.0)
    ready_after(turn, 0.0, Ok())
    assert turn.pace(1.0) == Pace(5.0, "Crawl-delay", 4.0, "gap", 0)
    turn.set_delay(7.0)
    assert turn.pace(1.0) == Pace(7.0, "operator", 6.0, "gap", 0)
    turn.set_delay(None)
    ready_after(turn, 5.0, Throttled(60.0))
    assert turn.pace(15.0) == Pace(5.0, "Crawl-delay", 50.0, "Retry-After", 1)
    ready_after(turn, 65.0, Throttled(1.0))
    assert turn.pace(65.0) == Pace(5.0, "Crawl-delay", 5.0, "gap", 2), "the gap is longer"
    slow = HostTurn(replace(EXACT, latency_factor=2.0), None, failures=2, wait=30.0, now=0.0)
    assert slow.pace(10.0) == Pace(1.0, "settings", 20.0, "back-off", 2)
    ready_after(slow, 30.0, Ok(3.0))
    assert slow.pace(30.0) == Pace(6.0, "answer time", 6.0, "gap", 0)


def test_a_robots_txt_counts_where_the_host_wants_more_than_the_usual_delay() -> None:
    def ready_after_rules(turn: HostTurn, at: float) -> float:
        turn.start(at)
        turn.finish(at, Ok(), rules=True)
        return turn.ready_at

    turn = HostTurn(EXACT, None, now=0.0)
    assert ready_after_rules(turn, 0.0) <= 0.0
    turn.set_crawl_delay(5.0)
    assert (turn.ready_at, turn.wait(1.0)) == (5.0, 4.0)
    assert ready_after(turn, 5.0, Ok()) == 10.0
    turn.set_crawl_delay(None)
    assert turn.ready_at == 6.0
    assert ready_after_rules(turn, 6.0) == 6.0, "the page before it counts as always"
    turn.set_delay(3.0)
    assert turn.ready_at == 9.0, "an operator wants more"
    by_rule = HostTurn(replace(EXACT, delay=4.0), None, now=0.0, usual_delay=1.0)
    assert ready_after_rules(by_rule, 0.0) == 4.0, "a rule for the host wants more"
    slow = HostTurn(replace(EXACT, latency_factor=2.0), None, now=0.0)
    slow.start(0.0)
    slow.finish(3.0, Ok(3.0), rules=True)
    assert slow.ready_at == 9.0, "its server is slow"
    for outcome, block in ((Throttled(7.0), 7.0), (Failed(), 10.0)):
        turn = HostTurn(EXACT, None, now=0.0)
        turn.start(0.0)
        turn.finish(0.0, outcome, rules=True)
        assert turn.ready_at == block


def test_crawl_delay_set_later_applies_at_once() -> None:
    turn = HostTurn(EXACT, None, now=0.0)
    assert ready_after(turn, 0.0, Ok()) == 1.0
    turn.set_crawl_delay(10.0)
    assert turn.ready_at == 10.0


def test_concurrent_starts_keep_the_delay() -> None:
    turn = HostTurn(replace(EXACT, concurrency=2), None, now=0.0)
    turn.start(0.0)
    assert turn.ready_at == 1.0
    turn.start(1.0)
    assert turn.ready_at == math.inf
    turn.finish(1.5, Ok(1.5))
    assert turn.ready_at == 2.5
    turn.start(2.5)
    turn.finish(2.6, Ok())
    turn.finish(2.7, Ok())
    assert turn.ready_at == 3.7


def test_retry_after_is_honoured_exactly() -> None:
    turn = HostTurn(EXACT, None, now=0.0)
    assert ready_after(turn, 0.0, Throttled(3.0)) == 3.0
    assert ready_after(turn, 3.0, Throttled(0.0)) == 4.0, "the usual gap still applies"
    assert ready_after(turn, 4.0, Throttled(1e9)) == 4.0 + 86400.0


@pytest.mark.parametrize(("outcome", "first"), [(Throttled(), 60.0), (Failed(), 10.0)])
def test_backoff_doubles_up_to_its_limit(outcome: Outcome, first: float) -> None:
    turn, now, waits = HostTurn(EXACT, None, now=0.0), 0.0, []
    for _ in range(15):
        ready = ready_after(turn, now, outcome)
        waits.append(ready - now)
        now = ready
    assert waits == [min(first * 2**n, 86400.0) for n in range(15)]


def test_jitter_only_lengthens_the_backoff() -> None:
    for chance, wait in ((0.0, 60.0), (0.5, 63.0), (1.0, 66.0)):
        turn = HostTurn(PolitenessConfig(jitter=0.1), None, now=0.0, random=iter([chance]).__next__)
        assert ready_after(turn, 0.0, Throttled()) == pytest.approx(wait)


def test_success_resets_failures_and_four_in_a_row_give_up() -> None:
    turn, now = HostTurn(EXACT, None, now=0.0), 0.0
    for outcome in (Failed(), Throttled(), Failed(), Throttled(5.0), Ok()):
        assert not turn.given_up
        now = ready_after(turn, now, outcome)
    assert turn.failures == 0
    for number in range(4):
        assert turn.failures == number
        assert not turn.given_up
        now = ready_after(turn, now, Failed())
    assert turn.given_up


def test_a_request_that_says_nothing_about_the_host_changes_neither_gap_nor_failures() -> None:
    turn = HostTurn(replace(EXACT, latency_factor=10.0), None, now=0.0)
    assert ready_after(turn, 0.0, Ok(3.0)) == 30.0
    assert ready_after(turn, 30.0, Unjudged()) == 60.0
    now = ready_after(turn, 60.0, Failed())
    now = ready_after(turn, now, Unjudged())
    assert turn.failures == 1
    ready_after(turn, now, Failed())
    assert turn.failures == 2


def test_idle_time_resets_failures_but_backoff_is_not_idle_time() -> None:
    turn = HostTurn(EXACT, None, failures=9, wait=5000.0, now=0.0)
    turn.start(5000.0 + 1799.0)
    assert turn.failures == 9
    turn.finish(5000.0 + 1799.0, Failed())
    assert turn.failures == 10
    turn.start(turn.ready_at + 1800.0)
    assert turn.failures == 0
    assert not turn.given_up
    assert HostTurn(EXACT, None, failures=9, wait=-1800.0, now=0.0).failures == 0


def test_concurrent_throttled_responses_count_once() -> None:
    config = replace(EXACT, concurrency=5, delay=0.0)
    turn = HostTurn(config, None, now=0.0)
    for _ in range(5):
        turn.start(0.0)
    turn.finish(1.0, Throttled())
    turn.finish(1.1, Throttled())
    turn.finish(1.2, Ok())
    assert (turn.failures, turn.ready_at) == (1, 61.0)
    turn.finish(1.3, Throttled(300.0))
    turn.finish(1.4, Throttled(5.0))
    assert (turn.failures, turn.ready_at) == (1, 301.3)


def test_start_or_finish_out_of_turn_raises() -> None:
    turn = HostTurn(EXACT, None, wait=2.0, now=0.0)
    for moment in (0.0, 1.9):
        with pytest.raises(RuntimeError):
            turn.start(moment)
    with pytest.raises(RuntimeError):
        turn.finish(0.0, Ok())
    turn.start(2.0)
    with pytest.raises(RuntimeError):
        turn.start(10.0)


def test_wait_and_failures_carry_over_to_the_next_holder() -> None:
    turn = HostTurn(EXACT, 7.0, now=1000.0)
    ready_after(turn, 1000.0, Throttled(30.0))
    assert turn.wait(1010.0) == 20.0
    successor = HostTurn(EXACT, 7.0, failures=turn.failures, wait=turn.wait(1010.0), now=5.0)
    assert (successor.ready_at, successor.failures) == (25.0, 1)
    assert turn.wait(2000.0) == 0.0
    turn.start(2000.0)
    assert turn.wait(2003.0) == 7.0, "a request in flight counts as ending now"


@cases(
    ("field", "setting"),
    [
        ("delay", "DOWNLOAD_DELAY"),
        ("concurrency", "CONCURRENT_REQUESTS_PER_DOMAIN"),
        ("max_crawl_delay", "POLITENESS_MAX_CRAWL_DELAY"),
        ("latency_factor", "POLITENESS_LATENCY_FACTOR"),
        ("backoff", "POLITENESS_BACKOFF"),
        ("max_backoff", "POLITENESS_MAX_BACKOFF"),
        ("max_failures", "POLITENESS_MAX_FAILURES"),
    ],
)
@cases("value", [-1, math.nan, math.inf, "1", None, True])
def test_invalid_value_names_its_setting(field: str, setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting} must be"):
        replace(EXACT, **dict[str, Any]({field: value}))


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"concurrency": 0}, "CONCURRENT_REQUESTS_PER_DOMAIN"),
        ({"max_failures": 1.5}, "POLITENESS_MAX_FAILURES"),
        ({"backoff": 100.0, "max_backoff": 99.0}, "POLITENESS_BACKOFF is larger than POLITENESS_MAX_BACKOFF"),
    ],
)
def test_inconsistent_values_are_rejected(changes: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        replace(EXACT, **changes)


NOW = datetime(2025, 6, 25, 12, tzinfo=UTC)


@cases(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        (b" 120 ", 120.0),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("9" * 5000, 315360000.0),
        ("Wed, 25 Jun 2025 12:00:30 GMT", 30.0),
        ("Wednesday, 25-Jun-25 12:00:30 GMT", 30.0),
        ("Wed Jun 25 12:00:30 2025", 30.0),
        ("Wed, 25 Jun 2025 11:00:00 GMT", None),
        ("Wed, 25 Jun 9999 11:00:00 GMT", 315360000.0),
        ("Wed, 45 Jun 2025 99:00:00 GMT", None),
    ],
)
def test_retry_after_is_parsed_to_seconds(value: str | bytes | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_any_retry_after_is_parsed_without_error(value: str | bytes) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 < seconds < math.inf


durations = st.floats(0, 1e4)
outcomes = st.one_of(
    st.builds(Ok, st.floats()),
    st.builds(Throttled, st.none() | st.floats()),
    st.just(Failed()),
    st.just(Unjudged()),
)


class ImpoliteCrawler(RuleBasedStateMachine):
    """Starts whenever allowed, finishes with any outcome, and keeps its own record of the required waits."""

    @initialize(
        delay=durations,
        concurrency=st.integers(1, 4),
        factor=st.floats(0, 5),
        jitter=st.floats(0, 1),
        backoff=st.floats(0, 500),
        crawl_delay=st.none() | st.floats(),
        failures=st.integers(0, 2000),
        wait=st.floats(-1e4, 1e4),
    )
    def begin(
        self,
        delay: float,
        concurrency: int,
        factor: float,
        jitter: float,
        backoff: float,
        crawl_delay: float | None,
        failures: int,
        wait: float,
    ) -> None:
        self.config = PolitenessConfig(
            delay=delay, concurrency=concurrency, latency_factor=factor, jitter=jitter, backoff=backoff
        )
        self.now = 1e6
        self.crawl_delay = crawl_delay
        self.turn = HostTurn(self.config, crawl_delay, failures, wait, now=self.now)
        self.may_not_before = self.now + wait
        self.running = 0

    @rule(seconds=durations)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: math.isfinite(self.turn.ready_at))
    @rule()
    def wait_until_ready(self) -> None:
        self.now = max(self.now, self.turn.ready_at)
        assert self.turn.may_start(self.now)

    @precondition(lambda self: self.turn.may_start(self.now))
    @rule()
    def start(self) -> None:
        assert self.running < self.config.concurrency
        assert self.now >= self.may_not_before
        self.turn.start(self.now)
        self.running += 1
        if self.config.concurrency > 1:
            self.must_wait(self.config.delay)

    @precondition(lambda self: self.running)
    @rule(outcome=outcomes, rules=st.booleans())
    def finish(self, outcome: Outcome, rules: bool) -> None:
        blocked = self.now < self.may_not_before and self.turn.failures
        self.turn.finish(self.now, outcome, rules=rules)
        self.running -= 1
        if not rules:
            self.must_wait(self.config.delay)
        if isinstance(outcome, Throttled) and outcome.retry_after is not None and outcome.retry_after > 0:
            self.must_wait(min(outcome.retry_after, self.config.max_backoff))
        elif isinstance(outcome, Throttled) and outcome.retry_after is None and not blocked:
            self.must_wait(self.config.backoff)
        elif isinstance(outcome, Failed) and not blocked:
            self.must_wait(self.config.connect_backoff)

    @rule(seconds=st.none() | st.floats())
    def hear_crawl_delay(self, seconds: float | None) -> None:
        before, self.crawl_delay = self.turn.gap, seconds
        assert self.turn.set_crawl_delay(seconds) == (self.turn.gap != before)
        assert self.config.delay <= self.turn.gap < math.inf

    @rule()
    def hand_on(self) -> None:
        wait = self.turn.wait(self.now)
        assert 0 <= wait < math.inf
        if not self.running:
            self.turn = HostTurn(self.config, self.crawl_delay, self.turn.failures, wait, now=self.now)

    @invariant()
    def times_are_sane(self) -> None:
        if hasattr(self, "turn"):
            assert not math.isnan(self.turn.ready_at)
            assert (self.turn.ready_at == math.inf) is (self.running == self.config.concurrency)
            assert self.turn.in_flight == self.running

    def must_wait(self, seconds: float) -> None:
        # 1e-6: a hand-over converts the time to a duration and back
        self.may_not_before = max(self.may_not_before, self.now + seconds - 1e-6)


TestImpoliteCrawler = ImpoliteCrawler.TestCase
TestImpoliteCrawler.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
