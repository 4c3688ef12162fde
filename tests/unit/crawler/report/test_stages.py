"""What leased hosts wait for: one stage for each, found of a bounded number of hosts at a time."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import cast

import pytest
from hypothesis import given, strategies as st

from webcrawl.config import PolitenessConfig
from webcrawl.crawler.report.stages import HostStages, LeasedHostState, Stage, stage_of
from webcrawl.frontier import Frontier, Lease, LeasedURL, Settlement
from webcrawl.hosts.politeness import Ok, Throttled
from webcrawl.hosts.turns import Turns
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.leased_host import LeasedHost, Settled
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.link_intake import LinkIntake

HOST = "http://a.test"


def leased(number: int = 1, urls: int = 1, **politeness: float) -> LeasedHosts:
    """Hosts that were just leased, with `urls` URLs each."""
    turns = Turns(PolitenessConfig(**{"delay": 5.0, **politeness}))
    intake = LinkIntake(cast("Frontier", None), Counter(), HostRecords(KnownPatterns(), Dust()))
    hosts = LeasedHosts(turns, intake, lambda: None)
    for n in range(number):
        name = HOST if number == 1 else f"http://h{n}.test"
        entries = [LeasedURL(i, name, f"/{i}", 3, 0, 0, 0, None, None) for i in range(urls)]
        hosts.open(Lease(name, n, 0, None, entries), math.inf)
    return hosts


def after(hosts: LeasedHosts, seconds: float = 0.0) -> Stage:
    return stage_of(hosts[HOST], time.monotonic() + seconds)


def test_a_host_passes_the_stages() -> None:
    hosts = leased(urls=2)
    host: LeasedHost = hosts[HOST]
    assert after(hosts) is Stage.DUE
    hosts.next(time.monotonic(), lambda: True)
    assert after(hosts) is Stage.NETWORK, "its name is being resolved"
    host.turn.start(time.monotonic())
    assert after(hosts) is Stage.NETWORK
    host.turn.finish(time.monotonic(), Ok())
    assert after(hosts) is Stage.TURN, "its robots.txt was fetched, and the delay is not over"
    assert after(hosts, 6) is Stage.NETWORK
    hosts.finish_fetch(host)
    assert (after(hosts), after(hosts, 6)) == (Stage.TURN, Stage.DUE)
    host.turn.start(time.monotonic() + 6)
    host.turn.finish(time.monotonic() + 6, Throttled())
    assert after(hosts, 6) is Stage.TURN
    hosts.next(time.monotonic() + 1_000, lambda: True)
    hosts.finish_fetch(host)
    assert after(hosts) is Stage.PROCESSING
    for index in range(2):
        host.settle(Settled(Settlement(index)))
    assert after(hosts) is Stage.ENGINE


@pytest.mark.parametrize(("concurrency", "gap"), [(1, 8.0), (2, 5.0), (4, 5.0)])
def test_a_slow_host_takes_its_answers_and_its_delay(concurrency: int, gap: float) -> None:
    hosts = leased(urls=2, concurrency=concurrency)
    hosts[HOST].turn.start(time.monotonic())
    hosts[HOST].turn.finish(time.monotonic(), Ok(latency=3.0))
    assert [state.gap for state in HostStages().next(hosts, time.monotonic())] == [gap]


def test_a_host_whose_links_are_added_waits_for_the_engine() -> None:
    hosts = leased()
    with hosts.adding_links(HOST):
        assert after(hosts) is Stage.ENGINE
    assert after(hosts) is Stage.DUE


@given(st.integers(1, 60), st.integers(1, 70))
def test_all_hosts_are_looked_at_in_turn(number: int, most: int) -> None:
    hosts, states = leased(number, urls=3), HostStages(most)
    looks = [states.next(hosts, time.monotonic()) for _ in range(math.ceil(number / most) + 1)]
    assert all(len(look) <= most for look in looks)
    found = {state for look in looks for state in look}
    names = {HOST} if number == 1 else {f"http://h{n}.test" for n in range(number)}
    assert found == {LeasedHostState(name, Stage.DUE, 5.0, 3, has_more=True) for name in names}
