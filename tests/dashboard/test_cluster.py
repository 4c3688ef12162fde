"""The dashboard of a crawl on a Valkey cluster: each page, actions, and a primary that dies while pages are open."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from redis import RedisCluster

from tests.cluster import LocalCluster, until
from tests.crawls import CrawlResult
from tests.dashboard.site import CLOSED, HOME, OTHER, Dashboard, hostile_web
from tests.dashboard.test_access import ask, cookie_of, form_token
from tests.web import LocalWeb
from webcrawl.engine.keys import Keys
from webcrawl.frontier.host_table import LISTS

KEYS = Keys("broad", 16)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@dataclass
class Visitor:
    """Somebody at a dashboard. Their cookie and the secret of their forms come from the page of the crawl."""

    url: str
    cookie: str = ""
    token: str = ""

    def __post_init__(self) -> None:
        _, headers, html = ask(f"{self.url}/crawls/broad")
        self.cookie, self.token = cookie_of(headers), form_token(html)

    def get(self, path: str) -> str:
        status, _, html = ask(f"{self.url}/crawls/broad{path}", Cookie=self.cookie)
        assert status == 200, f"{path}: {html}"
        return html

    def act(self, path: str, **form: str) -> str:
        """The address to which an action leads, with what it tells."""
        fields = {"token": self.token, "next": "/crawls/broad", **form}
        status, headers, html = ask(f"{self.url}/crawls/broad/{path}", fields, Cookie=self.cookie)
        assert status == 303, html
        return str(headers["Location"])

    def event(self, name: str) -> str:
        """The first event of a page that is open."""
        request = urllib.request.Request(
            f"{self.url}/live/{name}?crawl=broad", headers={"Cookie": self.cookie}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            while not (line := answer.readline()).startswith(b"data: "):
                assert line
            return str(line.decode())


def test_pages_and_actions_reach_all_shards(
    cluster: LocalCluster,
    start_dashboard: Callable[..., Dashboard],
    run_crawl: Callable[..., CrawlResult],
    tmp_path: Path,
) -> None:
    with hostile_web() as web:
        options: dict[str, Any] = {"REDIS_URL": cluster.url, "FRONTIER_SHARDS": KEYS.shards}
        options |= {"FRONTIER_MAX_ATTEMPTS": 1, "POLITENESS_UNIT": KEYS.unit}
        seeds = [web.url(HOME), web.url(OTHER), CLOSED]
        run_crawl("broad", seeds, **options)
        visitor = Visitor(start_dashboard(REDIS_URL=cluster.url).url)
        look_at_pages(visitor, web)
        act(visitor, web, cluster)
        dying = cluster.owner(KEYS.own())
        replica = cluster.replica_of(dying)
        dying.kill()
        cluster.takes_over(replica)
        until(lambda: ask(f"{visitor.url}/crawls/broad/hosts", Cookie=visitor.cookie)[0] == 200)
        look_at_pages(visitor, web)
        assert "1+dead+letter+queued" in visitor.act("dead-letters/requeue-one", url=CLOSED)
        assert CLOSED not in visitor.get("/dead-letters")


def look_at_pages(visitor: Visitor, web: LocalWeb) -> None:
    home = web.host(HOME)
    assert "finished" in visitor.get("")
    for name in LISTS:
        visitor.get(f"/hosts?list={name}")
    hosts = visitor.get("/hosts?list=fetched")
    assert all(f"{web.host(site)}</a>" in hosts for site in (HOME, OTHER))
    assert "Disallow: /private/" in visitor.get(f"/hosts/host?host={quote(home)}")
    assert "404" in visitor.get(f"/url?url={quote(web.url(HOME, '/gone'))}")
    assert "Connection refused" in visitor.get("/dead-letters")
    assert "/copy" in visitor.get("/duplicates")
    for name in ("crawl", "hosts", "dead-letters", "duplicates", "crawls"):
        assert visitor.event(name).startswith("data: {")


def act(visitor: Visitor, web: LocalWeb, cluster: LocalCluster) -> None:
    """Actions on hosts in several shards, and their effects in the engine."""
    hosts = [web.host(HOME), web.host(OTHER), CLOSED.removesuffix("/never")]
    assert len({KEYS.shard(host) for host in hosts}) > 1
    with RedisCluster.from_url(cluster.url) as client:
        for host in hosts:
            parked = KEYS.queue(KEYS.shard(host))[0] + "parked"
            assert "is+blocked" in visitor.act("hosts/block", host=host)
            assert client.hget(parked, host) == b"blocked"
            assert "fetched+again" in visitor.act("hosts/unblock", host=host)
            assert client.hget(parked, host) is None
            visitor.act("hosts/delay", host=host, seconds="2.5")
            assert client.hget(KEYS.host(host), "delay") == b"2500"
