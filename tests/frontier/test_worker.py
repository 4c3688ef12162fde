"""One or two workers with a web in memory: no page is lost or fetched twice without need, and the end is detected."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import hash_of, page, past, silence_over, tree
from webcrawl.config import PolitenessConfig
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, LeasedURL, Settlement
from webcrawl.frontier.adding import Addition
from webcrawl.hosts.politeness import Failed, Ok, Throttled
from webcrawl.hosts.turns import Turns
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.link_intake import LinkIntake

Frontiers = Callable[..., Frontier]


@contextmanager
def commands(valkey: Redis) -> Iterator[list[str]]:
    """Collects the commands that clients and scripts send to the server, in order."""
    received: list[str] = []
    listening = threading.Event()

    def listen() -> None:
        with valkey.monitor() as monitor:
            listening.set()
            for command in monitor.listen():
                if command["command"] == "ECHO end":
                    return
                received.append(command["command"])

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert listening.wait(60)
    yield received
    valkey.echo("end")
    thread.join(60)


async def test_each_page_of_a_web_is_fetched_once(frontier: Frontier) -> None:
    urls, links = tree(hosts=20, pages=600)
    consumer = Consumer(frontier, lambda url: page_with(links[url.url]))
    assert await consumer.run(urls[0]) == "finished"
    assert consumer.fetched == Counter(urls)
    counts = await frontier.counts()
    assert (counts.done, counts.open, counts.seen) == (600, 0, 600)
    totals = await Crawl(frontier.engine, frontier.keys, "reader").totals()
    assert (totals["pages"], totals["discovered"]) == (600, 600)


async def test_links_are_added_before_their_page_is_settled(frontier_of: Frontiers, valkey: Redis) -> None:
    chain = [f"http://h{n}.test/" for n in range(40)]
    links = {url: chain[n + 1 : n + 2] for n, url in enumerate(chain)}
    with commands(valkey) as received:
        await Consumer(frontier_of(shards=1), lambda url: page_with(links[url.url])).run(chain[0])
    steps = []
    for line in received:
        words = line.split()
        if words[0].upper() == "SADD" and ":seen:" in words[1]:
            steps.append(f"seen {words[2]}")
        elif words[0].upper() == "HINCRBY" and words[2] == "done":
            steps.append("done")
    marks = [Keys("crawl", 1).mark(url.removesuffix("/"), hash_of(url)) for url in chain]
    expected = [f"seen {marks[0]}"]
    for mark in marks[1:]:
        expected += [f"seen {mark}", "done"]
    assert steps == [*expected, "done"]


async def test_two_workers_share_the_work_but_no_host(frontier_of: Frontiers) -> None:
    urls, links = tree(hosts=30, pages=900)
    busy: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        most[url.host] = max(most[url.host], busy[url.host] + 1)
        return Settlement(0), True, links[url.url], Ok()

    both = [Consumer(frontier_of(worker=f"w{n}", shards=16), answer) for n in range(2)]
    for consumer in both:
        consumer.start(urls[0])
    assert [await consumer.end() for consumer in both] == ["finished", "finished"]
    assert both[0].fetched + both[1].fetched == Counter(urls)
    assert all(consumer.fetched for consumer in both)
    assert set(most.values()) == {1}


async def test_no_worker_finishes_while_another_reads_seeds(frontier_of: Frontiers, valkey: Redis) -> None:
    done, seeding = (
        Consumer(frontier_of(worker=name), lambda url: page_with()) for name in ("done", "seeding")
    )
    seeding.start(seeding=True)
    await seeding.until(lambda: valkey.exists(seeding.crawl.keys.own("seeding")) == 1)
    done.start("http://a.test/1")
    await done.until(lambda: sum(done.fetched.values()) + sum(seeding.fetched.values()) == 1)
    beats = int(valkey.info("commandstats")["cmdstat_evalsha"]["calls"])
    await done.until(lambda: int(valkey.info("commandstats")["cmdstat_evalsha"]["calls"]) > beats + 50)
    assert done.worker.finished is seeding.worker.finished is None
    seeding.worker.add(page("http://b.test/1"))
    seeding.worker.seeding = False
    assert [await consumer.end() for consumer in (done, seeding)] == ["finished", "finished"]
    assert set(done.fetched + seeding.fetched) == {"http://a.test/1", "http://b.test/1"}


async def test_a_url_found_at_the_last_moment_is_fetched(frontier_of: Frontiers) -> None:
    class FindsLate(Frontier):
        """A callback finds one more URL while the worker checks whether the crawl is finished."""

        found = False

        async def finished(self) -> bool:
            verdict = await super().finished()
            if verdict and not FindsLate.found:
                FindsLate.found = consumer.worker.add(page("http://a.test/late"))
            return verdict

    plain = frontier_of()
    frontier = FindsLate(plain.engine, plain.keys, plain.worker)
    consumer = Consumer(frontier, lambda url: page_with())
    consumer.start("http://a.test/1")
    worker = consumer.worker
    await consumer.until(lambda: FindsLate.found and not worker.intake and worker.finished is not None)
    await consumer.stop()
    assert set(consumer.fetched) == {"http://a.test/1", "http://a.test/late"}


@pytest.mark.parametrize("limit", [1, 7, 50])
async def test_two_workers_reach_the_page_limit_exactly(frontier_of: Frontiers, limit: int) -> None:
    urls, links = tree(hosts=20, pages=300)

    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        # every third URL is not a page and needs no permit
        return Settlement(0), not url.path.endswith(("3", "6", "9")), links[url.url], Ok()

    both = [Consumer(frontier_of(worker=f"w{n}", shards=16), answer, max_pages=limit) for n in range(2)]
    for consumer in both:
        consumer.start(urls[0])
    reasons = set(await asyncio.gather(*(consumer.end() for consumer in both)))
    assert "max_pages" in reasons
    totals = await both[0].crawl.totals()
    assert totals["pages"] == limit
    pages = [url for url in both[0].fetched + both[1].fetched if not url.endswith(("3", "6", "9"))]
    assert len(pages) == limit


async def test_unused_permits_of_a_worker_are_available_to_another(frontier_of: Frontiers) -> None:
    """The hosts of one worker have no pages; its permits must go to the other worker."""
    both = {
        name: Consumer(
            frontier_of(worker=name, shards=16),
            lambda url: (Settlement(0), "page" in url.path, (), Ok()),
            max_pages=40,
        )
        for name in ("w1", "w2")
    }
    for consumer in both.values():
        consumer.start(seeding=True)
    one, other = both["w1"], both["w2"]
    await one.until(
        lambda: [len(consumer.worker.membership.served()) for consumer in both.values()] == [8, 8]
    )
    keys, shards = (
        one.frontier.keys,
        {name: c.worker.membership.served() for name, c in both.items()},
    )
    hosts = [f"http://h{n}.test" for n in range(200)]
    mine = [host for host in hosts if keys.shard(host) in shards["w1"]][:10]
    theirs = [host for host in hosts if keys.shard(host) in shards["w2"]][:10]
    for host in mine:
        one.worker.add(page(f"{host}/nothing"))
    await one.until(lambda: len(one.fetched) == 10)
    for host in theirs:
        for number in range(8):
            other.worker.add(page(f"{host}/page{number}"))
    for consumer in both.values():
        consumer.worker.seeding = False
    await asyncio.gather(one.end(), other.end())
    assert (await one.crawl.totals())["pages"] == 40


async def test_a_short_queue_does_not_wait_for_the_end_of_a_long_one(frontier_of: Frontiers) -> None:
    order: list[str] = []

    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        order.append(url.host)
        return Settlement(0), True, [], Ok()

    frontier = frontier_of(shards=1)
    await frontier.add([page(f"http://long.test/{n}") for n in range(200)])
    await frontier.add([page("http://short.test/")])
    await Consumer(frontier, answer, lease_hosts=1, lease_urls=5).run()
    assert order.index("http://short.test") < 50


async def test_failures_are_retried_and_then_given_up(frontier: Frontier) -> None:
    def answer(url: LeasedURL) -> tuple[Settlement, bool, list[str], Ok]:
        verdict = "done" if url.path == "/good" else "retry" if url.attempts < 2 else "dead"
        return Settlement(0, verdict, reason="status 500"), verdict == "done", [], Ok()

    consumer = Consumer(frontier, answer)
    assert await consumer.run("http://a.test/good", "http://a.test/bad") == "finished"
    assert consumer.fetched == {"http://a.test/good": 1, "http://a.test/bad": 3}
    (letter,) = [letter async for letter in frontier.dead_letters()]
    assert (letter.url, letter.reason, letter.attempts) == ("http://a.test/bad", "status 500", 2)


async def test_a_host_that_fails_too_often_is_given_up_as_a_whole(
    frontier: Frontier, caplog: pytest.LogCaptureFixture
) -> None:
    politeness = PolitenessConfig(delay=0, connect_backoff=0.0, backoff=0.0, max_failures=3)
    consumer = Consumer(
        frontier,
        lambda url: (Settlement(0, "dead", reason="no answer"), False, (), Failed()),
        politeness=politeness,
        lease_urls=5,
    )
    urls = [*(f"http://a.test/{n}" for n in range(50)), *(f"http://b.test/{n}" for n in range(3))]
    caplog.set_level(logging.INFO)
    assert await consumer.run(*urls) == "finished"
    assert len(consumer.fetched) < 13
    counts = await frontier.counts()
    assert (counts.dead, counts.open) == (53, 0)
    told = {one.args: one.levelname for one in caplog.records if one.msg.startswith("Giving up")}
    # of a host without further URLs nothing is lost, and there may be many such hosts
    rest = 53 - len(consumer.fetched)
    assert told == {("http://a.test", rest): "WARNING", ("http://b.test", 0): "INFO"}


async def test_a_long_back_off_outlives_the_worker(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier = frontier_of()
    consumer = Consumer(frontier, lambda url: (Settlement(0, "retry"), False, (), Throttled(3600.0)))
    consumer.start(*(f"http://a.test/{n}" for n in range(5)))
    record = frontier.keys.host("http://a.test")
    await consumer.until(lambda: float(valkey.hget(record, "until") or 0) / 1000 > time.time() + 3000)
    consumer.stopped = True
    await frontier.reap(everything=True)
    await past(frontier.engine)
    assert await frontier_of(worker="next").lease(10, 10) == []
    await consumer.stop()
    assert sum(consumer.fetched.values()) == 1
    assert (await frontier.counts()).open == 5


async def test_leased_urls_keep_their_place_when_a_worker_leaves(frontier: Frontier) -> None:
    politeness = PolitenessConfig(delay=60.0)
    consumer = Consumer(frontier, lambda url: page_with(), politeness=politeness)
    consumer.start(*(f"http://a.test/{n}" for n in range(8)))
    await consumer.until(lambda: consumer.fetched.total() == 1)
    await consumer.stop()
    counts = await frontier.counts()
    assert (counts.done, counts.queued, counts.leased) == (1, 7, 0)
    assert await frontier.lease(10, 10) == [], "the host's delay outlives the worker"
    await silence_over(frontier, "http://a.test")
    (lease,) = await frontier.lease(10, 10)
    assert [(url.path, url.returns) for url in lease.urls] == [(f"/{n}", 0) for n in range(1, 8)]


async def test_lost_leases_and_late_settlements_are_counted(
    frontier_of: Frontiers,
) -> None:
    frontier, other = frontier_of(lease_seconds=0.4), frontier_of(worker="other")
    holding: list[LeasedURL] = []
    consumer = Consumer(frontier, lambda url: page_with())
    worker = consumer.worker
    worker.add(page("http://a.test/1"))
    worker.add(page("http://a.test/2"))
    worker.seeding = False
    worker.start()

    def take() -> bool:
        if (url := worker.next()) is not None:
            holding.append(url)
        return bool(holding)

    await consumer.until(take)
    (url,) = holding
    token = worker.hosts.token(url.host)
    worker._leasing.safety._lease_at = math.inf  # keeps this worker from leasing the host again first
    await other.reap(everything=True)
    (lease,) = await other.lease(10, 10)
    await consumer.until(lambda: worker.hosts.token(url.host) == -1)
    worker.finish_fetch(url, token)
    worker.settle(url, token, Settlement(url.index), page=True)
    assert await other.acknowledge(lease, [Settlement(1), Settlement(2)]) == []
    await other.release(lease)
    await consumer.until(lambda: worker.finished is not None)
    await worker.close()
    totals = await consumer.crawl.totals()
    assert (totals["lost_leases"], totals["settled_too_late"], totals["pages"]) == (1, 1, 1)
    counts = await frontier.counts()
    assert (counts.done, counts.open) == (2, 0)


async def test_leases_are_extended_while_many_urls_are_added(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sending all discovered URLs to a slow engine may take longer than a lease lasts."""
    consumer = Consumer(frontier, lambda url: page_with())
    worker = consumer.worker
    done: list[str] = []
    add, extend = Frontier.add, Frontier.extend

    async def slow_add(self: Frontier, candidates: Sequence[Candidate]) -> list[bool]:
        done.append("add")
        worker.heartbeat._last = -math.inf  # as if the call had taken that long
        return await add(self, candidates)

    async def seen_extend(self: Frontier, leases: Sequence[Lease]) -> set[str]:
        done.append("extend")
        return await extend(self, leases)

    monkeypatch.setattr(Frontier, "add", slow_add)
    monkeypatch.setattr(Frontier, "extend", seen_extend)
    for number in range(5000):
        worker.add(page(f"http://a.test/{number}"))
    worker.seeding = True
    worker.start()
    await consumer.until(lambda: not worker.intake)
    await worker.close()
    assert done[:7] == ["extend", "add", "extend", "add", "extend", "add", "extend"]


async def test_settlements_are_sent_while_there_are_always_urls_to_add(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a busy worker, pages finish with new links faster than the previous links are sent."""
    consumer = Consumer(frontier, lambda url: page_with())
    worker = consumer.worker
    add, found = Frontier.add, itertools.count()

    async def add_and_find_more(self: Frontier, candidates: Sequence[Candidate]) -> list[bool]:
        # a link to a blocked host
        worker.add(page(f"http://blocked.test/{next(found)}"))
        return await add(self, candidates)

    await frontier.block_until("http://blocked.test", 3600)
    monkeypatch.setattr(Frontier, "add", add_and_find_more)
    consumer.start("http://a.test/1")
    async with asyncio.timeout(60):
        while not (await frontier.counts()).done:
            await asyncio.sleep(0.01)
    monkeypatch.undo()
    await consumer.stop()


async def test_a_page_is_settled_after_its_own_links_are_sent(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer(frontier, lambda url: page_with())
    worker = consumer.worker
    add, taken, done = Frontier.add, [], []

    async def finish_meanwhile(self: Frontier, addition: Addition) -> list[bool]:
        path = addition.candidates[0].path
        if path == "/others":
            (url,) = taken
            token = worker.hosts.token(url.host)
            worker.finish_fetch(url, token)
            worker.add(page("http://a.test/own"))
            worker.settle(url, token, Settlement(url.index), page=True)
        elif path == "/own":
            done.append((await frontier.counts()).done)
        return await add(self, addition)

    monkeypatch.setattr(Frontier, "add", finish_meanwhile)
    worker.add(page("http://a.test/1"))
    worker.start()
    await consumer.until(lambda: bool((url := worker.next()) and not taken.append(url)))
    worker.add(page("http://a.test/others"))
    await consumer.until(lambda: bool(done))
    await worker.close()
    assert done == [0]
    assert (await frontier.counts()).done == 1


@pytest.mark.timeout(60)
def test_a_url_waits_for_another_request_to_its_host() -> None:
    """For example, robots.txt of a leased host may be in flight before any of its URLs is taken."""
    turns = Turns(PolitenessConfig(delay=0.0))
    turn = turns.turn("http://a.test")
    turn.start(now := time.monotonic())
    intake = LinkIntake(cast("Frontier", None), Counter(), HostRecords(KnownPatterns(), Dust()))
    hosts = LeasedHosts(turns, intake, lambda: None)
    url = LeasedURL(1, "http://a.test", "/", 3, 0, 0, 0, None, None)
    hosts.open(Lease("http://a.test", 1, 0, None, [url]), until=math.inf)
    assert hosts.next(now + 1.0, lambda: True) is None
    turn.finish(now + 2.0, Ok())
    assert hosts.next(hosts.next_at() + 60.0, lambda: True) == url


@pytest.mark.parametrize(("extra", "expected"), [(None, [3] * 9 + [6]), (b"{}", [3] * 10)])
def test_a_link_leased_ahead_does_not_wait_while_better_ones_come(
    extra: bytes | None, expected: list[int]
) -> None:
    """A request of a spider, with `extra`, has a priority of its own, which is strict."""
    intake = LinkIntake(cast("Frontier", None), Counter(), HostRecords(KnownPatterns(), Dust()))
    hosts = LeasedHosts(Turns(PolitenessConfig(delay=0.0)), intake, lambda: None, low_share=0.1)
    name = "http://a.test"
    urls = [LeasedURL(n, name, f"/{n}", 6, 0, 0, 0, None, extra) for n in range(2)]
    hosts.open(Lease(name, 1, 0, None, list(urls)), until=math.inf)
    taken = list[LeasedURL | None]()
    for n in range(2, 22):
        hosts.add_urls(hosts[name], [LeasedURL(n, name, f"/{n}", 3, 0, 0, 0, None, None)])
        taken.append(hosts.next(time.monotonic() + 60.0, lambda: True))
        hosts.finish_fetch(hosts[name])
    assert [url and url.level for url in taken] == expected * 2
    assert [url for url in taken if url in urls] == ([] if extra else urls)


def test_a_lower_level_that_the_engine_has_put_first_is_its_share() -> None:
    """The worker gives lower levels no share besides, although worse links are behind."""
    intake = LinkIntake(cast("Frontier", None), Counter(), HostRecords(KnownPatterns(), Dust()))
    hosts = LeasedHosts(Turns(PolitenessConfig(delay=0.0)), intake, lambda: None, low_share=0.1)
    name, levels = "http://a.test", [3] * 8 + [6] + [3] * 9 + [6] + [3] * 11 + [4] * 9
    urls = [LeasedURL(n, name, f"/{n}", level, 0, 0, 0, None, None) for n, level in enumerate(levels)]
    hosts.open(Lease(name, 1, 0, None, urls), until=math.inf)
    taken = list[int]()
    for _ in range(30):
        assert (url := hosts.next(time.monotonic() + 60.0, lambda: True)) is not None
        taken.append(url.level)
        hosts.finish_fetch(hosts[name])
    assert [at for at, level in enumerate(taken) if level != 3] == [8, 18, 28]
