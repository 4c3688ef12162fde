"""The spider `live` takes URLs from a stream, and answers each with an event."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis import Redis

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
