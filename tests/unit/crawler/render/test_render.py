"""Rendering: URL rules, restarts of the browser, and its connection limit."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from scrapy import Request

from tests.cases import cases
from tests.crawl import test_render
from tests.downloads import Client, run
from tests.wire import Wire, plain
from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.fetch import check_before_sending
from webcrawl.crawler.render import rules
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.politeness import Ok

render = pytest.importorskip("webcrawl.crawler.render.render", reason="needs the extra 'render'")


@cases(
    ("rule", "url", "applies"),
    [
        ("example.org", "https://example.org/", True),
        ("example.org", "http://www.Example.org:8080/x".lower(), True),
        ("example.org", "https://notexample.org/", False),
        ("example.org", "https://example.org.evil/", False),
        ("127.0.0.1", "http://127.0.0.1:80/", True),
        ("https://example.org/app/*", "https://example.org/app/a/b?c", True),
        ("https://example.org/app/*", "https://example.org/", False),
        ("*://*/app/*", "http://a.b/app/x", True),
        ("*.example.org", "https://example.org/", False),
        ("*.example.org", "https://a.b.example.org/", True),
        (" EXAMPLE.org. ", "https://example.org/", True),
        ("example.org", "https://example.org./", True),
        ("example.org:8080", "https://a.example.org:8080/", True),
        ("example.org:443", "https://example.org/", True),
        ("example.org:443", "http://example.org/", False),
        ("::1", "http://[::1]:8080/", True),
        ("[::1]:8080", "http://[::1]:8080/", True),
        ("bücher.example", "https://www.xn--bcher-kva.example/", True),
        ("HTTPS://Bücher.Example:443/Ü/{a}*", "https://xn--bcher-kva.example/%C3%9C/%7Ba%7Db", True),
        ("*://*.Example.org:443/*", "https://a.example.org/x", True),
        ("http://127.0.*.1:*/*", "http://127.0.3.1:80/x", True),
        ("http://[::1]/*", "http://[::1]/x", True),
        ("https://example.org/list?f[]=*", "https://example.org/list?f[]=1", True),
        ("https://example.org/list?page=*", "https://example.org/lists", False),
    ],
)
def test_rule_matches_urls(rule: str, url: str, applies: bool) -> None:
    assert rules.RenderRules([rule]).apply(url) == applies
    assert rules.RenderRules(["other.example", rule, "https://x/*"]).apply(url) == applies


@cases(
    "rule",
    [
        *("https://example.org", "example.org/app/*", "ftp://example.org/*", "https:///x", "/x"),
        *("https://example.org/#/app/*", "https://exa mple.org/*", "https://*ü.example/*", "https://a:b/*"),
        *("*", "a*.example", "example.org:x", "user@example.org", "example.org#x", "exa mple.org"),
        *("example.org:*", "[::1", "*.127.0.0.1", "300.1.1.1"),
    ],
)
def test_rule_that_can_never_match_is_rejected(rule: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"RENDER {rule!r}: ")):
        rules.RenderRules(["example.org", rule])


@test_render.pytestmark
def test_killed_browser_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RENDER_TEST", str(tmp_path))

    async def check() -> None:
        client = Client(RENDER="127.0.0.1", USER_AGENT="robot", DOCUMENT_MAXSIZE={"text/html": 60})
        page = plain(
            b"<p>" + b"x" * 1000,
            b"Content-Type: text/html",
            b"X-A: b",
            b"Set-Cookie: a=1",
            b"Set-Cookie: b=2",
        )
        async with Wire([page]) as wire, client:
            browser = client.session.renderer
            for _ in range(2):
                response, exchange = await browser.render(Request(wire.url()), client.crawler, 10)
                assert len(response.body) == 60 == len(exchange.payload)
                assert (response.flags, exchange.truncated) == (["rendered", "truncated"], "length")
                assert response.headers["X-A"] == b"b"
                assert len(response.headers.getlist("Set-Cookie")) == 2
                assert b"\r\nuser-agent: robot\r\n" in wire.heads[-1].lower()
                for process in test_render.processes(tmp_path):
                    os.kill(process, signal.SIGKILL)
                while browser._pages.browser.is_connected():
                    await asyncio.sleep(0.01)
            await browser.close()

    run(check(), 60)


@test_render.pytestmark
def test_request_waiting_for_the_browser_frees_its_turn_and_rechecks_its_lease() -> None:
    is_lost = False

    def check_lease() -> None:
        if is_lost:
            raise Postponed("the lease was lost")

    async def check() -> None:
        nonlocal is_lost
        async with (
            Wire([plain(b"page")]) as wire,
            Client(RENDER="127.0.0.1", CONCURRENT_REQUESTS=2) as client,
        ):
            turns, renderer = client.session.turns, client.session.renderer
            assert renderer is not None
            while not renderer.slots.locked():
                await renderer.slots.acquire()
            request = Request(wire.url())
            check_before_sending(request, check_lease)
            await turns.take(wire.url().rstrip("/"))
            sent = asyncio.ensure_future(client.send(request))
            others = [await turns.take(host) for host in ("http://a.example", "http://b.example")]
            is_lost = True
            renderer.slots.release()
            turns.give("http://a.example", others[0], Ok())
            with pytest.raises(Postponed, match="lost"):
                await sent
            assert wire.heads == []
            turns.abandon()
            with pytest.raises(Postponed, match="ends"):
                await client.send(Request(wire.url()))
            await renderer.close()

    run(check(), 30)
