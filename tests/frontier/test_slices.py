"""A leased host keeps its place for a slice of its URLs, so that hosts that were begun do not wait for all new ones."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import cast

from hypothesis import given, strategies as st

from tests.frontier.consumer import Consumer
from webcrawl.config import PolitenessConfig
from webcrawl.frontier import Frontier, Lease, LeasedURL, Settlement
from webcrawl.hosts.politeness import Ok
from webcrawl.hosts.turns import Turns
from webcrawl.worker.due_hosts import Lateness
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.leased_host import SLICE_SECONDS, SLICE_URLS
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.link_intake import LinkIntake

Frontiers = Callable[..., Frontier]
PAGES = 7
steps = st.tuples(
    st.sampled_from(["open", "open answered", "take", "drop", "wait"]), st.integers(0, 5), st.floats(0, 20)
)


async def test_a_host_keeps_its_lease_while_its_pages_link_to_more(frontier: Frontier) -> None:
    tokens = Counter[int]()

    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        tokens[consumer.worker.hosts.token(url.host)] += 1
        number = int(url.path[1:])
        return Settlement(0), True, [f"http://a.test/{number + 1}"] if number < PAGES else [], Ok()

    consumer = Consumer(frontier, answer)
    assert await consumer.run("http://a.test/1") == "finished"
    assert list(tokens.values()) == [PAGES], (
        "one lease, although the engine had no more URLs after each of them"
    )


async def test_hosts_that_were_begun_are_finished_before_others_begin(frontier_of: Frontiers) -> None:
    got, most = Counter[str](), 0

    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        nonlocal most
        got[url.host] += 1
        most = max(most, sum(pages < PAGES for pages in got.values()))
        return Settlement(0), True, [f"{url.host}/{n}" for n in range(1, PAGES)], Ok()

    consumer = Consumer(frontier_of(shards=1), answer, lease_hosts=8, lease_urls=2)
    assert await consumer.run(*(f"http://h{n}.test/0" for n in range(60))) == "finished"
    assert set(got.values()) == {PAGES}
    assert most <= 8 + 8 // 4


@given(st.lists(steps, max_size=40))
def test_hosts_count_as_begun_while_their_slices_last(taken_steps: list[tuple[str, int, float]]) -> None:
    intake = LinkIntake(cast("Frontier", None), Counter(), HostRecords(KnownPatterns(), Dust()))
    hosts, now = LeasedHosts(Turns(PolitenessConfig(delay=0.0)), intake, lambda: None), time.monotonic()
    for step, number, seconds in taken_steps:
        name = f"http://h{number}.test"
        if step.startswith("open") and name not in hosts:
            urls = [LeasedURL(n, name, f"/{n}", 3, 0, 0, 0, None, None) for n in range(2 * SLICE_URLS)]
            hosts.open(Lease(name, 1, 0, None, urls, answered=step == "open answered"), until=math.inf)
            hosts[name].opened = now
        elif step == "take":
            for _ in range(int(seconds)):
                if (url := hosts.next(time.monotonic() + 60.0, lambda: True)) is not None:
                    hosts.finish_fetch(hosts[url.host])
        elif step == "drop" and name in hosts:
            hosts.drop(name)
        elif step == "wait":
            now += seconds
        begun = [host for host in hosts if not (host.lease.answered or host.slice_over(now))]
        assert hosts.begun(now) == len(begun)
        assert all(host.handed < SLICE_URLS and now - host.opened < SLICE_SECONDS for host in begun)


@given(st.lists(st.tuples(st.floats(-10, 1e6), st.floats(0, 100)), max_size=300))
def test_lateness_is_a_share_of_the_gap(requests: list[tuple[float, float]]) -> None:
    lateness = Lateness()
    for late, gap in requests:
        lateness.note(late, gap)
    now = time.monotonic()
    assert 0 <= lateness.share(now) <= 1
    assert lateness.share(now) == 0 or any(late > 0 and gap > 0 for late, gap in requests)
    assert lateness.share(now + 60) == 0, "nothing was asked for a minute"
    for _ in range(500):
        lateness.note(0.5, 2.0)
    assert math.isclose(lateness.share(time.monotonic()), 0.25, abs_tol=0.01)
