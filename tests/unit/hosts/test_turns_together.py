"""The limit over all hosts, and waiting requests at the end of a crawl."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict

import pytest

from tests.pacing import FAST, HOST, OTHER, Log, most_at_once, opened, request, run, shortest_gap
from webcrawl.config import PolitenessConfig
from webcrawl.engine.keys import name_of
from webcrawl.errors import Abandoned, LeaseLost
from webcrawl.hosts.politeness import Failed, Ok, Throttled
from webcrawl.hosts.turns import Turns

# --- all hosts together ---


def test_total_limit_is_shared_by_hosts_that_are_ready_together() -> None:
    turns = Turns(PolitenessConfig(delay=0.1), total=3)
    log: Log = defaultdict(list)
    hosts = [f"http://{number}.example" for number in range(12)]

    async def crawl() -> None:
        await asyncio.gather(*(request(turns, log, host, seconds=0.02) for host in hosts for _ in range(3)))

    run(crawl())
    spans = [span for host in hosts for span in log[host]]
    assert len(spans) == 36
    assert most_at_once(spans) == 3
    assert min(shortest_gap(log[host]) for host in hosts) >= 0.1


def test_waiting_host_does_not_block_the_only_turn() -> None:
    turns = Turns(FAST, total=1)

    async def crawl() -> None:
        turns.give(HOST, await turns.take(HOST), Throttled(3600))
        held_back = asyncio.create_task(turns.take(HOST))
        for _ in range(3):
            turns.give(OTHER, await turns.take(OTHER), Ok())
        held_back.cancel()

    run(crawl())


def test_host_lost_or_failed_while_waiting_passes_its_turn_on() -> None:
    """A host that lost its lease or failed gets no request; another host gets the free turn."""
    turns = Turns(PolitenessConfig(delay=0, connect_backoff=3600, jitter=0), total=1)
    lost, failed = "http://lost.example", "http://failed.example"

    async def crawl() -> None:
        opened(turns, lost)
        first = await turns.take(HOST)
        waiting = [asyncio.create_task(turns.take(host)) for host in (lost, failed, OTHER)]
        await asyncio.sleep(0.01)
        turns.host_slots.close(lost)
        turns.fail(failed)
        turns.give(HOST, first, Ok())
        with pytest.raises(LeaseLost):
            await waiting[0]
        turns.give(OTHER, await waiting[2], Ok())
        assert turns.waiting == 1 and not waiting[1].done()
        waiting[1].cancel()

    run(crawl())


# --- hosts with the same name ---


def test_hosts_of_a_name_share_delay_connections_and_back_off() -> None:
    turns = Turns(PolitenessConfig(delay=0.05), unit=name_of)
    log: Log = defaultdict(list)
    hosts = [f"{HOST}{port}" for port in ("", ":81", ":82")]

    async def crawl() -> None:
        opened(turns, hosts[0])
        await asyncio.gather(*(request(turns, log, host, seconds=0.01) for host in hosts for _ in range(2)))
        turns.give(hosts[1], await turns.take(hosts[1]), Throttled(3600))
        assert all(turns.turn(host).wait(time.monotonic()) > 3500 for host in hosts)

    run(crawl())
    spans = [span for host in hosts for span in log[host]]
    assert (len(spans), most_at_once(spans)) == (6, 1)
    assert shortest_gap(spans) >= 0.05


def test_failures_of_one_host_of_a_name_do_not_count_for_another() -> None:
    turns = Turns(
        PolitenessConfig(delay=0, connect_backoff=0.001, backoff=0.001, max_failures=2), unit=name_of
    )
    closed = f"{HOST}:81"

    async def crawl() -> None:
        opened(turns, HOST)
        for _ in range(3):
            turns.give(closed, await turns.take(closed), Failed())
        assert (turns.turn(HOST).failures, turns.turn(HOST).given_up) == (0, False)
        turns.host_slots.close(closed)
        turns.give(HOST, await turns.take(HOST), Failed())
        assert turns.turn(HOST).failures == 1
        turns.host_slots.open(closed, failures=6, delay=None, valid_until=math.inf)
        turns.host_slots.close(HOST)
        assert turns.turn(closed).given_up, "the place of a lost lease belongs to the next one"

    run(crawl())


def test_crawl_delay_of_another_host_of_the_name_only_lengthens() -> None:
    turns = Turns(PolitenessConfig(delay=1), unit=name_of)
    opened(turns, HOST)
    for host, seconds, gap in ((HOST, 3, 3), (f"{HOST}:81", 2, 3), (f"{HOST}:81", 4, 4), (HOST, 2, 2)):
        turns.set_crawl_delay(host, seconds)
        assert turns.turn(HOST).gap == gap


# --- the end ---


def test_abandon_fails_waiting_requests_and_keeps_those_in_flight() -> None:
    turns = Turns(FAST, total=2)

    async def crawl() -> None:
        opened(turns)
        turns.give(HOST, await turns.take(HOST), Throttled(3600))
        in_flight = await turns.take(OTHER)
        takes = (turns.take(HOST), turns.take(HOST), turns.take(OTHER))
        waiting = [asyncio.create_task(take) for take in takes]
        await asyncio.sleep(0.01)
        turns.abandon()
        for task in waiting[:2]:
            with pytest.raises(Abandoned):
                await task
        with pytest.raises(Abandoned):
            await turns.take("http://new.example")
        turns.give(OTHER, in_flight, Ok())
        with pytest.raises(Abandoned):
            await waiting[2]
        assert turns.waiting == 0

    run(crawl())


def test_requests_for_a_page_in_work_still_get_turns_during_shutdown() -> None:
    turns = Turns(PolitenessConfig(delay=0.1))

    async def crawl() -> None:
        turns.give(HOST, await turns.take(HOST), Ok())
        waiting = asyncio.create_task(turns.take(HOST, during_shutdown=True))
        await asyncio.sleep(0.01)
        turns.abandon()
        turns.give(HOST, await waiting, Ok())
        turns.give(HOST, await turns.take(HOST, during_shutdown=True), Ok())

    run(crawl())
