"""`scrapy crawl sitemap` on local webs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap(*urls: str, kind: str = "urlset", entry: str = "url") -> Reply:
    entries = "".join(f"<{entry}><loc>{url}</loc></{entry}>" for url in urls)
    body = f'<?xml version="1.0" encoding="UTF-8"?><{kind} {NAMESPACE}>{entries}</{kind}>'
    return Reply(body, headers={"Content-Type": "application/xml"})


def paths(web: LocalWeb, site: str = SITE) -> list[str]:
    return sorted(path for path in web.paths(site) if path != "/robots.txt")


def serve(web: LocalWeb) -> None:
    web.put(SITE, "/robots.txt", f"User-agent: *\nSitemap: {web.url(SITE, '/named.xml')}\n")
    index = sitemap(web.url(SITE, "/packed.xml.gz"), kind="sitemapindex", entry="sitemap")
    web.put(SITE, "/named.xml", index)
    packed = gzip.compress(str(sitemap(web.url(SITE, "/a")).body).encode())
    web.put(SITE, "/packed.xml.gz", Reply(packed, headers={"Content-Type": "application/gzip"}))
    web.put(SITE, "/sitemap.xml", sitemap(web.url(SITE, "/b"), web.url(OTHER, "/elsewhere")))
    web.put(SITE, "/a", "<a href=/linked>not in a sitemap</a>")
    web.put(SITE, "/b", "b")
    web.put(SITE, "/linked", "linked")
    web.put(SITE, "/", "home")


def test_only_urls_in_sitemaps_are_fetched(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    serve(web)
    result = run_crawl("sitemap", [web.host(SITE)])
    assert paths(web) == ["/a", "/b", "/named.xml", "/packed.xml.gz", "/sitemap.xml"]
    assert web.log(OTHER) == []
    assert {row["status"] for row in result.rows()} == {200}


def test_a_damaged_sitemap_loses_no_page_and_is_counted(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    good = str(sitemap(*(web.url(SITE, f"/{name}") for name in ("a", "p?x=1&y=2", "b"))).body)
    web.put(SITE, "/sitemap.xml", Reply("\n" + good, headers={"Content-Type": "application/xml"}))
    for path in ("/a", "/p?x=1&y=2", "/b"):
        web.put(SITE, path, "page")
    result = run_crawl("sitemap", [web.host(SITE)])
    assert paths(web) == ["/a", "/b", "/p?x=1&y=2", "/sitemap.xml"]
    details = {row["url"]: json.loads(row["details"] or "{}") for row in result.rows()}
    assert details[web.url(SITE, "/sitemap.xml")]["broken"] is True
    assert result.summary["repaired"] == 1
    assert "repaired    1 damaged document" in result.stderr


def test_a_sitemap_of_any_type_and_name_is_read(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    parts = {"/1.html": "text/html", "/2.txt": "text/plain", "/products_3.gz": "application/x-gzip"}
    for number, (path, mime_type) in enumerate(parts.items()):
        body = str(sitemap(web.url(SITE, f"/page-{number}")).body).encode()
        packed = gzip.compress(body) if path.endswith(".gz") else body
        web.put(SITE, path, Reply(packed, headers={"Content-Type": mime_type}))
        web.put(SITE, f"/page-{number}", f"page {number}")
    web.put(SITE, "/robots.txt", f"User-agent: *\nSitemap: {web.url(SITE, '/index.php')}\n")
    index = sitemap(*(web.url(SITE, path) for path in parts), kind="sitemapindex", entry="sitemap")
    web.put(SITE, "/index.php", Reply(index.body, headers={"Content-Type": "text/html"}))
    result = run_crawl("sitemap", [web.host(SITE)])
    assert {"/page-0", "/page-1", "/page-2"} <= set(paths(web))
    kinds = {row["url"]: json.loads(row["details"] or "{}").get("sitemap") for row in result.rows()}
    assert [kinds[web.url(SITE, path)] for path in ("/index.php", *parts)] == [
        "sitemapindex",
        *["urlset"] * 3,
    ]


def test_text_files_are_sitemaps_only_where_they_are_declared_as_such(
    local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    lists = {
        "/of-robots.txt": "/a",
        "/of-index.txt": "/b",
        "/seed.txt": "/c",
        "/moved.txt": "/d",
        "/other.txt": "/no",
    }
    for path, page in lists.items():
        lines = f"\ufeff{web.url(SITE, page)}\r\n"
        web.put(SITE, path, Reply(lines, headers={"Content-Type": "text/plain; charset=utf-8"}))
        web.put(SITE, page, f"page {page}")
    named = "".join(
        f"Sitemap: {path}\n" for path in ("/of-robots.txt", "/index.xml", "/old.txt", "/none.txt")
    )
    web.put(SITE, "/robots.txt", f"User-agent: *\n{named}")
    web.put(SITE, "/old.txt", Reply("", status=301, headers={"Location": "/moved.txt"}))
    index = sitemap(web.url(SITE, "/of-index.txt"), kind="sitemapindex", entry="sitemap")
    web.put(SITE, "/index.xml", index)
    web.put(SITE, "/sitemap.xml", sitemap(web.url(SITE, "/other.txt")))
    seeds = [web.host(SITE), web.url(SITE, "/seed.txt")]
    result = run_crawl("sitemap", seeds)
    more = {"/index.xml", "/none.txt", "/old.txt", "/sitemap.xml"}
    assert set(paths(web)) == {*lists, *lists.values(), *more} - {"/no"}
    states = {row["url"].removeprefix(web.host(SITE)): row["state"] for row in result.rows()}
    assert states["/none.txt"] == "missing"


def test_links_are_followed_on_request(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    serve(web)
    run_crawl("sitemap", [web.host(SITE)], arguments={"follow": "yes"})
    assert "/linked" in paths(web)


def test_a_seed_may_be_a_sitemap_and_a_host_may_lack_one(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/mine.xml", sitemap(web.url(SITE, "/only")))
    web.put(SITE, "/only", "only")
    seeds = [web.url(SITE, "/mine.xml"), web.host(OTHER)]
    result = run_crawl("sitemap", seeds)
    assert (paths(web), paths(web, OTHER)) == (["/mine.xml", "/only"], ["/sitemap.xml"])
    assert result.summary["finish_reason"] == "finished"
