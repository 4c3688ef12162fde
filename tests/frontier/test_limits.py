"""What a crawl may take from a host, what an operator blocks, and dates at which URLs come back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.frontier.pages import page, past
from webcrawl.frontier import Frontier, HostLimits, Lease, Settlement

Frontiers = Callable[..., Frontier]

HOST, OTHER = "http://h.test", "http://other.test"
SOON = 0.05
LOOK_AGAIN = 0.2
"""When a crawl looks again for a host that was held."""


def all_done(lease: Lease, verdict: str = "done", delay: float = 0.0) -> list[Settlement]:
    return [Settlement(url.index, verdict, delay) for url in lease.urls]  # type: ignore[arg-type]


async def leased(frontier: Frontier, urls: int = 100) -> list[str]:
    """The paths of the URLs of the one host that can be leased, which is given back with all of them done."""
    leases = await frontier.lease(10, urls)
    for lease in leases:
        await frontier.release(lease, all_done(lease))
    await past(frontier.engine)
    return [url.path for lease in leases for url in lease.urls]


async def test_a_page_limit_set_before_the_host_exists_holds(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=3))
    await frontier.add([page(f"{HOST}/{n}") for n in range(5)])
    (lease,) = await frontier.lease(10, 2)
    assert len(lease.urls) == 2
    # one of two is a page: with one more allowed to be, and one out, one URL can be handed out
    more = await frontier.acknowledge(lease, [Settlement(1, pages=1)], more=10)
    assert more is not None
    assert [url.path for url in more] == ["/2"]
    assert await frontier.acknowledge(lease, [Settlement(n, pages=1) for n in (2, 3)], more=10) == []
    await frontier.release(lease)
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []
    counts = await frontier.counts()
    assert (counts.queued, counts.parked, counts.open) == (2, 2, 0)
    assert await frontier.finished(), "a spent budget does not keep a crawl from its end"


async def test_what_was_no_page_does_not_count(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=1))
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    assert [await leased(frontier) for _ in range(3)] == [["/0"], ["/1"], ["/2"]]


async def test_a_byte_limit_ends_with_the_response_that_exceeds_it(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(bytes=100))
    await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await frontier.lease(10, 1)
    assert len(await frontier.acknowledge(lease, [Settlement(1, bytes=99)], more=1) or []) == 1
    assert await frontier.acknowledge(lease, [Settlement(2, bytes=50)], more=1) == []
    assert (await frontier.host(HOST)).bytes == 149


async def test_a_report_that_comes_again_is_not_spent_again(frontier: Frontier) -> None:
    """Its reply was lost: the next one has the same URLs, and what was settled meanwhile."""
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


async def test_a_raised_limit_lets_a_spent_host_go_on(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(pages=0))
    await frontier.add([page(f"{HOST}/1")])
    assert await frontier.lease(10, 10) == []
    assert (await frontier.host(HOST)).parked == "budget"
    await frontier.limit(HOST, HostLimits(pages=1))
    assert await leased(frontier) == ["/1"]


async def test_the_limit_of_all_hosts_and_its_change(frontier_of: Frontiers) -> None:
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


async def test_what_is_deeper_than_a_hosts_limit_is_left_out(frontier: Frontier) -> None:
    await frontier.limit(HOST, HostLimits(depth=2))
    assert await frontier.add(
        [page(f"{host}/{depth}", depth=depth) for host in (HOST, OTHER) for depth in (1, 2, 3)]
    ) == [True, True, False, True, True, True]
    await frontier.limit(HOST, HostLimits())
    assert await frontier.add([page(f"{HOST}/3", depth=3)]) == [True], "it was not taken for seen"


async def test_a_blocked_host_keeps_its_urls_and_does_not_hold_up_the_end(frontier: Frontier) -> None:
    await frontier.block(HOST)
    await frontier.add([page(f"{HOST}/1"), page(f"{HOST}/2")])
    assert await frontier.lease(10, 10) == []
    assert await frontier.finished()
    await frontier.unblock(HOST)
    assert not await frontier.finished()
    assert await leased(frontier) == ["/1", "/2"]


async def test_a_block_takes_a_host_from_its_worker(frontier_of: Frontiers) -> None:
    frontier, theirs = frontier_of(), frontier_of("theirs")
    for one in (frontier, theirs):
        await one.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await frontier.lease(10, 2)
    await frontier.block(HOST)
    assert await frontier.extend([lease]) == {HOST}
    assert await frontier.acknowledge(lease, all_done(lease)) is None
    assert (await frontier.counts()).refused == 1
    assert await theirs.lease(10, 10) == [], "its worker may not have heard of it"
    assert not await frontier.release(lease)
    await past(frontier.engine, LOOK_AGAIN)
    (other,) = await theirs.lease(10, 10)
    assert other.host == HOST, "a block is one crawl's"
    await theirs.release(other, all_done(other))
    await frontier.unblock(HOST)
    await past(frontier.engine)
    (again,) = await frontier.lease(10, 10)
    assert [(url.path, url.attempts, url.returns) for url in again.urls] == [
        ("/0", 0, 0),
        ("/1", 0, 0),
        ("/2", 0, 0),
    ]


async def test_limits_survive_a_restart_of_everything(frontier_of: Frontiers) -> None:
    await frontier_of().limit(HOST, HostLimits(pages=7, depth=2))
    await frontier_of().block(OTHER)
    state = await frontier_of(worker="another").host(HOST)
    assert (state.limits, state.parked) == (HostLimits(pages=7, depth=2), None)
    assert (await frontier_of(worker="another").host(OTHER)).parked == "blocked"


async def test_a_url_that_is_done_can_be_given_a_date_and_comes_back_once(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(10, 10)
    await frontier.release(lease, all_done(lease, "retry"))
    await past(frontier.engine)
    (lease,) = await frontier.lease(10, 10)
    assert lease.urls[0].attempts == 1
    await frontier.release(lease, all_done(lease, "again", 3600))
    assert await frontier.finished(), "a date far off does not keep a crawl going"
    assert (await frontier.counts()).scheduled == 1
    assert await frontier.lease(10, 10) == []
    assert await frontier.schedule([page(f"{HOST}/1")], SOON) == 0, "the same URL with another date"
    await past(frontier.engine, SOON)
    (lease,) = await frontier.lease(10, 10)
    assert [(url.path, url.attempts) for url in lease.urls] == [("/1", 0)]
    await frontier.release(lease, all_done(lease))
    await past(frontier.engine)
    assert await frontier.lease(10, 10) == []
    counts = await frontier.counts()
    assert (counts.done, counts.scheduled, counts.open) == (2, 0, 0)


async def test_any_known_url_can_be_given_a_date_and_the_last_one_holds(frontier: Frontier) -> None:
    urls = [page(f"{host}/{n}") for host in (HOST, OTHER) for n in range(2)]
    assert await frontier.schedule(urls, SOON) == 4
    assert await frontier.schedule(urls[:1], 3600) == 0
    await past(frontier.engine, SOON)
    assert sorted(await leased(frontier)) == ["/0", "/1", "/1"]
    assert await frontier.schedule(urls[:1], 0) == 0
    await past(frontier.engine)
    assert await leased(frontier) == ["/0"]


async def contest(crawls: dict[str, Frontier], urls: int) -> dict[str, int]:
    """How many URLs of one host each crawl gets of about so many, when all of them ask again and again."""
    got = dict.fromkeys(crawls, 0)
    while sum(got.values()) < urls:
        for name, frontier in crawls.items():
            for lease in await frontier.lease(1, 20):
                for rival in crawls.values():
                    assert rival is frontier or await rival.lease(1, 20) == []
                assert await frontier.acknowledge(lease, more=20) == [], "another waits for the host"
                got[name] += len(lease.urls)
                await frontier.release(lease, all_done(lease))
        await past(frontier.engine)
    return got


async def test_crawls_share_a_host_by_their_weights(frontier_of: Frontiers) -> None:
    crawls = {"light": frontier_of("light", weight=1), "heavy": frontier_of("heavy", weight=3)}
    for frontier in crawls.values():
        await frontier.add([page(f"{HOST}/{n}") for n in range(400)])
    # who comes first knows of nobody else
    await contest(crawls, 1)
    got = await contest(crawls, 160)
    assert 2.4 <= got["heavy"] / got["light"] <= 3.6


@pytest.mark.parametrize("order", [("first", "late", "later"), ("later", "first", "late")])
async def test_a_crawl_that_comes_late_has_nothing_to_make_up_for(
    frontier_of: Frontiers, order: tuple[str, ...]
) -> None:
    """Whether another holds the host when it asks for the first time, or none does."""
    crawls = {name: frontier_of(name) for name in order}
    for name in ("first", "late"):
        await crawls[name].add([page(f"{HOST}/{n}") for n in range(500)])
    await contest({name: crawls[name] for name in ("first", "late")}, 100)
    await crawls["later"].add([page(f"{HOST}/{n}") for n in range(500)])
    got = await contest(crawls, 120)
    assert max(got.values()) - min(got.values()) <= 20
