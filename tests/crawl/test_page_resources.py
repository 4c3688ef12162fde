"""PAGE_RESOURCES: a crawl fetches what its pages load, and its WACZ replays in a browser without missing resources."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.crawls import NO_NAMES, CrawlResult, crawl_hosts, scrapy
from tests.web import LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
    "a9d3c1ea0000000049454e44ae426082"
)


def of(mime_type: str, body: str | bytes) -> Reply:
    return Reply(body, headers={"Content-Type": mime_type})


def fill(web: LocalWeb) -> None:
    """Publishes two pages that load from this site and from another one."""
    other = web.host(OTHER)
    web.put(
        SITE,
        "/",
        f"""<!doctype html><title>Home</title>
        <link rel=stylesheet href=/s.css><link rel=icon href=/icon.png><link rel=canonical href=/canonical>
        <script src={other}/s.js></script><img src=/1.png srcset="/2.png 2x, {other}/3.png 3x" alt=x>
        <picture><source srcset=/4.png type=image/png><img src=/5.png alt=x></picture>
        <p style="background:url(/6.png)">words</p><video src=/v.mp4 poster=/7.png></video>
        <iframe src={other}/frame></iframe><img src=/private/8.png alt=x><img src=/moved.png alt=x>
        <img src=http://127.0.0.1:1/inner.png alt=x><img src=/gone.png alt=x>
        <a href=/page>next</a> <a href={other}/elsewhere>elsewhere</a>""",
    )
    web.put(SITE, "/page", "<title>Page</title><link rel=stylesheet href=/s.css><img src=/1.png alt=x>")
    web.put(SITE, "/canonical", "<title>Canonical</title>")
    web.put(SITE, "/robots.txt", of("text/plain", "User-agent: *\nDisallow: /private/"))
    font = "@font-face { font-family: own; src: url(f.woff2) } p { font-family: own }"
    web.put(SITE, "/s.css", of("text/css", f"@import 'css/t.css'; @import url({other}/u.css); {font}"))
    web.put(SITE, "/css/t.css", of("text/css", "body { background: url(../9.png) }"))
    web.put(OTHER, "/u.css", of("text/css", "p { border-image: url(10.png) 1 }"))
    web.put(SITE, "/f.woff2", of("font/woff2", b"wOF2" + bytes(60)))
    web.put(SITE, "/v.mp4", of("video/mp4", b"\0\0\0\x18ftypmp42" + bytes(60)))
    web.put(OTHER, "/s.js", of("text/javascript", "document.title += '!'"))
    web.put(OTHER, "/frame", "<title>Frame</title><img src=/11.png alt=x><a href=/of-the-frame>x</a>")
    web.put(SITE, "/moved.png", Reply("", status=302, headers={"Location": f"{other}/12.png"}))
    for path in ("/icon.png", *(f"/{number}.png" for number in (1, 2, 4, 5, 6, 7, 9)), "/private/8.png"):
        web.put(SITE, path, of("image/png", PNG + path.encode()))
    for number in (3, 10, 11, 12):
        web.put(OTHER, f"/{number}.png", of("image/png", PNG + b"%d" % number))


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, CrawlResult]]:
    folder = tmp_path_factory.mktemp("resources")
    with LocalWeb(SITE, OTHER) as web:
        fill(web)
        yield (
            web,
            crawl_hosts(
                [web.url(SITE)],
                folder,
                PAGE_RESOURCES=True,
                # resources belong to their pages, however deep those are
                DEPTH_LIMIT=1,
                ALLOWED_NETWORKS="127.0.1.0/24",
            ),
        )


def test_resources_are_fetched_from_all_hosts_and_not_followed(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    assert result.returncode == 0, result.stderr
    mine = {
        "/",
        "/page",
        "/canonical",
        "/robots.txt",
        "/s.css",
        "/css/t.css",
        "/f.woff2",
        "/v.mp4",
        "/icon.png",
    }
    mine |= {"/moved.png", "/gone.png", *(f"/{number}.png" for number in (1, 2, 4, 5, 6, 7, 9))}
    assert sorted(web.paths(SITE)) == sorted(mine)
    theirs = {"/robots.txt", "/s.js", "/u.css", "/frame", *(f"/{number}.png" for number in (3, 10, 11, 12))}
    assert sorted(web.paths(OTHER)) == sorted(theirs)


def test_resources_are_counted_apart_from_pages(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    _, result = crawled
    summary = result.summary
    assert (summary["pages"], summary["resources"]) == (3, 19)
    assert "resources   19" in result.stderr
    assert summary["types"]["image/png"]["pages"] == 12
    assert summary["addresses_refused"] == 1 and summary["robots_denied"] == 1
    assert summary["dead_letters"] == 0
    assert {row["url"] for row in result.rows() if row["depth"] == 0} == {crawled[0].url(SITE)}


def captures(wacz: Path) -> dict[str, tuple[int, list[tuple[str, str]], bytes]]:
    """Returns URL -> status, headers and body of the responses in a WACZ file, read by warcio."""
    found: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}
    with zipfile.ZipFile(wacz) as file:
        for name in file.namelist():
            if name.startswith("archive/"):
                for record in ArchiveIterator(io.BytesIO(file.read(name))):
                    if record.rec_type == "response":
                        status = int(record.http_headers.get_statuscode())
                        body = record.content_stream().read()
                        url = record.rec_headers["WARC-Target-URI"]
                        found[url] = status, record.http_headers.headers, body
    return found


@pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs the extra 'render' and Chromium (on Debian and Ubuntu: apt install chromium-headless-shell)",
)
def test_a_browser_misses_nothing_in_the_wacz(crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path) -> None:
    from playwright.sync_api import Route, sync_playwright

    web, result = crawled
    wacz = tmp_path / "crawl.wacz"
    words = ["-o", str(wacz), "-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}"]
    scrapy("export", "--format", "wacz", *words)
    archived, missing, loaded = captures(wacz), set(), set()

    def answer(route: Route) -> Any:
        url = route.request.url
        if url not in archived:
            missing.add(url)
            return route.abort()
        loaded.add(url)
        status, headers, body = archived[url]
        return route.fulfill(status=status, headers=dict(headers), body=body)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", answer)
        page.goto(web.url(SITE), wait_until="networkidle")
        assert page.title() == "Home!"
        page.goto(web.url(SITE, "/page"), wait_until="networkidle")
        browser.close()
    # what robots.txt and the address guard keep from the crawler is not in the archive either
    assert missing == {web.url(SITE, "/private/8.png"), "http://127.0.0.1:1/inner.png"}
    assert loaded >= {
        web.url(SITE, path)
        for path in ("/s.css", "/css/t.css", "/1.png", "/4.png", "/6.png", "/9.png", "/f.woff2")
    } | {web.url(OTHER, path) for path in ("/s.js", "/u.css", "/frame", "/10.png", "/11.png")}
