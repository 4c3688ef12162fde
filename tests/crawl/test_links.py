"""Crawls with LINKS: stored links are those of the served pages, also after a kill; `scrapy links` finds them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import duckdb
import lxml.html
import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, scrapy, until
from tests.documents import pdf, rss, sitemap_index, urlset
from tests.web import Hit, LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
HERE = Project(CHECKOUT)
FILLER = f"<!-- {'large enough for the process that parses HTML ' * 100} -->"
MENU = "<nav class=menu><ul><li><a href=/>home</a><li><a href='/b#part'>b</a></ul></nav>"
PAGES = {
    "/": f"<head><link rel=alternate href=/feed><base href=/sub/></head>{MENU}{FILLER}<p><a href=a>a <b>text</b></a>"
    "<a href=a rel='nofollow UGC'>again</a><a href=http://127.0.1.2:9/out>out of scope</a><a href=#here>here</a>"
    "<map><area href=/b alt='the map'></map><iframe src=/b></iframe><a href=/picture.png><img alt=Bild src=x></a>",
    "/sub/a": f"{MENU}<p><a href='?q=Grüße'>Grüße</a><a href=/b>b</a><a href='mailto:x@example.org'>mail</a>",
    "/b": f"<title>b</title>{MENU}<p>a copy</p><a href=/copy>copy</a>",
    "/copy": f"<title>b</title>{MENU}<p>a copy</p><a href=/copy>copy</a>",
}
EPOCH = datetime.fromtimestamp(0, UTC)
TEXTS = {"area": "alt", "iframe": "title", "link": "title"}


def links_in(url: str, html: str) -> list[dict[str, Any]]:
    """The links of a page by another parser, in order; each has a row in the store."""
    tree, found = lxml.html.fromstring(html), []
    (base,) = [urljoin(url, one.get("href")) for one in tree.iter("base")] or [url]
    for one in tree.iter("a", "area", "iframe", "link"):
        address = one.get("src") if one.tag == "iframe" else one.get("href")
        target = urldefrag(urljoin(base, address)).url
        if (address.startswith("#") and base == url) or not target.startswith("http"):
            continue
        words = (
            one.get(TEXTS[one.tag])
            if one.tag in TEXTS
            else one.text_content() or one.xpath("string(.//@alt)")
        )
        found.append(
            {
                "from_url": url,
                "to_url": target.replace("ü", "%C3%BC").replace("ß", "%C3%9F"),
                "text": words or None,
                "rel": (one.get("rel") or "").lower() or None,
                "element": one.tag,
                "place": len(found),
            }
        )
    return found


def authority_of(web: LocalWeb) -> str:
    return web.host(SITE).removeprefix("http://")


def table(data_dir: Path) -> list[dict[str, Any]]:
    """All stored links by page, fetch and place; times in microseconds."""
    rows = duckdb.sql(
        f"SELECT * REPLACE (epoch_us(time) AS time) FROM '{data_dir}/links/*.parquet' "
        "ORDER BY from_url, time, place"
    )
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]


@pytest.fixture
def web(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    web = local_web(SITE)
    for path, body in PAGES.items():
        web.put(SITE, path, body)
    return web


def test_stored_links_are_those_of_the_served_pages(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    """The first page is read in the process for HTML, the others in the worker."""
    web.put(SITE, "/hidden", Reply("<meta name=robots content=noindex><a href=/secret>secret</a>"))
    web.put(SITE, "/quiet", Reply("<meta name=robots content=nofollow><a href=/unseen>unseen</a>"))
    web.put(SITE, "/old", Reply("<a href=/new>moved</a>", status=301, headers={"Location": "/b"}))
    web.put(SITE, "/gone", Reply("<a href=/>home</a>", status=404))
    web.put(SITE, "/text", Reply("plain", headers={"Content-Type": "text/plain", "Link": "</b>; rel=next"}))
    seeds = [web.url(SITE, path) for path in ("/", "/hidden", "/quiet", "/old", "/gone", "/text")]
    result = crawl(seeds, LINKS=True, CRAWL_ID="first")
    rows = table(result.data_dir)
    by_page: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_page[row["from_url"]].append(row)
    for path, body in PAGES.items():
        url = web.url(SITE, path)
        expected = links_in(url, body)
        assert [{name: row[name] for name in expected[0]} for row in by_page.pop(url)] == expected
    (quiet,), (text,) = by_page.pop(web.url(SITE, "/quiet")), by_page.pop(web.url(SITE, "/text"))
    assert (quiet["to_url"], quiet["nofollow"]) == (web.url(SITE, "/unseen"), True)
    assert (text["to_url"], text["element"], text["block"]) == (web.url(SITE, "/b"), "header", None)
    (old,) = by_page.pop(web.url(SITE, "/old"))
    assert (old["to_url"], old["element"]) == (web.url(SITE, "/b"), "redirect")
    answered = web.url(SITE, "/sub/a?q=Gr%C3%BC%C3%9Fe")
    assert set(by_page) <= {answered}
    stored = {row["url"]: row for row in result.rows()}
    assert {row["crawl"] for row in rows} == {"first"}
    assert all(row["depth"] == stored[row["from_url"]]["depth"] for row in rows)
    assert {row["from_host"] for row in rows} == {authority_of(web)}
    fetched = {row["from_url"]: (EPOCH + timedelta(microseconds=row["time"])).isoformat() for row in rows}
    assert fetched == {url: stored[url]["fetched_at"] for url in fetched}
    menus = {row["block"] for row in rows if row["text"] == "home" and row["to_url"] == web.url(SITE)}
    assert len(menus) == 1, "the menu is the same block on all pages"
    assert [path for path in result.data_dir.rglob("*") if path.stat().st_mode & 0o077] == []


FOLLOWED = [
    ("/a.pdf", "document", "/by-pdf", False),
    ("/away", "redirect", "http://127.0.1.2:9/away", False),
    ("/by-feed", "a", "/leaves", False),
    ("/feed.xml", "feed", "/by-feed", False),
    ("/index.xml", "sitemap", "/map.xml", False),
    ("/leaves", "redirect", "http://127.0.1.3:9/left", False),
    ("/map.xml", "sitemap", "/by-sitemap", False),
    ("/map.xml", "sitemap", "http://127.0.1.2:9/out", False),
    ("/moved", "redirect", "/by-redirect", False),
    ("/odd", "redirect", "/gr%C3%BC%C3%9Fe%20x", False),
    ("/quiet.pdf", "document", "/unseen", True),
]


def put_links(web: LocalWeb) -> list[str]:
    """Serves sitemaps, feeds, PDF and redirects that lead to pages that no HTML links to; returns the seeds."""
    linked = pdf("A document", links=[web.url(SITE, "/by-pdf")])

    def put(
        path: str, body: bytes | str = "", mime_type: str = "text/html", status: int = 200, **headers: str
    ) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        web.put(SITE, path, Reply(body, status, {"Content-Type": mime_type, **named}))
        return web.url(SITE, path)

    index = sitemap_index((web.url(SITE, "/map.xml"), None))
    entries = [(web.url(SITE, "/by-sitemap#part"), "2026-11-21"), ("http://127.0.1.2:9/out", None)]
    seeds = [
        put("/index.xml", index, "application/xml"),
        put("/feed.xml", rss("<title>1</title><link>/by-feed</link>"), "application/rss+xml"),
        put("/a.pdf", linked, "application/pdf"),
        put("/secret.pdf", linked.replace(b"/by-pdf", b"/hidden"), "application/pdf", X_Robots_Tag="noindex"),
        put("/quiet.pdf", linked.replace(b"/by-pdf", b"/unseen"), "application/pdf", X_Robots_Tag="nofollow"),
        put("/gone.pdf", linked.replace(b"/by-pdf", b"/erased"), "application/pdf", 404),
        put("/moved", status=301, Location="/by-redirect#part"),
        put("/odd", status=302, Location="/grüße x"),
        put("/away", status=302, Location="//127.0.1.2:9/away"),
        put("/broken", status=302, Location="http://"),
        put("/unmoved", status=304, Location="/nowhere"),
    ]
    put("/map.xml", urlset(*entries), "application/xml")
    for name in ("sitemap", "feed", "pdf", "redirect"):
        put(f"/by-{name}", "<a href=/leaves>leaves the scope</a>" if name == "feed" else name)
    put("/leaves", status=302, Location="//127.0.1.3:9/left")
    return seeds


def test_each_link_that_a_crawl_follows_is_stored(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    seeds = put_links(web)
    result = crawl(seeds, LINKS=True)
    host = web.host(SITE)
    found = [
        (
            row["from_url"].removeprefix(host),
            row["element"],
            row["to_url"].removeprefix(host),
            row["nofollow"],
        )
        for row in table(result.data_dir)
    ]
    assert found == FOLLOWED
    stored = {target for _, _, target, _ in found}
    # the links of a page that says noindex are followed, and it is nowhere stored
    assert (
        set(web.paths(SITE)) - {"/robots.txt", "/hidden"} - {url.removeprefix(host) for url in seeds} < stored
    )
    finals = {row["url"]: row["final_url"] for row in result.rows()}
    targets = {source: target for source, element, target, _ in found if element == "redirect"}
    # that of a seed widens the scope
    assert targets.pop("/leaves") not in finals.values()
    assert {path: finals[host + path].removeprefix(host) for path in targets} == targets


def test_without_links_nothing_is_stored(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    result = crawl([web.url(SITE)])
    assert not (result.data_dir / "links").exists()
    data = ("-s", f"DATA_DIR={result.data_dir}")
    assert "crawl with LINKS = True" in HERE.scrapy("links", web.url(SITE), *data, code=1)
    assert "crawl with LINKS = True" in HERE.scrapy("links", "--merge", *data, code=1)
    assert not (result.data_dir / "links").exists()


def test_the_command_shows_links_of_both_directions(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    result = crawl([web.url(SITE)], LINKS=True)
    data, home, b = ("-s", f"DATA_DIR={result.data_dir}"), web.url(SITE), web.url(SITE, "/b")
    out = HERE.scrapy("links", home, *data).splitlines()
    assert out[0] == f"{web.url(SITE, '/feed')}  (link)"
    assert f"{web.url(SITE, '/sub/a')}  (a, nofollow)  again" in out
    assert len(out) == len(links_in(home, PAGES["/"]))
    into = HERE.scrapy("links", "--in", b, *data).splitlines()
    assert f"{home}  (area)  the map" in into
    lines = [json.loads(line) for line in HERE.scrapy("links", "--in", "--json", b, *data).splitlines()]
    expected = [link for path, body in PAGES.items() for link in links_in(web.url(SITE, path), body)]
    assert {line["from_url"] for line in lines} >= {one["from_url"] for one in expected if one["to_url"] == b}
    assert {line["to_url"] for line in lines} == {b}
    assert len(HERE.scrapy("links", "--in", "--limit", "2", b, *data).splitlines()) == 2
    host = authority_of(web)
    hosts = HERE.scrapy("links", "--host", home, *data).splitlines()
    assert [re.split(" +", line.strip())[1] for line in hosts] == [host, "127.0.1.2:9"]
    (line,) = HERE.scrapy("links", "--host", "--in", "http://127.0.1.2:9/", *data, "--json").splitlines()
    assert json.loads(line) == {"host": host, "links": 1}
    for words, reason in (
        (("--crawl", "other", home), "0 links: no link on this page is stored by crawl 'other'."),
        (("--in", web.url(SITE, "/none")), "0 links: no link to this page is stored."),
        (("--host", "http://none.example/"), "0 hosts: no link on pages of this host is stored."),
    ):
        done = scrapy("links", *words, *data)
        assert (done.stdout, done.stderr) == ("", f"{reason}\n")
    assert "give one URL" in HERE.scrapy("links", *data, code=2)
    (path,) = (result.data_dir / "links").iterdir()
    path.write_bytes(b"PAR1")
    assert f"{path} cannot be read" in HERE.scrapy("links", home, *data, code=1)
    # DuckDB adds nothing to the message
    mine = [sys.executable, "-m", "scrapy", "mine", *data]
    done = subprocess.run(mine, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"{path} cannot be read" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_kill_loses_no_link_of_an_acknowledged_page(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl], tmp_path: Path
) -> None:
    web, pages = local_web(SITE), 60
    for number in range(pages):
        targets = [f"/{number + 1}", f"/{number + 2}", "/0", f"/{number + 1}#again"]
        links = "".join(f"<a href={target}>{target}</a>" for target in targets)
        web.put(SITE, f"/{number}", Reply(f"<p>{number} {links}{FILLER if number % 2 else ''}", delay=0.01))
    options: dict[str, Any] = {"LINKS": True}
    seed = web.url(SITE, "/0")
    for kill_at in (12, 30):
        running = start_crawl("broad", [seed], **options)
        until(lambda at=kill_at: len(web.hits) > at, running)  # type: ignore[misc]
        running.kill()
        assert list((running.data_dir / "links").glob("_*.journal"))
    result = start_crawl("broad", [seed], **options).wait(60)
    found = defaultdict(list)
    for row in table(result.data_dir):
        found[row["from_url"], row["time"]].append(row["to_url"])
    latest = dict(sorted(found.items()))
    by_page = {url: targets for (url, _), targets in latest.items()}
    for number in range(pages):
        numbers = (number + 1, number + 2, 0, number + 1)
        assert by_page.pop(web.url(SITE, f"/{number}")) == [web.url(SITE, f"/{one}") for one in numbers]
    assert by_page == {}


def test_unchanged_pages_keep_their_links(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    """A page that answers 304 has no body; the links are those of the archived response."""

    def versioned(body: str) -> Callable[[Hit], Reply]:
        tag = {"ETag": '"1"'}
        return lambda hit: Reply("", 304, tag) if "If-None-Match" in hit.headers else Reply(body, headers=tag)

    for path, body in PAGES.items():
        web.put(SITE, path, versioned(body))
    for name in ("one", "two"):
        result = crawl([web.url(SITE)], LINKS=True, REVISIT=True, CRAWL_ID=name)
    assert sum(hit.status == 304 for hit in web.hits) >= len(PAGES)
    rows = table(result.data_dir)
    one, two = (
        [(row["from_url"], row["to_url"]) for row in rows if row["crawl"] == name] for name in ("one", "two")
    )
    assert one == two
    assert len(one) >= sum(len(links_in(web.url(SITE, path), body)) for path, body in PAGES.items())


def test_hostile_pages_keep_the_store_readable(web: LocalWeb, crawl: Callable[..., CrawlResult]) -> None:
    many = "".join(f"<a href=//127.0.1.2:9/{number}>{number}</a>" for number in range(60_000))
    web.put(SITE, "/many", many)
    long = f"<a href=/1>{'words ' * 300_000}</a><a href=/2>{'x' * 3_000_000}</a>"
    web.put(SITE, "/long", long)
    strange = "<a href=/3 rel='\x01\x85no&#8232;follow'>a\x00\x1b[31m\u202e\u2028b&#xD800;\x7f</a>"
    web.put(SITE, "/strange", Reply(strange, headers={"Content-Type": "text/html; charset=utf-8"}))
    result = crawl(
        [web.url(SITE, path) for path in ("/many", "/long", "/strange")], LINKS=True, DEPTH_LIMIT=1
    )
    rows = table(result.data_dir)
    found = [row["to_url"] for row in rows if row["from_url"] == web.url(SITE, "/many")]
    assert found == [f"http://127.0.1.2:9/{number}" for number in range(60_000)]
    texts = [row["text"] for row in rows if row["from_url"] == web.url(SITE, "/long")]
    assert texts == [("words " * 40)[:200], None], "a million characters of texts are looked at"
    (one,) = [row for row in rows if row["from_url"] == web.url(SITE, "/strange")]
    assert one["text"].startswith("a") and one["text"].endswith("\x7f")
    shown = HERE.scrapy("links", one["from_url"], "-s", f"DATA_DIR={result.data_dir}")
    assert shown.isascii() or not {"\x1b", "\u202e", "\u2028", "\x7f"} & set(shown)
    assert shown.count("\n") == 1


def test_links_without_pyarrow_are_refused_at_the_start(project: Project, tmp_path: Path) -> None:
    project.add_spider("hidden", "import sys\nsys.modules['pyarrow'] = None\n")
    words = ("-a", "seeds=http://127.0.0.1:9/", "-s", "LINKS=True", "-s", f"DATA_DIR={tmp_path}/data")
    errors = project.scrapy("crawl", "broad", *words, code=2)
    assert re.search(r"LINKS needs pyarrow: \S+ -m pip install 'pyarrow", errors)
    assert "Traceback" not in errors
