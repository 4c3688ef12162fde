"""The hosts that hold a crawl up are found in few lookups, among any number of leased hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hypothesis import given, strategies as st

from webcrawl.crawler.report.ending import SlowHost, SlowHosts, hosts_line, shown
from webcrawl.crawler.report.stages import LeasedHostState, Stage

hosts = st.dictionaries(
    st.integers(0, 99).map("http://h{}.test".format),
    st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0, 30.0]), st.booleans()),
    max_size=60,
)


class Queues:
    """Answers as the frontier does, and counts what it is asked."""

    def __init__(self, lengths: dict[str, int]) -> None:
        self.lengths = lengths
        self.most = 0

    async def queue_lengths(self, hosts: Iterable[str]) -> dict[str, int]:
        asked = list(hosts)
        self.most = max(self.most, len(asked))
        return {host: self.lengths.get(host, 0) for host in asked}


@given(hosts)
def test_a_few_looks_find_the_slowest_hosts(known: dict[str, tuple[int, float, bool]]) -> None:
    states = [LeasedHostState(host, Stage.TURN, gap, 0, more) for host, (_, gap, more) in known.items()]
    queues: Any = Queues({host: urls for host, (urls, _, _) in known.items()})
    slow = SlowHosts()

    async def look() -> list[SlowHost]:
        for _ in range(5):
            found = await slow.look(queues, states)
        return found

    found = asyncio.run(look())
    assert queues.most <= 16 + 3
    times = sorted((urls * gap for urls, gap, more in known.values() if more), reverse=True)
    least = max(60.0, times[0] / 2) if times else 0.0
    assert [one.seconds for one in found] == [seconds for seconds in times[:3] if seconds >= least]


def test_a_host_that_was_released_is_shown_until_its_queue_is_empty() -> None:
    queues: Any = Queues({"http://a.test": 100})
    slow = SlowHosts()

    async def look(*states: LeasedHostState) -> list[SlowHost]:
        return await slow.look(queues, states)

    first = asyncio.run(look(LeasedHostState("http://a.test", Stage.TURN, 10.0, 5, has_more=True)))
    assert first == [SlowHost("http://a.test", 105, 10.0)]
    assert asyncio.run(look()) == [SlowHost("http://a.test", 100, 10.0)]
    queues.lengths.clear()
    assert asyncio.run(look()) == []


def test_fast_hosts_are_not_shown() -> None:
    one, two = SlowHost("http://a.test", 1_200, 10.0), SlowHost("http://b.test", 400, 10.0)
    assert shown([one, two]) == [one]
    assert shown([SlowHost("http://a.test", 5, 10.0)]) == []
    assert hosts_line([one, two]) == (
        "held up by http://a.test (1,200 URLs, 10 s apart: about 3 h), "
        "http://b.test (400 URLs, 10 s apart: about 65 min)"
    )
