"""Pages that redirect back to themselves until their cookie comes back."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.crawls import CrawlResult
from tests.web import Hit, LocalWeb, Page, Reply

SITE, GATE = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
PAGES = [f"/page-{number}" for number in range(4)]
WAYS = {"127.0.1.3": "direct", "127.0.1.4": "gate", "127.0.1.5": "two gates"}


SPIDER = """
import scrapy

class Walls(scrapy.Spider):
    name = "walls"

    def __init__(self, home, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [home + "page-0"]

    def parse(self, response):
        yield {"text": response.text}
        yield response.follow("/page-1", self.parse)
"""


def sent(hit: Hit) -> set[str]:
    return {name.partition("=")[0].strip() for name in hit.headers.get("Cookie", "").split(";")} - {""}


def to(url: str, cookie: str = "") -> Reply:
    return Reply("", 302, {"Location": url, **({"Set-Cookie": f"{cookie}=1; Path=/"} if cookie else {})})


def walled(web: LocalWeb, way: str, site: str = SITE) -> None:
    """A site whose pages want a cookie: `direct`, over a gate for each page, or over two gates that all share."""
    web.put(site, "/", "".join(f"<a href={path}>{path}</a>" for path in PAGES))

    def page(hit: Hit) -> Reply:
        if "wall" in sent(hit):
            return Reply(f"<p>the text of {hit.path}")
        if way == "direct":
            return to(hit.path, "wall")
        if way == "gate":
            return to(f"/gate?back={hit.path}", "first")
        return to(web.url(site, f"/one?back={hit.path}"), "first")

    def gate(hit: Hit) -> Reply:
        return to(unquote(hit.path.partition("back=")[2]), "wall")

    for path in PAGES:
        web.put(site, path, page)
    web.put(site, "/gate", gate)
    web.put(site, "/one", lambda hit: to(f"/two?{hit.path.partition('?')[2]}"))
    web.put(site, "/two", gate)


@pytest.fixture
def walls(local_web: StartWeb) -> LocalWeb:
    """A walled site for each way."""
    web = local_web(*WAYS)
    for site, way in WAYS.items():
        walled(web, way, site)
    return web


def test_with_cookies_each_page_is_fetched_behind_its_wall(walls: LocalWeb, run_crawl: RunCrawl) -> None:
    result = run_crawl("broad", [walls.url(site, "/") for site in WAYS], COOKIES_ENABLED=True)
    statuses = {row["url"]: row["status"] for row in result.rows()}
    for site in WAYS:
        assert {statuses[walls.url(site, path)] for path in PAGES} == {200}
        assert sum(hit.status == 302 for hit in walls.log(site)) <= 3 * len(PAGES)
    assert result.summary["remarks"] == {}


def test_without_cookies_rows_and_summary_say_that_pages_want_them(
    walls: LocalWeb, run_crawl: RunCrawl
) -> None:
    result = run_crawl("broad", [walls.url(site, "/") for site in WAYS])
    remarks = {row["url"]: json.loads(row["details"] or "{}").get("remarks") for row in result.rows()}
    for site, way in WAYS.items():
        remark = "wants_cookies" if way == "direct" else "cookies_refused"
        assert [remarks[walls.url(site, path)] for path in PAGES] == [[remark]] * len(PAGES)
        # nobody is asked twice for it
        assert sorted(hit.path for hit in walls.log(site) if hit.path in PAGES) == PAGES
    assert result.summary["remarks"]["wants_cookies"] == len(WAYS) * len(PAGES)
    assert (
        "12 pages led back to where they came from until they get a cookie: set COOKIES_ENABLED"
        in result.stderr
    )


@pytest.mark.parametrize("cookies", [None, True])
def test_pages_share_a_gate_that_knows_them_by_a_cookie(
    cookies: bool | None, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)

    def page(hit: Hit) -> Reply:
        if f"passed{hit.path[1:]}" in sent(hit):
            return Reply(hit.path)
        return Reply("", 302, {"Location": "/gate", "Set-Cookie": f"back={hit.path}; Path=/"})

    def gate(hit: Hit) -> Reply:
        path = next(iter(hit.headers.get("Cookie", "").split("back=/")[1:]), "early").partition(";")[0]
        return to(f"/{path}", f"passed{path}")

    web.put(SITE, "/", "<a href=/early>early</a> <a href=/hub>hub</a>")
    web.put(SITE, "/hub", "<a href=/hub2>hub</a>")
    web.put(SITE, "/hub2", "<a href=/hub3>hub</a>")
    web.put(SITE, "/hub3", "<a href=/late>late</a>")
    web.put(SITE, "/early", page)
    web.put(SITE, "/late", page)
    web.put(SITE, "/gate", gate)
    result = run_crawl("broad", [web.url(SITE, "/")], COOKIES_ENABLED=cookies)
    rows = {row["url"]: row for row in result.rows()}
    late = rows[web.url(SITE, "/late")]
    if cookies:
        assert (rows[web.url(SITE, "/early")]["status"], late["status"]) == (200, 200)
    else:
        assert result.summary["remarks"] == {"cookies_refused": 1, "wants_cookies": 2}
        assert json.loads(late["details"])["remarks"] == ["wants_cookies"]


@pytest.mark.parametrize("way", ["direct", "two gates"])
def test_linkcheck_calls_no_page_broken_that_wants_cookies(
    way: str, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    walled(web, way)
    result = run_crawl("linkcheck", [web.url(SITE, "/")])
    assert "Links: 4 unchecked." in result.stdout + result.stderr


def test_a_scrapy_spider_gets_the_pages(local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path) -> None:
    web = local_web(SITE)
    walled(web, "gate")
    run_spider(SPIDER, web.url(SITE))
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert sorted(item["text"] for item in items) == [f"<p>the text of {path}" for path in PAGES[:2]]


def waits(markup: str, cookie: str, headers: dict[str, str] | None = None) -> Callable[[Hit], Reply]:
    """A page that sets a cookie, and leads back to itself without a redirect."""

    def page(hit: Hit) -> Reply:
        if cookie in sent(hit):
            return Reply(f"<p>the text of {hit.path}")
        return Reply(markup, 200, {"Set-Cookie": f"{cookie}=1; Path=/", **(headers or {})})

    return page


@pytest.mark.parametrize("cookies", [True, None])
def test_pages_that_refresh_themselves_for_a_cookie_are_walls(
    cookies: bool | None, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    pages = {
        "/header": waits("wait", "a", {"Refresh": "0"}),
        "/header-url": waits("wait", "b", {"Refresh": "0; url=/header-url"}),
        "/meta": waits("<meta http-equiv=refresh content=1><title>Please wait</title>", "c"),
        "/meta-url": waits("<meta content='0;URL=/meta-url#x' http-equiv='Refresh'>", "d"),
        "/script": waits("<script>setTimeout(() => location.reload(), 9)</script>", "e"),
        "/script-url": waits("<script>var a = '/script-url'; location.href = a</script>", "f"),
    }
    web.sites[SITE].update(pages)
    web.put(SITE, "/", "".join(f"<a href={path}>{path}</a>" for path in (*pages, "/news")))
    web.put(SITE, "/news", waits("<meta http-equiv=refresh content=300><p>" + "News of today. " * 40, "g"))
    result = run_crawl("broad", [web.url(SITE, "/")], COOKIES_ENABLED=cookies)
    remarks = {
        row["url"].removeprefix(web.url(SITE)): json.loads(row["details"] or "{}").get("remarks")
        for row in result.rows()
    }
    for path in pages:
        assert web.paths(SITE).count(path) == (2 if cookies else 1)
        assert remarks[path.removeprefix("/")] == (None if cookies else ["wants_cookies"])
    assert web.paths(SITE).count("/news") == 1
    assert result.summary["remarks"] == ({} if cookies else {"wants_cookies": len(pages)})


def sets(cookie: str, rest: str = "location.reload()") -> str:
    return f"<script>document.cookie = '{cookie}'; {rest}</script>"


def scripted(markup: str, coding: str = "") -> Callable[[Hit], Reply]:
    """A page whose script sets a cookie, "wall" with the path as its value, and loads the page again."""

    def page(hit: Hit) -> Reply:
        if f"wall={hit.path[1:]}" in hit.headers.get("Cookie", ""):
            return Reply(f"<p>the text of {hit.path}")
        body = markup.encode()
        return Reply(gzip.compress(body), headers={"Content-Encoding": coding}) if coding else Reply(body)

    return page


BY_SCRIPT = {
    "/reload": scripted(sets("wall=reload; path=/")),
    "/itself": scripted(sets("wall=itself", "location.href = '/itself'")),
    "/gzip": scripted(sets("wall=gzip; Path=/; Max-Age=60"), "gzip"),
    "/meta": scripted(sets("wall=meta; SameSite=Lax", "") + "<meta http-equiv=refresh content=0>"),
    "/onload": scripted("""<body onload="document.cookie='wall=onload'; location.replace('/onload')">"""),
}
NO_WALLS = {
    "/stubborn": sets("wall=other; path=/stubborn"),
    "/elsewhere": sets("wall=elsewhere; path=/other"),
    "/foreign": sets("wall=foreign; domain=example.com"),
    "/secure": sets("wall=secure; secure"),
    "/removed": sets("wall=removed; expires=Thu, 01 Jan 1970 00:00:00 GMT"),
    "/hidden": sets("wall=hidden; HttpOnly"),
    "/computed": sets("wall=' + (1 + 2) + '"),
    "/consent": sets("wall=consent") + "<button onclick=accept()>Accept</button>",
    "/text": sets("wall=text") + "<p>" + "News of today. " * 40,
    "/stays": sets("wall=stays", ""),
}


@pytest.mark.parametrize("cookies", [True, None])
def test_pages_whose_scripts_set_a_literal_cookie_are_walls(
    cookies: bool | None, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web, sites = local_web(SITE, GATE), (SITE, GATE)
    for site in sites:
        web.sites[site].update(BY_SCRIPT | {path: scripted(markup) for path, markup in NO_WALLS.items()})
        web.put(site, "/", "".join(f"<a href={path}>{path}</a>" for path in BY_SCRIPT | NO_WALLS))
    seeds = [web.url(site, "/") for site in sites]
    result = run_crawl("broad", seeds, COOKIES_ENABLED=cookies, workers=2 if cookies else 1)
    wanted = {*BY_SCRIPT, "/stubborn"}  # the last one sends its wall again, and is asked no third time
    rows = {row["url"]: row for row in result.rows()}
    for site in sites:
        asked = {path: web.paths(site).count(path) for path in BY_SCRIPT | NO_WALLS}
        assert asked == {path: 2 if cookies and path in wanted else 1 for path in asked}
        of_site = {path: rows[web.url(site, path)] for path in asked}
        remarked = {path for path, row in of_site.items() if "wants_cookies" in (row["details"] or "")}
        assert remarked == (set() if cookies else wanted)
        if cookies:
            lengths = {path: of_site[path]["length"] for path in BY_SCRIPT}
            assert lengths == {path: len(f"<p>the text of {path}") for path in BY_SCRIPT}
    assert result.summary["remarks"] == ({} if cookies else {"wants_cookies": len(wanted) * len(sites)})


@pytest.mark.parametrize("cookies", [None, False])
def test_a_scrapy_spider_gets_the_pages_behind_scripts(
    cookies: bool | None, local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    for number in range(2):
        web.put(SITE, f"/page-{number}", scripted(sets(f"wall=page-{number}")))
    result = run_spider(SPIDER, web.url(SITE), COOKIES_ENABLED=cookies)
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    texts = {item["text"] for item in items}
    assert len(items) == 2
    if cookies is None:
        assert texts == {f"<p>the text of {path}" for path in PAGES[:2]}
    else:
        assert texts == {sets(f"wall=page-{number}") for number in range(2)}
        assert web.paths(SITE).count("/page-0") == 1
        assert "2 pages led back to where they came from until they get a cookie" in result.stderr


def never_content(hit: Hit) -> Reply:
    """Sets one more cookie for each one that comes back."""
    return to(hit.path, f"c{len(sent(hit))}")


def to_seen(hit: Hit) -> Reply:
    return to("/seen", "session")


@pytest.mark.parametrize("cookies", [None, True, False])
def test_no_wall_takes_a_crawl_for_a_walk(
    cookies: bool | None, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    walls: dict[str, tuple[Page, int]] = {
        "127.0.1.3": (never_content, 7),
        "127.0.1.4": (to_seen, 1),
        "127.0.1.5": (lambda hit: to(hit.path), 1),
    }
    web = local_web(*walls)
    for site, (page, _) in walls.items():
        web.put(site, "/", "<a href=/seen>seen</a> <a href=/page>page</a>")
        web.put(site, "/seen", "seen")
        web.put(site, "/page", page)
    result = run_crawl("broad", [web.url(site, "/") for site in walls], COOKIES_ENABLED=cookies)
    for site, (_, most) in walls.items():
        assert 1 <= web.paths(site).count("/page") <= most
        assert web.paths(site).count("/seen") <= 2
    assert result.summary["queued"] == result.summary["leased"] == 0


def test_a_seed_behind_a_wall_says_so(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", lambda hit: to("/", "wall"))
    result = run_crawl("broad", [web.url(SITE, "/")], status=1)
    assert "it wants its cookie back: set COOKIES_ENABLED=True" in result.stderr


def test_a_gate_of_another_site_waits_for_that_site(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE, GATE)
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /no")
    web.put(GATE, "/robots.txt", "User-agent: *\nDisallow: /gate")
    web.put(SITE, "/", lambda hit: to(web.url(GATE, "/gate"), "wall"))
    web.put(GATE, "/gate", to(web.url(SITE, "/")))
    run_crawl(
        "broad", [web.url(SITE, "/")], COOKIES_ENABLED=True, ALLOWED_NETWORKS="127.0.0.0/8", status=None
    )
    assert [hit.path for hit in web.log(GATE)] == ["/robots.txt"]
