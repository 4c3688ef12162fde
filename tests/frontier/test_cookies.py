"""Cookie jars: shared by the workers of a crawl, bounded, and used by the requests that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from tests.frontier import test_session
from webcrawl.crawler import cookies
from webcrawl.crawler.cookies import Jars, SiteCookies
from webcrawl.crawler.session import Session
from webcrawl.middlewares.cookies import CookiesMiddleware
from webcrawl.opened import Connection
from webcrawl.spiders.base import BroadSpider

crawler_of = test_session.crawler_of
URL = "https://www.example.co.uk/a"


def sent(part: SiteCookies, url: str = URL) -> str | None:
    """The Cookie header of a request for a URL."""
    request = Request(url)
    part.cookies.add_cookie_header(request)
    header = request.headers.get("Cookie")
    return header.decode() if header else None


def accept(part: SiteCookies, *lines: str, url: str = URL) -> None:
    """Takes up the cookies of a response."""
    request = Request(url)
    response = Response(url, headers={"Set-Cookie": list(lines)})
    part.accept(response, request)


async def stored(connection: Connection, site: str) -> int:
    """How many parts of jars the engine has, in a crawl with one shard; checks their sum of bytes."""
    parts = await connection.engine.client.hgetall(connection.keys.cookies(site))
    assert int(parts.pop(b"bytes", 0)) == sum(map(len, parts.values()))
    return len(parts)


async def jars_of(crawler: Crawler) -> Jars:
    return Jars((await test_session.open_session(crawler)).connection)


async def test_workers_share_jars_and_read_them_once_a_lease(
    crawler_of: Callable[..., Crawler], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = await jars_of(crawler_of()), await jars_of(crawler_of())
    mine = one.part(("team", 1), URL)
    accept(mine, "session=1; Domain=example.co.uk; Secure; HttpOnly; Max-Age=999", "own=2")
    await one.write(mine)
    theirs = other.part(("team", 1), "https://api.example.co.uk/")
    await other.read(theirs, "https://api.example.co.uk", 7)
    assert sent(theirs, "https://api.example.co.uk/") == "session=1"
    assert sent(theirs) in ("session=1; own=2", "own=2; session=1")
    assert sent(other.part(("team", 2), URL)) is None
    assert theirs.dump() == mine.dump()
    accept(theirs, "session=3; Domain=example.co.uk")
    await other.write(theirs)
    for token, value in ((1, "session=3"), (1, "session=3"), (2, "session=4")):
        await one.read(mine, "https://www.example.co.uk", token)
        assert value in (sent(mine) or "")
        accept(theirs, "session=4; Domain=example.co.uk")
        await other.write(theirs)
    # a damaged entry is named, and the jar begins anew
    connection = Session.of(crawler_of()).connection
    assert mine.field is not None
    key = connection.keys.cookies("example.co.uk")
    await one._connection.engine.change(key, "HSET", mine.field, b"\x81\xa1a\xa1b")
    await one.read(mine, "https://www.example.co.uk", 3)
    assert "stored cookies of example.co.uk cannot be read" in caplog.text
    await one._connection.clear()
    assert not await one._connection.engine.client.exists(key)


async def test_the_engine_keeps_the_cookies_of_a_bounded_number_of_sites(
    crawler_of: Callable[..., Crawler], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cookies, "_MOST_SHARED", 1)
    monkeypatch.setattr(cookies, "MOST_SITES", 3)
    crawler = crawler_of(FRONTIER_SHARDS=1)
    jars = await jars_of(crawler)
    for number in range(9):
        part = jars.part(None, f"https://site{number}.example/")
        accept(part, "a=b", url=f"https://site{number}.example/")
        await jars.write(part)
    connection = jars._connection
    assert await stored(connection, "site0.example") == 1
    assert len(jars) == 3
    assert caplog.text.count("those of further sites are kept in each worker's memory") == 1


async def test_large_jars_leave_the_memory_and_are_read_again(
    crawler_of: Callable[..., Crawler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cookies, "_MOST_MEMORY", 150_000)
    jars = await jars_of(crawler_of())
    value = "v" * 4_000
    for number in range(9):
        url = f"https://site{number}.example/"
        part = jars.part(None, url)
        accept(part, *(f"n{cookie}={value}" for cookie in range(10)), url=url)
        await jars.write(part)
    assert len(jars) == 2
    assert sent(jars.part(None, "https://site8.example/"), "https://site8.example/") is not None
    dropped = jars.part(None, "https://site0.example/")
    assert len(dropped.cookies) == 0
    await jars.read(dropped, "https://site0.example", 1)
    assert len(dropped.cookies) == 10
    assert len(jars) == 2


async def test_the_engine_keeps_a_bounded_amount_of_cookies(
    crawler_of: Callable[..., Crawler], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cookies, "_MOST_SHARED_BYTES", 30_000)
    jars = await jars_of(crawler_of(FRONTIER_SHARDS=1))
    connection = jars._connection
    for number in range(9):
        part = jars.part(None, f"https://site{number}.example/")
        accept(part, f"a={'v' * 4_000}", url=f"https://site{number}.example/")
        await jars.write(part)
    assert await stored(connection, "site0.example") == 7
    # a part that has become too large is deleted, because other workers must not read outdated cookies
    first = jars.part(None, "https://site0.example/")
    accept(first, *(f"{name}={'v' * 4_000}" for name in "bcdefgh"), url="https://site0.example/")
    await jars.write(first)
    assert await stored(connection, "site0.example") == 6
    await jars.read(first, "https://site0.example", 2)
    assert len(first.cookies) == 8
    assert caplog.text.count("those of further sites are kept in each worker's memory") == 1


def test_only_as_much_of_a_response_is_parsed_as_is_kept() -> None:
    part = SiteCookies(None, "example.co.uk")
    accept(part, "kept=1")
    lines = ["kept=; Max-Age=0"]
    lines += [f"n{number}=v; Comment={'c' * 9_000 * (number % 2)}" for number in range(950)]
    # a jar splits it even if its policy has no use for it, in the square of its length: 0.3 seconds for 120 KB
    part.cookies.set_policy(DefaultCookiePolicy(rfc2965=True))
    response = Response(URL, headers={"Set-Cookie": lines, "Set-Cookie2": 'other=1; Version="1"'})
    part.accept(response, Request(URL), 50)
    assert {cookie.name for cookie in part.cookies} == {"kept", *(f"n{n}" for n in range(850, 950, 2))}


def test_the_cookies_of_a_site_have_a_bounded_size() -> None:
    part = SiteCookies(None, "example.co.uk")
    for number in range(40):
        accept(part, f"large{number}={'v' * 4_000}; Path=/{'p' * 900}")
    assert [cookie.name for cookie in part.cookies] == [f"large{number}" for number in range(27, 40)]
    assert 60_000 < part.memory < 80_000


def test_a_deleted_cookie_is_a_change() -> None:
    part = SiteCookies(None, "example.co.uk")
    accept(part, "a=1", "b=2; Max-Age=999")
    changes = part.changes
    accept(part, "a=; Max-Age=0")
    assert sent(part) == "b=2" and part.changes == changes + 1
    accept(part, "a=; Max-Age=0")
    assert part.changes == changes + 1


def test_a_site_cannot_fill_the_memory_or_set_cookies_for_others() -> None:
    part = SiteCookies(None, "example.co.uk")
    accept(part, *(f"n{number}=v" for number in range(500)))
    assert len(part.cookies) == 180 and "n499=v" in (sent(part) or "")
    part = SiteCookies(None, "example.co.uk")
    before = part.changes
    accept(part, "big=" + "x" * 5000, "far=1; Domain=example.org", "public=1; Domain=co.uk")
    assert sent(part) is None and part.changes == before
    accept(part, "a=1", "a=1")
    accept(part, "a=1")
    assert part.changes == before + 1


class Broad(BroadSpider):
    name = "wide"


class Plain(Spider):
    name = "plain"


@pytest.mark.parametrize(
    ("spider", "enabled", "cookies_given", "meta", "uses"),
    [
        (Plain, None, {}, {}, True),
        (Plain, False, {}, {}, False),
        (Plain, False, {"a": "b"}, {}, False),
        (Broad, None, {}, {}, False),
        (Broad, None, {"a": "b"}, {}, True),
        (Broad, None, {}, {"cookiejar": 0}, True),
        (Broad, True, {}, {}, True),
        (Broad, True, {}, {"dont_merge_cookies": True}, False),
        (Plain, None, {}, {"robots_txt": True}, False),
    ],
)
def test_cookies_are_used_by_requests_that_ask_for_them(
    spider: type[Spider],
    enabled: bool | None,
    cookies_given: dict[str, str],
    meta: dict[str, Any],
    uses: bool,
    crawler_of: Callable[..., Crawler],
    caplog: pytest.LogCaptureFixture,
) -> None:
    crawler = crawler_of(COOKIES_ENABLED=enabled)
    crawler.spidercls = spider
    middleware = CookiesMiddleware.from_crawler(crawler)
    for _ in range(2):
        assert middleware._applies(Request(URL, cookies=cookies_given, meta=meta)) is uses
    told = caplog.text.count("its cookies are not sent, because COOKIES_ENABLED is False")
    assert told == (enabled is False and bool(cookies_given))


def test_a_broad_crawl_says_once_that_the_cookies_of_a_form_are_not_kept(
    crawler_of: Callable[..., Crawler], caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of()
    crawler.spidercls = Broad
    middleware = CookiesMiddleware.from_crawler(crawler)
    response = Response(URL, headers={"Set-Cookie": "a=b"})
    for method in ("GET", "POST", "POST"):
        assert middleware.process_response(Request(URL, method=method), response) is response
    assert caplog.text.count("the cookies of the answer are not kept") == 1
    assert 'meta={"cookiejar": 1}' in caplog.text
