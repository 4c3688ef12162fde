"""The history of a crawl, what its workers tell of themselves, and a crawl that is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgpack
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import LEVELS, Frontier
from webcrawl.frontier.crawl import Crawl, CrawlRun, Runs
from webcrawl.frontier.figures import CrawlFigures, figures
from webcrawl.frontier.gauges import ready_hosts
from webcrawl.frontier.history import MOST_SAMPLES, SAMPLE_SECONDS, History
from webcrawl.frontier.workers import AllVitals, Vitals
from webcrawl.hosts.politeness import Pace
from webcrawl.web.overview import overview

KEYS = Keys("crawl", 4)


async def figures_of(frontier: Frontier, **values: object) -> CrawlFigures:
    crawl = Crawl(frontier.engine, frontier.keys, "w")
    return replace(await figures(frontier, crawl), **values)  # type: ignore[arg-type]


async def test_samples_come_at_their_pace(frontier: Frontier, valkey: Redis) -> None:
    history = History(frontier.engine, frontier.keys)
    now = await figures_of(frontier, pages=7, responses={"200": 7, "404": 2}, soft_404=1, hosts=3)
    assert await history.add(now)
    assert not await history.add(now), "another worker has just taken one"
    (sample,) = await history.hour()
    assert (sample.pages, sample.errors, sample.hosts) == (7, 2, 3)
    assert await history.whole() == [sample]


async def test_a_long_history_gets_thinner_and_keeps_its_start(frontier: Frontier, valkey: Redis) -> None:
    history = History(frontier.engine, frontier.keys)
    key, step = frontier.keys.own("samples"), int(SAMPLE_SECONDS * 1000)
    now = await figures_of(frontier)
    total = 3 * MOST_SAMPLES
    for number in range(total):
        assert await history.add(replace(now, pages=number))
        # as if the time between two had passed
        for name in ("at", "whole"):
            valkey.hincrby(key, name, -step)
    hour, whole = await history.hour(), await history.whole()
    assert [one.pages for one in hour] == list(range(total - MOST_SAMPLES, total))
    assert whole[0].pages == 0 and whole[-1].pages > total - 10
    assert MOST_SAMPLES // 2 <= len(whole) < MOST_SAMPLES
    assert [one.pages for one in whole] == sorted({one.pages for one in whole})


async def test_checks_a_second_are_those_of_the_last_half_minute(frontier: Frontier, valkey: Redis) -> None:
    history, now = History(frontier.engine, frontier.keys), await figures_of(frontier)
    assert await history.checks_per_second() == 0
    # an hour ago, and the last samples; that of an earlier version has no such figure
    figures = "0 " * 10
    for seconds, checked in ((0, ""), (3000, "100"), (3010, "540"), (3020, "980"), (3030, "1420")):
        valkey.rpush(frontier.keys.own("samples:hour"), f"{seconds * 1000} {figures}{checked}")
    assert await history.checks_per_second() == 44
    assert [sample.checked for sample in await history.hour()] == [0, 100, 540, 980, 1420]
    assert await history.add(replace(now, unchanged=1860, revisits={}))
    assert (await history.hour())[-1].checked == 1860
    assert await history.add(replace(now, unchanged=3, revisits={"changed": 2000, "gone": 40})) is False


async def test_an_overview_has_the_checks_of_live_workers(frontier: Frontier, valkey: Redis) -> None:
    crawl = Crawl(frontier.engine, frontier.keys, "w")
    valkey.hincrby(frontier.keys.own("totals"), "unchanged", 440)
    for seconds, checked in ((3000, 0), (3010, 440)):
        valkey.rpush(frontier.keys.own("samples:hour"), f"{seconds * 1000} {'0 ' * 10}{checked}")
    assert (await overview(crawl, frontier)).checks == 0, "no worker is alive"
    await crawl.workers.beat(seeding=False)
    now = await overview(crawl, frontier)
    assert (now.figures.checked, now.checks) == (440, 44)


async def test_workers_tell_of_themselves(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    vitals = AllVitals(engine_at(redis_url), KEYS)
    paces = {"http://a.test": Pace(1.5, "Crawl-delay", 60.0, "Retry-After", 1)}
    told = Vitals(1.0, 2, 3, 4, 5, 6, 7, 8.5, [("http://a.test", 0.25)], paces, [("http://a.test/1", 5.0)])
    await vitals.put("w1", told, 60.0)
    found = await vitals.of(["w1", "w2"])
    assert found.keys() == {"w1"}
    assert replace(found["w1"], slowest=()) == replace(told, slowest=())
    assert [tuple(one) for one in found["w1"].slowest] == [("http://a.test", 0.25)]
    assert await vitals.of([]) == {}
    (key,) = valkey.keys("*vitals:w1")
    later = msgpack.unpackb(valkey.get(key)) | {"of_a_later_version": 1}
    valkey.set(key, msgpack.packb(later))
    assert (await vitals.of(["w1"]))["w1"] == found["w1"]


async def test_a_running_worker_tells_and_is_stopped(frontier: Frontier) -> None:
    pages = [f"http://h{n % 5}.test/{n}" for n in range(200)]
    consumer = Consumer(frontier, lambda url: page_with(pages[1:] if url.path == "/0" else ()))
    crawl = consumer.crawl
    await crawl.workers.stop()
    consumer.start(pages[0], seeding=True)
    while not (await crawl.workers.alive() and await AllVitals(crawl.engine, crawl.keys).of([crawl.worker])):
        await asyncio.sleep(0.02)
    await crawl.workers.stop()
    assert await consumer.end() == "stopped"
    assert (await History(crawl.engine, crawl.keys).hour())[-1].pages <= len(pages)


async def test_a_crawl_remembers_its_latest_run(engine_at: Callable[..., Engine], redis_url: str) -> None:
    runs = Runs(engine_at(redis_url), KEYS)
    assert await runs.latest() is None
    await runs.begin(CrawlRun("old", 1.0, {}))
    await runs.begin(run := CrawlRun("broad", 2.0, {"DOWNLOAD_DELAY": "1"}))
    assert await runs.latest() == run


async def test_ready_hosts_are_counted_by_level(frontier: Frontier) -> None:
    assert await ready_hosts(frontier.engine, frontier.keys) == [0] * LEVELS
    await frontier.add(
        [page(f"http://h{number}.test/{path}", level=2) for number in range(3) for path in (1, 2)]
    )
    expected = [0] * LEVELS
    expected[2] = 3
    assert await ready_hosts(frontier.engine, frontier.keys) == expected
