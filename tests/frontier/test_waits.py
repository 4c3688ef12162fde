"""What the frontier waits for: the next retry and the next host, over all shards."""

from __future__ import annotations

import pytest

from tests.frontier.pages import page
from webcrawl.frontier import Candidate, Frontier, Settlement, level_of_priority
from webcrawl.frontier.gauges import next_waits


async def test_the_next_retry_and_the_next_host_are_found(frontier: Frontier) -> None:
    assert await next_waits(frontier) == (None, None)
    urls = {f"https://www.h{number}.test": number for number in range(1, 9)}
    await frontier.add([Candidate(host, path, None) for host in urls for path in ("/first", "/second")])
    for lease in await frontier.lease(len(urls), 1):
        number = urls[lease.host]
        lease.failures = number
        settled = [Settlement(lease.urls[0].index, "retry", delay=1000.0 * number)]
        assert await frontier.release(lease, settled, pause=100.0 * number)
    retry, host = await next_waits(frontier)
    assert retry is not None and host is not None
    assert (retry.url, retry.attempt) == ("https://www.h1.test/first", 2)
    assert 990 < retry.seconds <= 1000
    assert (host.host, host.failures) == ("https://www.h1.test", 1)
    assert 90 < host.seconds <= 100


@pytest.mark.parametrize("priority", [-1000, -4, 0, 4, 1000])
async def test_hosts_with_urls_of_any_priority_are_found(frontier: Frontier, priority: int) -> None:
    level = level_of_priority(priority)
    await frontier.add([page(f"http://a.test/{path}", level=level) for path in range(2)])
    (lease,) = await frontier.lease(1, 1)
    lease.failures = 3
    assert await frontier.release(lease, [Settlement(lease.urls[0].index, "done")], pause=100.0)
    _, host = await next_waits(frontier)
    assert host is not None
    assert (host.host, host.failures) == ("http://a.test", 3)
    assert 90 < host.seconds <= 100


async def test_unreachable_hosts_are_those_that_never_answered(frontier: Frontier) -> None:
    from webcrawl.frontier import Crawl

    crawl = Crawl(frontier.engine, frontier.keys, "worker")
    assert await crawl.host_counts() == (0, 0)
    await crawl.count_hosts(["http://a.test", "http://b.test"])
    assert await crawl.host_counts() == (2, 0)
    await crawl.count_hosts([], ["http://b.test", "http://c.test", "http://c.test"])
    assert await crawl.host_counts() == (2, 1)
