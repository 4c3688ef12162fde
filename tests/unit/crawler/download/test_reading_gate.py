"""New hosts are not asked for pages while many pages wait to be read, however long they waited before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from scrapy import Request
from scrapy.http import Response

from tests.pacing import run
from webcrawl.config import PolitenessConfig
from webcrawl.crawler.access import ROBOTS
from webcrawl.crawler.download.further_turns import ReadingGate
from webcrawl.documents.html.outline_process import NEW_HOSTS_BYTES, KnownHosts
from webcrawl.hosts.politeness import Ok
from webcrawl.hosts.turns import Turns
from webcrawl.middlewares.html_process import HtmlProcessMiddleware


def test_requests_that_waited_for_a_connection_look_for_room_again() -> None:
    hosts, turns, sent = KnownHosts(), Turns(PolitenessConfig(delay=0), total=1), list[int]()
    read = [asyncio.Event() for _ in range(10)]

    async def ask(number: int) -> None:
        host = f"http://{number}.example"
        turn = await turns.take(host, gates=[ReadingGate(turns, hosts, host)])
        sent.append(number)
        turns.give(host, turn, Ok())
        with hosts.reading(host, NEW_HOSTS_BYTES + 1):
            await read[number].wait()

    async def crawl() -> None:
        asked = [asyncio.ensure_future(ask(number)) for number in range(10)]
        for pages in range(1, 11):
            while len(sent) < pages or turns.unread < 10 - pages:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            assert len(sent) == pages
            read[sent[-1]].set()
        await asyncio.gather(*asked)

    run(crawl())


def test_a_robots_txt_makes_no_host_known() -> None:
    middleware, hosts = HtmlProcessMiddleware.__new__(HtmlProcessMiddleware), KnownHosts()
    middleware._outlines = SimpleNamespace(hosts=hosts)  # type: ignore[assignment]
    middleware._session = SimpleNamespace(components=SimpleNamespace(read_facts=False))  # type: ignore[assignment]
    with hosts.reading("http://other.example", NEW_HOSTS_BYTES + 1):
        for url, meta, is_known in (
            ("http://a.example/robots.txt", {ROBOTS: True}, False),
            ("http://a.example/", {}, True),
        ):
            response = Response(url, body=b"small")
            assert middleware.process_response(Request(url, meta=meta), response) is response
            assert hosts.has_room("http://a.example") == is_known
