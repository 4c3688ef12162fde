"""Turns at hosts under many concurrent tasks, checked by the times that the tasks record."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections import defaultdict

import pytest
from hypothesis import given, settings, strategies as st

import webcrawl.hosts.host_slots
from tests.pacing import FAST, HOST, OTHER, Log, most_at_once, opened, request, run, shortest_gap
from webcrawl.config import PolitenessConfig, PolitenessRule, politeness_rule
from webcrawl.errors import LeaseLost
from webcrawl.hosts.politeness import Failed, Ok, Outcome, Throttled
from webcrawl.hosts.rules import HostRules
from webcrawl.hosts.turns import Turns


def test_requests_to_a_host_run_one_at_a_time_with_a_gap() -> None:
    turns, log, dice = Turns(PolitenessConfig(delay=0.02)), Log(), random.Random(1)
    log = defaultdict(list)
    hosts = [f"http://{number}.example" for number in range(4)]

    async def crawl() -> None:
        for host in hosts[:2]:  # requests to the others need no lease
            opened(turns, host)
        jobs = [request(turns, log, host, dice.uniform(0, 0.01)) for host in hosts for _ in range(25)]
        dice.shuffle(jobs)
        await asyncio.gather(*jobs)

    run(crawl())
    for host in hosts:
        assert len(log[host]) == 25
        assert most_at_once(log[host]) == 1
        assert 0.02 <= shortest_gap(log[host]) < 0.2
    # hosts do not block each other: 25 x 0.02 s each
    assert max(end for spans in log.values() for _, end in spans) - min(log[hosts[0]])[0] < 4
    assert turns.waiting == 0


def test_concurrent_requests_reach_the_limit_with_spaced_starts() -> None:
    turns = Turns(PolitenessConfig(delay=0.01, concurrency=3))
    log: Log = defaultdict(list)

    async def crawl() -> None:
        opened(turns)
        await asyncio.gather(*(request(turns, log, seconds=0.06) for _ in range(20)))

    run(crawl())
    assert most_at_once(log[HOST]) == 3
    starts = sorted(start for start, _ in log[HOST])
    # the event loop may delay one start towards the next, but not all of them
    assert starts[-1] - starts[0] >= 18 * 0.01


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([HOST, OTHER]),
            st.floats(0, 0.004),
            st.sampled_from([Ok(), Ok(0.001), Throttled(0.005), Failed()]),
            st.booleans(),
        ),
        max_size=25,
    ),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_limits_hold_with_failures_and_cancellations(
    jobs: list[tuple[str, float, Outcome, bool]], concurrency: int, total: int
) -> None:
    """Requests fail, are throttled, or are cancelled while waiting or in flight."""
    config = PolitenessConfig(delay=0.001, concurrency=concurrency, backoff=0.004, connect_backoff=0.002)
    turns = Turns(config, total=total)
    log: Log = defaultdict(list)

    async def crawl() -> None:
        opened(turns)
        tasks = [
            asyncio.create_task(request(turns, log, host, seconds, outcome))
            for host, seconds, outcome, _ in jobs
        ]
        for task, (_, seconds, _, cancelled) in zip(tasks, jobs, strict=True):
            if cancelled:
                await asyncio.sleep(seconds)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # requests to both hosts are still possible
        await request(turns, log)
        await request(turns, log, OTHER)

    run(crawl())
    for spans in log.values():
        assert most_at_once(spans) <= concurrency
        if concurrency == 1 and len(spans) > 1:
            assert shortest_gap(spans) >= 0.001
    if total:
        assert most_at_once(itertools.chain.from_iterable(log.values())) <= total
    assert turns.waiting == 0


@settings(max_examples=15)
@given(st.lists(st.tuples(st.floats(0, 0.05), st.booleans()), min_size=2, max_size=8), st.integers(2, 8))
def test_requests_are_written_a_gap_apart_however_long_they_connect(
    requests: list[tuple[float, bool]], concurrency: int
) -> None:
    """Some are refused on the open connection, and are not written."""
    turns = Turns(PolitenessConfig(delay=0.01, concurrency=concurrency))
    written: list[float] = []

    async def ask(connects: float, is_refused: bool) -> None:
        turn = await turns.take(HOST)
        try:
            await asyncio.sleep(connects)
            async with turns.sending(turn):
                if is_refused:
                    raise LeaseLost
                written.append(time.monotonic())
        finally:
            turns.give(HOST, turn, Ok())

    async def crawl() -> None:
        opened(turns)
        await asyncio.gather(*(ask(*one) for one in requests), return_exceptions=True)

    run(crawl())
    assert len(written) == sum(not is_refused for _, is_refused in requests)
    assert all(after - before >= 0.01 for before, after in itertools.pairwise(written))


def test_throttled_host_waits_and_others_continue() -> None:
    turns = Turns(FAST)
    log: Log = defaultdict(list)

    async def crawl() -> None:
        opened(turns)
        await request(turns, log, outcome=Throttled(1.5))
        again = asyncio.create_task(request(turns, log))
        for _ in range(20):
            await request(turns, log, OTHER)
        assert turns.waiting == 1, "the others had to wait"
        await again

    run(crawl())
    assert shortest_gap(log[HOST]) >= 1.5


def test_waiting_requests_are_counted() -> None:
    turns = Turns(FAST)

    async def crawl() -> None:
        turn = await turns.take(HOST)
        waiting = [asyncio.create_task(turns.take(HOST)) for _ in range(3)]
        await asyncio.sleep(0)
        assert turns.waiting == 3
        waiting[0].cancel()
        turns.give(HOST, turn, Ok())
        turns.give(HOST, await waiting[1], Ok())
        await waiting[2]
        assert turns.waiting == 0

    run(crawl())


# --- leases ---


def test_take_fails_after_the_lease_expired() -> None:
    turns = Turns(PolitenessConfig(delay=0.05))

    async def crawl() -> None:
        opened(turns, valid_for=0.02)
        turns.give(HOST, await turns.take(HOST), Ok())
        with pytest.raises(LeaseLost):
            await turns.take(HOST)
        turns.host_slots.extend(HOST, time.monotonic() + 1)
        turns.give(HOST, await turns.take(HOST), Ok())

    run(crawl())


def test_turn_is_invalid_after_its_lease_is_lost() -> None:
    """As when the process was suspended, or connecting took long, after the turn was taken."""
    turns = Turns(FAST)

    async def crawl() -> None:
        opened(turns, valid_for=0.5)
        turn = await turns.take(HOST)
        assert turns.holds(turn)
        await asyncio.sleep(0.51)
        assert not turns.holds(turn)
        turns.host_slots.extend(HOST, time.monotonic() + 5)
        assert turns.holds(turn)
        turns.host_slots.close(HOST)
        opened(turns)
        assert not turns.holds(turn), "the turn belongs to the old lease"
        turns.give(HOST, turn, Ok())

    run(crawl())


def test_lost_lease_ends_the_wait_at_once() -> None:
    """Not at the end of the backoff, which may be a day later."""
    turns = Turns(FAST)

    async def crawl() -> None:
        opened(turns, valid_for=0.5)
        turns.give(HOST, await turns.take(HOST), Throttled(3600))
        began = time.monotonic()
        with pytest.raises(LeaseLost):
            await turns.take(HOST)
        assert 0.05 < time.monotonic() - began < 60

    run(crawl())


def test_waiting_continues_under_an_extended_lease() -> None:
    turns = Turns(PolitenessConfig(delay=0.2))

    async def crawl() -> None:
        opened(turns, valid_for=0.5)
        turns.give(HOST, await turns.take(HOST), Ok())
        waiting = asyncio.create_task(turns.take(HOST))
        await asyncio.sleep(0.05)
        turns.host_slots.extend(HOST, time.monotonic() + 5)
        turns.give(HOST, await waiting, Ok())

    run(crawl())


def test_closing_a_host_fails_its_waiting_requests() -> None:
    turns = Turns(FAST)

    async def crawl() -> None:
        opened(turns)
        turn = await turns.take(HOST)
        waiting = [asyncio.create_task(turns.take(HOST)) for _ in range(3)]
        await asyncio.sleep(0)
        turns.host_slots.close(HOST)
        turns.give(HOST, turn, Ok())
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [LeaseLost] * 3
        # a new lease starts afresh
        opened(turns)
        turns.give(HOST, await turns.take(HOST), Ok())

    run(crawl())


def test_limits_hold_when_a_lease_opens_during_unleased_requests() -> None:
    """As for a robots.txt reached by a redirect from another host."""
    turns = Turns(PolitenessConfig(delay=0.02))
    log: Log = defaultdict(list)

    async def crawl() -> None:
        first = [asyncio.create_task(request(turns, log, seconds=0.05)) for _ in range(2)]
        await asyncio.sleep(0.01)
        turns.host_slots.open(HOST, failures=2, delay=0.04, valid_until=math.inf)
        assert turns.turn(HOST).failures == 2
        await asyncio.gather(*first, *(request(turns, log) for _ in range(3)))

    run(crawl())
    assert len(log[HOST]) == 5
    assert most_at_once(log[HOST]) == 1
    assert shortest_gap(log[HOST]) >= 0.04


def test_turn_given_back_late_does_not_affect_the_new_lease() -> None:
    turns = Turns(FAST)

    async def crawl() -> None:
        opened(turns)
        old = await turns.take(HOST)
        turns.host_slots.close(HOST)
        opened(turns)
        new = await turns.take(HOST)
        turns.give(HOST, old, Failed())
        assert turns.turn(HOST) is new and new.failures == 0
        assert new.in_flight == 1
        turns.give(HOST, new, Ok())
        turns.give(HOST, await turns.take(HOST), Ok())

    run(crawl())


# --- delays ---


def test_larger_of_crawl_delay_and_operator_delay_applies() -> None:
    turns = Turns(PolitenessConfig(delay=1))
    turn = turns.host_slots.open(HOST, failures=0, delay=5.0, valid_until=math.inf)
    assert turn.gap == 5
    turns.set_crawl_delay(HOST, 3)
    assert turn.gap == 5
    turns.set_crawl_delay(HOST, 8)
    assert turn.gap == 8
    turns.set_crawl_delay(HOST, None)
    assert turn.gap == 5
    turns.set_crawl_delay(OTHER, 2)
    assert turns.turn(OTHER).gap == 2


def test_operator_can_change_the_delay_of_a_leased_host() -> None:
    turns = Turns(PolitenessConfig(delay=1, max_crawl_delay=60))
    turn = turns.host_slots.open(HOST, failures=0, delay=None, valid_until=math.inf)
    turns.set_crawl_delay(HOST, 3)
    assert turns.set_delay(HOST, 100)
    assert turn.gap == 100, "only the crawl delay of robots.txt is capped"
    assert not turns.set_delay(HOST, 100)
    assert turns.set_delay(HOST, None)
    assert turn.gap == 3, "the crawl delay of robots.txt is kept"


def test_shorter_delay_applies_to_waiting_requests() -> None:
    turns = Turns(FAST)

    async def crawl() -> None:
        opened(turns)
        turns.set_delay(HOST, 3600)
        turns.give(HOST, await turns.take(HOST), Ok())
        waiting = asyncio.create_task(turns.take(HOST))
        await asyncio.sleep(0.01)
        turns.set_delay(HOST, None)
        turns.give(HOST, await waiting, Ok())

    run(crawl())


def test_configuration_of_a_single_host_applies() -> None:
    turns = Turns(FAST, {"b.example": PolitenessConfig(delay=7, concurrency=2)})
    opened(turns, "https://b.example:8443")
    assert turns.turn("https://b.example:8443").gap == 7
    assert turns.turn(OTHER).gap == 7
    assert turns.turn("http://c.b.example").gap == 0
    assert turns.config_of(OTHER).concurrency == 2


def test_unresolved_host_counts_as_one_failure() -> None:
    turns = Turns(PolitenessConfig(delay=0, connect_backoff=50, jitter=0))
    opened(turns)
    turns.fail(HOST)
    turn = turns.turn(HOST)
    assert (turn.failures, turn.in_flight) == (1, 0)
    assert 49 < turn.wait(time.monotonic()) <= 50
    turns.fail(HOST)  # no request in between: not a second failure
    assert turn.failures == 1


def test_idle_hosts_without_a_lease_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webcrawl.hosts.host_slots, "_IDLE_HOSTS_KEPT", 3)
    turns = Turns(FAST)
    first = turns.turn("http://0.example")
    for number in range(1, 4):
        turns.turn(f"http://{number}.example")
        assert turns.turn("http://0.example") is (first if number < 9 else None)
    turns.turn("http://9.example")
    assert turns.turn("http://0.example") is first
    for number in range(10, 14):
        turns.turn(f"http://{number}.example")
    assert turns.turn("http://0.example") is not first


def test_a_host_that_never_answered_gets_more_time_with_each_failure() -> None:
    """A host whose answer begins after 20 s is fetched at the third attempt, and one that takes longer at the last."""
    turns = Turns(PolitenessConfig(max_failures=4))
    seconds = []
    for failures in range(4):
        turns.host_slots.open(HOST, failures=failures, delay=None, valid_until=math.inf)
        seconds.append(turns.host_slots.patience(HOST, turns.turn(HOST), attempts=5))
        turns.host_slots.close(HOST)
    assert seconds == [5.0, 15.0, 45.0, math.inf]
    slots, turn = turns.host_slots, turns.turn(OTHER)
    assert slots.patience(OTHER, turn, attempts=1) == math.inf, "the first attempt is the last one"
    slots.has_answered(OTHER)
    assert slots.patience(OTHER, turn, attempts=5) == math.inf, "DOWNLOAD_TIMEOUT alone counts"


def test_hosts_of_a_domain_that_is_known_to_be_slow_get_more_time() -> None:
    slots = Turns(PolitenessConfig()).host_slots
    known, new, other = ("http://a.slow.example", "https://b.slow.example", "http://c.example")
    slots.has_answered(known, 8.0)
    slots.has_answered("http://fast.slow.example", 2.0)
    assert slots.patience(new, slots.of(new).turn, attempts=5) == 24.0
    assert slots.patience(other, slots.of(other).turn, attempts=5) == 5.0


def test_changed_rules_apply_to_known_hosts() -> None:
    entry = {"match": "a.example", "delay": 3600, "connections": 1}

    def table(**fields: object) -> dict[str, PolitenessRule]:
        return {"a.example": politeness_rule("entry 1", {**entry, **fields})}

    rules = HostRules([("entry 1", table()["a.example"])], FAST, {})
    turns = Turns(FAST, rules=rules)

    async def crawl() -> None:
        opened(turns)
        turns.give(HOST, await turns.take(HOST), Ok())
        waiting = asyncio.create_task(turns.take(HOST))
        await asyncio.sleep(0.01)
        rules.use(table(delay=0, connections=3))
        assert turns.host_slots.reconfigure() == [HOST]
        taken = [await waiting, await turns.take(HOST), await turns.take(HOST)]
        rules.use(table(delay=0, connections=1))
        assert turns.host_slots.reconfigure() == []
        for turn in taken:
            turns.give(HOST, turn, Ok())
        last = await turns.take(HOST)
        another = asyncio.create_task(turns.take(HOST))
        await asyncio.sleep(0.01)
        assert not another.done()
        turns.give(HOST, last, Ok())
        turns.give(HOST, await another, Ok())

    run(crawl())
