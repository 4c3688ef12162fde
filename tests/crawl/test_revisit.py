"""Recrawls with conditional requests, which transfer no body of an unchanged page."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from tests.crawl import archive
from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.documents import pdf, rss, urlset, zipped
from tests.web import Hit, LocalWeb, Reply
from webcrawl.stores.metadata import Metadata

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]


class Versions:
    """Serves pages with an ETag and answers conditional requests; a test may change `texts`."""

    def __init__(self, texts: Mapping[str, str | bytes], headers: Mapping[str, str]) -> None:
        self.texts = dict(texts)
        self._headers = headers

    def __call__(self, hit: Hit) -> Reply:
        text = self.texts[hit.path]
        tag = f'"{hash(text)}"'
        if hit.headers.get("If-None-Match") == tag:
            return Reply("", status=304, headers={"ETag": tag})
        return Reply(text, headers={"ETag": tag, **self._headers})


def serve(web: LocalWeb, texts: Mapping[str, str | bytes], **headers: str) -> Versions:
    versions = Versions(texts, headers)
    for path in texts:
        web.put(SITE, path, versions)
    return versions


def requests_by_path(web: LocalWeb) -> dict[str, list[tuple[int, bool]]]:
    """Returns path -> (status, was conditional) of each request in order, except robots.txt."""
    found: dict[str, list[tuple[int, bool]]] = {}
    for hit in web.log():
        if hit.path != "/robots.txt":
            found.setdefault(hit.path, []).append((hit.status, "If-None-Match" in hit.headers))
    return found


def state(result: CrawlResult) -> dict[str, tuple[Any, ...]]:
    return {
        row["url"].partition(SITE)[2].partition("/")[2]: (
            row["status"],
            row["state"],
            row["fetches"],
            row["title"],
        )
        for row in result.rows()
    }


TEXTS = {
    "/": "<title>home</title><a href=/a>a</a> <a href=/b>b</a>",
    "/a": "<title>a</title><a href=/c>c</a>",
    "/b": "<title>b</title>bbb",
    "/c": "<title>c</title>ccc",
}


def test_a_new_crawl_fetches_changed_pages_and_follows_links_of_unchanged_ones(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    home = TEXTS["/"] + "<a href=/secret>s</a><a href=/one>o</a><a href=/copy>c</a><a href=/image>i</a>"
    home += "<a href=/long>l</a>"
    versions = serve(web, TEXTS | {"/": home})
    # a page that is not archived is fetched again for its links; a copy has the links of its original
    serve(web, {"/secret": "<meta name=robots content=noarchive><a href=/e>e</a>"})
    serve(web, {"/one": "<p>the same<a href=/f>f</a>", "/copy": "<p>the same<a href=/f>f</a>"})
    for path in ("/e", "/f"):
        web.put(SITE, path, path)
    serve(web, {"/image": "GIF89a"}, **{"Content-Type": "image/gif"})
    # a truncated page stays truncated when its body comes from the archive
    packed = gzip.compress(b"<a href=/c>c</a>" + b" " * 20_000 + b"<a href=/beyond>b</a>")
    serve(web, {"/long": packed}, **{"Content-Encoding": "gzip"})
    options = {"DOCUMENT_MAXSIZE": '{"text/html": 10000}'}
    crawl([web.url(SITE)], CRAWL_ID="first", **options)
    versions.texts |= {"/b": "<title>b2</title>new<a href=/d>d</a>", "/d": "<title>d</title>"}
    web.put(SITE, "/d", versions)
    web.hits.clear()
    result = crawl([web.url(SITE)], CRAWL_ID="second", REVISIT=True, **options)
    found = requests_by_path(web)
    assert found == {
        "/one": [(304, True)],
        "/copy": [(304, True)],
        "/": [(304, True)],
        "/a": [(304, True)],
        "/b": [(200, True)],
        "/c": [(304, True)],
        "/d": [(200, False)],
        "/e": [(200, False)],
        "/f": [(200, False)],
        "/secret": [(200, False)],
        "/image": [(304, True)],
        "/long": [(304, True)],
    }
    rows = state(result)
    assert {name: rows[name] for name in ("", "a", "b", "c", "d")} == {
        "": (200, "unchanged", 2, "home"),
        "a": (200, "unchanged", 2, "a"),
        "b": (200, "fetched", 2, "b2"),
        "c": (200, "unchanged", 2, "c"),
        "d": (200, "fetched", 1, "d"),
    }
    assert result.summary["dead_letters"] == 0
    check_records(result, web)


def check_records(result: CrawlResult, web: LocalWeb) -> None:
    archive.check(result.data_dir)
    rows = {row["url"]: row for row in result.rows()}
    unchanged = {url for url, row in rows.items() if row["state"] == "unchanged"}
    found = {}
    for path in (result.data_dir / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                # a revisit record of a copy has status 200
                if record.rec_type == "revisit" and record.http_headers.get_statuscode() == "304":
                    found[record.rec_headers["WARC-Target-URI"]] = dict(record.rec_headers.headers)
    assert set(found) == unchanged
    for url, headers in found.items():
        assert headers["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
        # the record refers to the original of several copies
        first = rows[rows[url]["duplicate_of"] or url]
        assert headers["WARC-Refers-To-Target-URI"] == first["url"]
        assert headers["WARC-Refers-To-Date"][:26] == first["fetched_at"][:26]
        assert headers["WARC-Payload-Digest"] == rows[url]["digest"]
        assert archive.record_at(result.data_dir, first).kind == "response"
    with Metadata(f"sqlite:///{result.data_dir}/metadata.db") as metadata:
        for url in unchanged:
            history = metadata.history(url)
            assert [(fetch.status, fetch.changed) for fetch in history] == [(200, False), (304, False)]
            assert history[1].warc_file


def test_validators_of_a_page_are_not_sent_to_the_target_of_its_redirect(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE, OTHER)
    dated = {"Last-Modified": "Mon, 02 Feb 2026 00:00:00 GMT", "ETag": '"visitor-42"'}

    def target(hit: Hit) -> Reply:
        conditional = hit.headers.keys() & {"If-None-Match", "If-Modified-Since"}
        return Reply("", status=304) if conditional else Reply("<title>moved</title>")

    web.put(SITE, "/", Reply("<title>here</title>", headers=dated))
    crawl([web.url(SITE)], CRAWL_ID="first")
    moved = web.put(OTHER, "/moved", target)
    web.put(SITE, "/", Reply("", status=302, headers={"Location": moved}))
    web.hits.clear()
    both = "127.0.0.0/8"
    result = crawl([web.url(SITE)], CRAWL_ID="second", REVISIT=True, ALLOWED_NETWORKS=both)
    assert [(hit.path, hit.status) for hit in web.pages()] == [("/", 302), ("/moved", 200)]
    rows = {row["url"]: (row["status"], row["state"], row["title"]) for row in result.rows()}
    assert rows[moved] == (200, "fetched", "moved")


def test_validators_of_a_304_are_stored_if_one_of_them_matches(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    known, other = "Mon, 02 Feb 2026 00:00:00 GMT", "Tue, 03 Feb 2026 00:00:00 GMT"
    later = {
        "/tagged": {"Last-Modified": known, "ETag": '"new"'},
        "/touched": {"Last-Modified": other, "ETag": '"old"'},
        "/another": {"Last-Modified": other, "ETag": '"new"'},
        "/silent": {},
    }

    def answer(hit: Hit) -> Reply:
        if "If-Modified-Since" in hit.headers:
            return Reply("", status=304, headers=later[hit.path])
        tag = {} if hit.path == "/tagged" else {"ETag": '"old"'}
        return Reply(hit.path, headers={"Last-Modified": known, **tag})

    web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in later))
    for path in later:
        web.put(SITE, path, answer)
    crawl([web.url(SITE)], CRAWL_ID="first")
    result = crawl([web.url(SITE)], CRAWL_ID="second", REVISIT=True)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert {path: (rows[path]["etag"], rows[path]["last_modified"]) for path in later} == {
        "/tagged": ('"new"', known),
        "/touched": ('"old"', other),
        "/another": ('"old"', known),
        "/silent": ('"old"', known),
    }
    assert {rows[path]["state"] for path in later} == {"unchanged"}


def test_requests_are_unconditional_without_revisit_or_with_a_damaged_archive(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    serve(web, TEXTS)
    first = crawl([web.url(SITE)], CRAWL_ID="first")
    web.hits.clear()
    crawl([web.url(SITE)], CRAWL_ID="second")
    assert requests_by_path(web) == {path: [(200, False)] for path in TEXTS}
    for path in (first.data_dir / "warc").glob("*.warc.gz"):
        path.write_bytes(b"\0" * path.stat().st_size)
    web.hits.clear()
    result = crawl([web.url(SITE)], CRAWL_ID="third", REVISIT=True, FRONTIER_RETRY_DELAY=0, timeout=60)
    assert {path: answers[-1] for path, answers in requests_by_path(web).items()} == dict.fromkeys(
        TEXTS, (200, False)
    )
    assert "its stored response cannot be read" in result.stderr
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)


def put_of_type(web: LocalWeb, path: str, mime_type: str, body: str | bytes) -> None:
    serve(web, {path: body}, **{"Content-Type": mime_type})


def test_links_of_unchanged_documents_are_followed(local_web: StartWeb, crawl: RunCrawl) -> None:
    """A new crawl of an unchanged site transfers no body of any type and visits the same pages."""
    web = local_web(SITE)
    names = ("of-feed", "of-map", "of-pdf", "of-text", "of-header", "of-cut")
    at = {name: web.url(SITE, f"/{name}") for name in names}
    serve(web, {f"/{name}": f"<title>{name}</title>{name}" for name in names})
    put_of_type(web, "/feed", "application/rss+xml", rss(f"<item><link>{at['of-feed']}</link></item>"))
    put_of_type(web, "/sitemap.xml", "application/xml", urlset((at["of-map"], None)))
    put_of_type(web, "/pdf", "application/pdf", pdf(links=[at["of-pdf"]]))
    put_of_type(web, "/notes.txt", "text/plain", f"see {at['of-text']} for more")
    put_of_type(web, "/broken", "application/pdf", b"%PDF-1.4 and no more")
    put_of_type(web, "/file.zip", "application/zip", zipped({"a": "a"}))
    serve(web, {"/header": "<p>no link"}, Link=f"<{at['of-header']}>; rel=next")
    cut = f"<p><a href={at['of-cut']}>x</a>" + "word " * 40_000 + "<a href=/beyond>y</a>"
    serve(web, {"/cut": cut})
    web.put(SITE, "/beyond", "beyond")
    paths = ("/feed", "/sitemap.xml", "/pdf", "/notes.txt", "/broken", "/file.zip", "/header", "/cut")
    serve(web, {"/": "".join(f"<a href={path}>x</a>" for path in paths)})
    options = {"TEXT_LINKS": True, "DOCUMENT_MAXSIZE": '{"text/html": 100000}'}
    first = crawl([web.url(SITE)], CRAWL_ID="first", **options)
    visited = {"/", *paths, *(f"/{name}" for name in names)}
    assert set(requests_by_path(web)) == visited, first.stderr
    web.hits.clear()
    result = crawl([web.url(SITE)], CRAWL_ID="second", REVISIT=True, **options)
    assert requests_by_path(web) == dict.fromkeys(visited, [(304, True)])
    assert {row["state"] for row in result.rows()} == {"unchanged"}
    web.hits.clear()
    # with a larger limit, a truncated page is fetched in full
    more = options | {"DOCUMENT_MAXSIZE": '{"text/html": 300000}'}
    crawl([web.url(SITE)], CRAWL_ID="third", REVISIT=True, **more)
    assert requests_by_path(web) == dict.fromkeys(visited, [(304, True)]) | {
        "/cut": [(200, False)],
        "/beyond": [(200, False)],
    }


def test_changed_resources_of_an_unchanged_page_are_mirrored(
    local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    serve(web, {"/": "<link rel=stylesheet href=/s.css><img src=/i.gif>"})
    put_of_type(web, "/s.css", "text/css", "a{b:url(j.gif)}")
    images = serve(web, {"/i.gif": b"GIF89a 1", "/j.gif": b"GIF89a 2"}, **{"Content-Type": "image/gif"})
    arguments = {"to": tmp_path / "copy"}
    options = {"arguments": arguments, "REVISIT": True}
    run_crawl("mirror", [web.url(SITE)], CRAWL_ID="first", **options)
    images.texts["/j.gif"] = b"GIF89a 3"
    web.hits.clear()
    again = run_crawl("mirror", [web.url(SITE)], CRAWL_ID="second", **options)
    assert requests_by_path(web) == {
        "/": [(304, True)],
        "/s.css": [(304, True)],
        "/i.gif": [(304, True)],
        "/j.gif": [(200, True)],
    }, again.stderr
    assert [path.read_bytes() for path in (tmp_path / "copy").rglob("j.gif")] == [b"GIF89a 3"]


AGAIN = """
from webcrawl.spiders.base import BroadSpider


class Again(BroadSpider):
    name = "again"
    times = 0

    def parse(self, response):
        if response.url.endswith("/feed"):
            self.times += 1
            if self.times < 4:
                response.meta["recrawl_after"] = 0.3
        yield from super().parse(response)
"""


def test_a_scheduled_recrawl_is_conditional(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    """The type does not matter, because this crawl already knows the page's links."""
    project.add_spider("again", AGAIN)
    web = local_web(SITE)
    feed = '<rss version="2.0"><channel><title>t</title><link>http://a/</link><description>d</description></channel></rss>'
    serve(web, {"/feed": feed}, **{"Content-Type": "application/rss+xml"})
    web.put(SITE, "/slow", Reply("slow", delay=4))
    result = run_crawl(
        "again",
        [web.url(SITE, "/feed"), web.url(SITE, "/slow")],
        project=project.folder,
        CONCURRENT_REQUESTS_PER_DOMAIN=2,
        timeout=60,
    )
    assert requests_by_path(web)["/feed"][:2] == [(200, False), (304, True)]
    (row,) = [row for row in result.rows() if row["url"].endswith("/feed")]
    assert (row["state"], row["status"]) == ("unchanged", 200)
    assert row["fetches"] == len(requests_by_path(web)["/feed"]) >= 2
    assert json.loads(json.dumps(result.summary))["dead_letters"] == 0


LATER = """
from webcrawl.spiders.base import BroadSpider


class Later(BroadSpider):
    name = "later"

    def parse(self, response):
        if response.url.endswith("/page") and response.status == 200:
            response.meta["recrawl_after"] = 0
        yield from super().parse(response)
"""


def test_a_scheduled_recrawl_in_another_process_is_conditional(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("later", LATER)
    web = local_web(SITE)
    serve(web, {"/page": "<title>page</title>"})
    web.put(SITE, "/slow", Reply("slow", delay=2))
    options = {"project": project.folder, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    # the first process schedules the recrawl with its last page and ends
    run_crawl("later", [web.url(SITE, "/page")], CRAWL_MAX_PAGES=1, **options)
    assert requests_by_path(web) == {"/page": [(200, False)]}
    result = run_crawl("later", [web.url(SITE, "/slow")], timeout=60, **options)
    assert requests_by_path(web) == {"/page": [(200, False), (304, True)], "/slow": [(200, False)]}
    assert state(result)["page"] == (200, "unchanged", 2, "page")
