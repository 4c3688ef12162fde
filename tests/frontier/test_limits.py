"""Limits of a host, blocks by operators, and dates at which URLs come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis import Redis

from tests.frontier.pages import page, past
from webcrawl.frontier import Frontier, HostLimits, Lease, Settlement
from webcrawl.frontier.operations import MOST_SECONDS
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.rule_changes import review_rules

Frontiers = Callable[..., Frontier]

HOST, OTHER = "http://h.test", "http://other.test"
SOON = 0.05
LOOK_AGAIN = 0.2
"""Seconds until a crawl looks again for a host that was held."""


def all_done(lease: Lease, verdict: str = "done", delay: float = 0.0) -> list[Settlement]:
    return [Settlement(url.index, verdict, delay) for url in lease.urls]  # type: ignore[arg-type]


async def leased(frontier: Frontier, urls: int = 100) -> list[str]:
    """Lease all ready hosts and settle all URLs as done; returns the paths."""
    leases = await frontier.lease(10, urls)
    for lease in leases:
        await frontier.release(lease, all_done(lease))
    await past(frontier.engine)
    return [url.path for lease in leases for url in lease.urls]


async def test_a_page_limit_may_be_set_before_the_host_is_known(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=3))
    await frontier.add([page(f"{HOST}/{n}") for n in range(5)])
    (lease,) = await frontier.lease(10, 2)
    assert len(lease.urls) == 2
    # one page and one leased URL leave one of three
    more = await frontier.acknowledge(lease, [Settlement(1, pages=1)], more=10)
    assert more is not None
    assert [url.path for url in more] == ["/2"]
    assert await frontier.acknowledge(lease, [Settlement(n, pages=1) for n in (2, 3)], more=10) == []
    await frontier.release(lease)
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []
    counts = await frontier.counts()
    assert (counts.queued, counts.parked, counts.open) == (2, 2, 0)
    assert await frontier.finished(), "a host with a spent budget does not delay the end"


async def test_leases_look_for_limits_only_if_a_host_has_any(frontier: Frontier, valkey: Redis) -> None:
    hosts = [f"http://{n}.test" for n in range(60)]

    async def lookups() -> int:
        await frontier.add([page(f"{host}/{valkey.dbsize()}") for host in hosts])
        valkey.config_resetstat()
        leases = await frontier.lease(100, 9)
        found: Any = valkey.info("commandstats")
        assert len(leases) == len(hosts)
        for lease in leases:
            await frontier.release(lease, all_done(lease))
        await past(frontier.engine)
        return int(found.get("cmdstat_hget", {"calls": 0})["calls"])

    without = await lookups()
    for shard in range(frontier.keys.shards):
        valkey.hset(frontier.keys.queue(shard)[0] + "limits", OTHER, "9 9 9")
    assert await lookups() - without >= len(hosts)


async def test_only_pages_count_against_the_page_limit(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=1))
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    assert [await leased(frontier) for _ in range(3)] == [["/0"], ["/1"], ["/2"]]


async def test_a_byte_limit_is_reached_with_the_response_that_exceeds_it(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(bytes=100))
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await frontier.lease(10, 1)
    assert len(await frontier.acknowledge(lease, [Settlement(1, bytes=99)], more=1) or []) == 1
    assert await frontier.acknowledge(lease, [Settlement(2, bytes=50)], more=1) == []
    assert (await frontier.host(HOST)).bytes == 149


async def test_a_repeated_report_counts_once(frontier: Frontier) -> None:
    """After a lost reply, the next report has the same URLs and those settled since."""
    await frontier.limit(HOST, HostLimits(pages=4))
    await frontier.add([page(f"{HOST}/{n}") for n in range(9)])
    (lease,) = await frontier.lease(10, 3)
    settled = [Settlement(n, pages=1, bytes=10) for n in (1, 2, 3)]
    await frontier.acknowledge(lease, settled[:2])
    await frontier.acknowledge(lease, settled)
    assert await frontier.release(lease, settled)
    state = await frontier.host(HOST)
    assert (state.pages, state.bytes) == (3, 30)
    await past(frontier.engine)
    assert len(await leased(frontier)) == 1


async def test_a_raised_limit_reopens_a_spent_host(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=0))
    await frontier.add([page(f"{HOST}/1")])
    assert await frontier.lease(10, 10) == []
    assert (await frontier.host(HOST)).parked == "budget"
    await frontier.limit(HOST, HostLimits(pages=1))
    assert await leased(frontier) == ["/1"]


async def test_a_changed_limit_of_all_hosts_applies_after_review(frontier_of: Frontiers) -> None:
    low, high = frontier_of(host_limits=HostLimits(pages=1)), frontier_of(host_limits=HostLimits(pages=2))
    await low.limit(OTHER, HostLimits(pages=3))
    await low.add([page(f"{host}/{n}") for host in (HOST, OTHER) for n in range(5)])
    leases = {lease.host: lease for lease in await low.lease(10, 10)}
    assert {host: len(lease.urls) for host, lease in leases.items()} == {HOST: 1, OTHER: 3}
    await low.acknowledge(leases[HOST], [Settlement(1, pages=1)])
    await low.release(leases[HOST])
    await past(low.engine)
    assert await low.lease(10, 10) == []
    assert (await low.host(HOST)).parked == "budget"
    await high.review()
    assert [(lease.host, len(lease.urls)) for lease in await high.lease(10, 10)] == [(HOST, 1)]


async def test_urls_deeper_than_the_limit_of_the_host_are_not_added(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(depth=2))
    assert await frontier.add(
        [page(f"{host}/{depth}", depth=depth) for host in (HOST, OTHER) for depth in (1, 2, 3)]
    ) == [True, True, False, True, True, True]
    await frontier.limit(HOST, HostLimits())
    assert await frontier.add([page(f"{HOST}/3", depth=3)]) == [True], "the URL was not marked as seen"


async def test_a_worker_finds_refused_urls_again_at_less_depth(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(depth=2))
    intake = LinkIntake(frontier, Counter(), HostRecords(KnownPatterns(), Dust()))
    for path in ("first", "second"):
        for host in (HOST, OTHER):
            assert intake.add(page(f"{host}/{path}", depth=5))
            if host not in intake.shallow:  # as links do
                intake.recent.links.add(f"{host}/{path}")
        await intake.send(AsyncMock())
        assert intake.shallow == {HOST}
        assert intake.unknown([f"{HOST}/{path}"]) == [f"{HOST}/{path}"]
        assert intake.add(page(f"{HOST}/{path}", depth=5)) == (path == "first"), (
            "the caches were emptied once"
        )
        assert intake.add(page(f"{HOST}/{path}", depth=2))
        await intake.send(AsyncMock())
        assert not intake.add(page(f"{HOST}/{path}", depth=2))
    assert not intake.add(page(f"{OTHER}/second", depth=1))
    assert (await frontier.host(HOST)).queued == 2


async def test_a_blocked_host_keeps_its_urls_and_does_not_delay_the_end(frontier: Frontier) -> None:
    await frontier.block(HOST)
    await frontier.add([page(f"{HOST}/1"), page(f"{HOST}/2")])
    assert await frontier.lease(10, 10) == []
    assert await frontier.finished()
    await frontier.unblock(HOST)
    assert not await frontier.finished()
    assert await leased(frontier) == ["/1", "/2"]


async def test_a_block_ends_the_lease_of_a_host(frontier_of: Frontiers) -> None:
    frontier, theirs = frontier_of(), frontier_of("theirs")
    for one in (frontier, theirs):
        await one.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await frontier.lease(10, 2)
    await frontier.block(HOST)
    assert await frontier.extend([lease]) == {HOST}
    assert await frontier.acknowledge(lease, all_done(lease)) is None
    assert (await frontier.counts()).refused == 1
    assert await theirs.lease(10, 10) == [], "the worker may not know of the block"
    assert not await frontier.release(lease)
    await past(frontier.engine, LOOK_AGAIN)
    (other,) = await theirs.lease(10, 10)
    assert other.host == HOST, "a block applies to one crawl"
    await theirs.release(other, all_done(other))
    await frontier.unblock(HOST)
    await past(frontier.engine)
    (again,) = await frontier.lease(10, 10)
    assert [(url.path, url.attempts, url.returns) for url in again.urls] == [
        ("/0", 0, 0),
        ("/1", 0, 0),
        ("/2", 0, 0),
    ]


async def test_limits_are_stored_in_the_engine(frontier_of: Frontiers) -> None:
    await frontier_of().limit(HOST, HostLimits(pages=7, depth=2))
    await frontier_of().block(OTHER)
    state = await frontier_of(worker="another").host(HOST)
    assert (state.limits, state.parked) == (HostLimits(pages=7, depth=2), None)
    assert (await frontier_of(worker="another").host(OTHER)).parked == "blocked"


async def test_hosts_that_wait_for_another_attempt_are_listed(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)] + [page(f"{OTHER}/1")])
    for lease in await frontier.lease(10, 2):
        await frontier.release(lease, all_done(lease, "retry", 50.0 if lease.host == HOST else 200.0))
    busy, idle = await frontier.hosts()
    assert (busy.host, busy.queued, busy.waiting, busy.leased) == (HOST, 1, 2, False)
    assert (idle.host, idle.queued, idle.waiting, idle.leased) == (OTHER, 0, 1, False)
    assert busy.next_attempt is not None and 0 < busy.next_attempt <= 50
    assert idle.next_attempt is not None and 50 < idle.next_attempt <= 200
    assert [one.host for one in await frontier.hosts(1)] == [HOST]


async def test_a_done_url_with_a_date_comes_back_once(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(10, 10)
    await frontier.release(lease, all_done(lease, "retry"))
    await past(frontier.engine)
    (lease,) = await frontier.lease(10, 10)
    assert lease.urls[0].attempts == 1
    await frontier.release(lease, all_done(lease, "again", 3600))
    assert await frontier.finished(), "a distant date does not delay the end"
    assert (await frontier.counts()).scheduled == 1
    assert await frontier.lease(10, 10) == []
    assert await frontier.schedule([page(f"{HOST}/1")], SOON) == 0, "the URL gets another date"
    await past(frontier.engine, SOON)
    (lease,) = await frontier.lease(10, 10)
    assert [(url.path, url.attempts) for url in lease.urls] == [("/1", 0)]
    await frontier.release(lease, all_done(lease))
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []
    counts = await frontier.counts()
    assert (counts.done, counts.scheduled, counts.open) == (2, 0, 0)


async def test_any_url_can_be_given_a_date_and_the_last_one_holds(frontier: Frontier) -> None:
    urls = [page(f"{host}/{n}") for host in (HOST, OTHER) for n in range(2)]
    assert await frontier.schedule(urls, SOON) == 4
    assert await frontier.schedule(urls[:1], 3600) == 0
    await past(frontier.engine, SOON)
    assert sorted(await leased(frontier)) == ["/0", "/1", "/1"]
    assert await frontier.schedule(urls[:1], 0) == 0
    await past(frontier.engine)
    assert await leased(frontier) == ["/0"]


async def contest(crawls: dict[str, Frontier], urls: int) -> dict[str, int]:
    """Crawls lease one host in turn until they have `urls` URLs in total; returns the URLs of each crawl."""
    got = dict.fromkeys(crawls, 0)
    while sum(got.values()) < urls:
        for name, frontier in crawls.items():
            for lease in await frontier.lease(1, 20):
                for rival in crawls.values():
                    assert rival is frontier or await rival.lease(1, 20) == []
                assert await frontier.acknowledge(lease, more=20) == [], "another crawl waits for the host"
                got[name] += len(lease.urls)
                await frontier.release(lease, all_done(lease))
        await past(frontier.engine)
    return got


async def test_crawls_share_a_host_by_their_weights(frontier_of: Frontiers) -> None:
    crawls = {"light": frontier_of("light", weight=1), "heavy": frontier_of("heavy", weight=3)}
    for frontier in crawls.values():
        await frontier.add([page(f"{HOST}/{n}") for n in range(400)])
    # the first crawl does not know of the other one yet
    await contest(crawls, 1)
    got = await contest(crawls, 160)
    assert 2.4 <= got["heavy"] / got["light"] <= 3.6


@pytest.mark.parametrize("order", [("first", "late", "later"), ("later", "first", "late")])
async def test_a_late_crawl_does_not_catch_up_on_earlier_urls(
    frontier_of: Frontiers, order: tuple[str, ...]
) -> None:
    """Whether or not another crawl holds the host at its first lease call."""
    crawls = {name: frontier_of(name) for name in order}
    for name in ("first", "late"):
        await crawls[name].add([page(f"{HOST}/{n}") for n in range(500)])
    await contest({name: crawls[name] for name in ("first", "late")}, 100)
    await crawls["later"].add([page(f"{HOST}/{n}") for n in range(500)])
    got = await contest(crawls, 120)
    assert max(got.values()) - min(got.values()) <= 20


async def test_the_limit_of_a_rule_lies_between_that_of_an_operator_and_that_of_all_hosts(
    frontier_of: Frontiers,
) -> None:
    frontier = frontier_of(host_limits=HostLimits(pages=2))
    await frontier.rule_limit(HOST, 3)
    await frontier.add([page(f"{HOST}/{n}") for n in range(9)])
    (lease,) = await frontier.lease(10, 10)
    assert (len(lease.urls), lease.ruled) == (3, 3)
    await frontier.release(lease)
    await frontier.limit(HOST, HostLimits(pages=5, depth=9))
    (lease,) = await frontier.lease(10, 10)
    assert (len(lease.urls), lease.ruled) == (5, 3)
    assert (await frontier.host(HOST)).limits == HostLimits(pages=5, depth=9, ruled=3)
    await frontier.release(lease)
    await frontier.limit(HOST, HostLimits())
    await frontier.rule_limit(HOST, None)
    (lease,) = await frontier.lease(10, 10)
    assert (len(lease.urls), lease.ruled) == (2, None)


async def test_changed_rules_reach_hosts_with_spent_budgets(frontier_of: Frontiers) -> None:
    frontier = frontier_of(host_limits=HostLimits(pages=2))
    await frontier.rule_limit(OTHER, 7)
    await frontier.add([page(f"{host}/{n}") for n in range(4) for host in (HOST, OTHER)])
    for _ in range(2):
        for lease in await frontier.lease(10, 10):
            settled = [Settlement(url.index, pages=1) for url in lease.urls]
            await frontier.release(lease, settled)
        await past(frontier.engine)
    assert (await frontier.host(HOST)).parked == "budget"
    await review_rules(frontier, {HOST: 3}.get, range(frontier.keys.shards))
    assert (await frontier.host(OTHER)).limits == HostLimits()
    assert await leased(frontier) == ["/2"]


async def test_the_gap_of_a_lease_is_known_to_the_next(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(2)])
    (lease,) = await frontier.lease(10, 1)
    assert lease.gap == 0
    lease.gap = 0.25
    await frontier.release(lease, all_done(lease))
    await past(frontier.engine)
    (lease,) = await frontier.lease(10, 1)
    assert lease.gap == 0.25


@pytest.mark.parametrize("seconds", [10**400, 1e307, float("inf")], ids=["integer", "float", "infinite"])
async def test_huge_times_are_cut(frontier: Frontier, seconds: float) -> None:
    await frontier.set_delay(OTHER, seconds)
    assert (await frontier.host(OTHER)).delay == MOST_SECONDS
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await frontier.lease(10, 10)
    settled = [
        Settlement(url.index, verdict, seconds)
        for url, verdict in zip(lease.urls, ("retry", "again"), strict=False)
    ]
    assert await frontier.release(lease, settled)
    await frontier.schedule([page(f"{OTHER}/")], seconds)
    await frontier.block_until(HOST, seconds)
    status = await frontier.host(HOST)
    assert MOST_SECONDS - 60 < status.waits <= MOST_SECONDS
    counts = await frontier.counts()
    assert (counts.queued, counts.later, counts.scheduled) == (1, 1, 2)
    (first,) = [queue.next_attempt for queue in await frontier.hosts() if queue.host == HOST]
    assert first and MOST_SECONDS - 60 < first <= MOST_SECONDS
