"""Crawls of documents other than HTML: their facts, their links, and the errors of broken documents."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import Crawl, CrawlResult, until
from tests.documents import (
    atom,
    entity_bomb,
    gzip_bomb,
    mixed,
    pdf,
    pdf_bomb,
    png_bomb,
    rss,
    sitemap_index,
    urlset,
    zip_bomb,
)
from tests.processes import cpu_ticks, is_alive
from tests.web import LocalWeb, Reply
from webcrawl.documents.simhash import simhash64
from webcrawl.middlewares.frames import MOST_BYTES

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
PDF, XML, GZIP = "application/pdf", "application/xml", "application/gzip"


def put(web: LocalWeb, path: str, body: bytes | str, mime_type: str, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.put(SITE, path, Reply(body, headers={"Content-Type": mime_type, **named}))


def leaf(web: LocalWeb, *paths: str) -> None:
    for path in paths:
        put(web, path, f"<title>{path}</title>{path}", "text/html")


def home(web: LocalWeb, *paths: str, **headers: str) -> str:
    return put(web, "/", "".join(f'<a href="{path}">{path}</a>' for path in paths), "text/html", **headers)


def by_path(web: LocalWeb, result: CrawlResult) -> dict[str, dict[str, Any]]:
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    for row in rows.values():
        row["details"] = json.loads(row["details"]) if row["details"] else None
    return rows


# Target of a link -> the document that contains it.
ORIGINS = {
    "/from-pdf": "/a.pdf",
    "/from-outline": "/a.pdf",
    "/from-rss": "/feed",
    "/from-atom": "/atom",
    "/from-json": "/feed.json",
    "/from-sitemap": "/map.xml",
    "/from-gz": "/map.xml.gz",
    "/from-lines": "/sitemap.txt",
    "/from-next": "/",
    "/from-text": "/notes.txt",
    "/from-robots": "/map2.xml",
}


def put_documents_with_links(web: LocalWeb) -> str:
    """Publishes one document of each type with links, each with its own target; returns the URL that links to all."""
    leaf(web, *ORIGINS)
    info = "/Title (A paper)"
    put(web, "/a.pdf", pdf("Paper", links=["/from-pdf"], outline=["/from-outline"], info=info), PDF)
    put(web, "/feed", rss("<title>One</title><link>/from-rss</link>"), "application/rss+xml")
    put(web, "/atom", atom('<title>A</title><link href="/from-atom"/>'), "text/xml")
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "/from-json"}]}
    put(web, "/feed.json", json.dumps(feed), "application/feed+json")
    put(web, "/index.xml", sitemap_index(("/map.xml", None), ("/map.xml.gz", None)), XML)
    put(web, "/map.xml", urlset(("/from-sitemap", "2020-01-01")), "text/xml")
    put(web, "/map.xml.gz", gzip.compress(urlset(("/from-gz", None))), "application/x-gzip")
    put(web, "/sitemap.txt", f"{web.url(SITE, '/from-lines')}\n", "text/plain")
    robots = f"User-agent: *\nSitemap: {web.url(SITE, '/map2.xml')}\nSitemap: http://["
    put(web, "/robots.txt", robots, "text/plain")
    put(web, "/map2.xml", urlset(("/from-robots", None)), XML)
    put(web, "/notes.txt", f"See {web.url(SITE, '/from-text')}", "text/plain")
    documents = ["/notes.txt", "/a.pdf", "/feed", "/atom", "/feed.json", "/index.xml", "/sitemap.txt"]
    return home(web, *documents, Link='</from-next>; rel="next", </no>; rel=icon')


def test_links_in_documents_are_followed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    result = crawl([put_documents_with_links(web)], SITEMAPS_FROM_ROBOTS=True, TEXT_LINKS=True)
    rows = by_path(web, result)
    origins = {path: row["referrer"] for path, row in rows.items() if path.startswith("/from-")}
    assert origins == {path: web.url(SITE, origin) for path, origin in ORIGINS.items()}
    assert (rows["/from-gz"]["depth"], rows["/from-pdf"]["depth"]) == (3, 2)
    assert "/no" not in rows
    assert (rows["/a.pdf"]["title"], rows["/a.pdf"]["details"]["pages"]) == ("A paper", 1)
    assert rows["/a.pdf"]["simhash"] is None or rows["/a.pdf"]["duplicate_of"] is None
    assert rows["/map.xml.gz"]["details"] == {"sitemap": "urlset", "entries": 1}
    assert not [row["url"] for row in rows.values() if row["processing_error"]]


def test_nofollow_noindex_errors_and_depth_limits_are_obeyed_in_documents(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    leaf(web, *(f"/from-{name}" for name in ("nofollow", "noindex", "deep", "error")))
    put(
        web,
        "/nofollow.pdf",
        pdf("n", links=["/from-nofollow"]),
        PDF,
        X_Robots_Tag="nofollow",
        Link="</h>; rel=next",
    )
    put(
        web, "/noindex.pdf", pdf("i", links=["/from-noindex"], info="/Title (T)"), PDF, X_Robots_Tag="noindex"
    )
    put(web, "/1.xml", sitemap_index(("/2.xml", None)), XML)
    put(web, "/2.xml", urlset(("/from-deep", None), ("http://127.0.9.9/elsewhere", None)), XML)
    web.put(
        SITE, "/gone.pdf", Reply(pdf("g", links=["/from-error"]), status=404, headers={"Content-Type": PDF})
    )
    result = crawl(
        [home(web, "/notes.txt", "/nofollow.pdf", "/noindex.pdf", "/1.xml", "/gone.pdf")], DEPTH_LIMIT=2
    )
    rows = by_path(web, result)
    assert {path for path in web.paths(SITE) if path.startswith("/from-")} == {"/from-noindex"}
    assert "/h" not in web.paths(SITE)
    assert (rows["/noindex.pdf"]["title"], rows["/noindex.pdf"]["details"]) == (None, None)
    assert rows["/2.xml"]["details"]["entries"] == 2
    assert result.summary["addresses_refused"] == 0, "URLs out of scope must not be requested"


def test_a_pipeline_adds_a_type_with_its_extension_and_signature(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    put(web, "/scan", b"AT&TFORM\0\0\0\1DJVM\0", "application/octet-stream")
    put(web, "/a.djvu", b"cut in half DJVU", "application/octet-stream")
    put(web, "/declared", b"cut in half DJVI", "image/vnd.djvu")
    event = b"BEGIN:VEVENT\r\nSUMMARY:Gr\xc3\xbc\xc3\x9fe\r\n"
    put(web, "/c.ics", event, "application/octet-stream")
    put(web, "/feed", b"BEGIN:VCALENDAR\r\n" + event, "text/plain")
    pipelines = {f"tests.crawl.djvu.{name}": 230 for name in ("DjvuPipeline", "CalendarPipeline")}
    paths = ("/scan", "/a.djvu", "/declared", "/c.ics", "/feed")
    result = crawl([home(web, *paths)], ITEM_PIPELINES=json.dumps(pipelines))
    rows = by_path(web, result)
    titles = {path: row["title"] for path, row in rows.items() if path != "/"}
    calendars = {"/c.ics": "Grüße", "/feed": "Grüße"}
    assert titles == {"/scan": "DJVM", "/a.djvu": "DJVU", "/declared": "DJVI"} | calendars
    types = result.summary["types"]
    assert (types["image/vnd.djvu"]["pages"], types["text/calendar"]["pages"]) == (3, 2)


def test_recently_changed_sitemap_entries_are_crawled_first(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    today = datetime.now(UTC)
    days = {"/now": 0, "/yesterday": 1, "/last-month": 30, "/last-year": 365}
    entries = [
        (path, f"{today - timedelta(days=age, hours=1):%Y-%m-%dT%H:%M:%SZ}") for path, age in days.items()
    ]
    put(web, "/sitemap.xml", urlset(("/undated", None), *reversed(entries)), XML)
    leaf(web, "/undated", "/linked", *days)
    crawl([web.url(SITE, "/sitemap.xml")], tuned={"low_share": 0})
    assert [path for path in web.paths(SITE) if path != "/robots.txt"] == ["/sitemap.xml", *days, "/undated"]


def test_broken_documents_have_an_error_and_are_counted_by_type(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    leaf(web, "/good")
    broken = {
        "/cut.pdf": (pdf("Hello", pages=3)[:300], PDF),
        "/bomb.xml": (entity_bomb("urlset"), XML),
        "/bomb.rss": (entity_bomb("rss"), "application/rss+xml"),
        "/sitemap.xml.gz": (b"\x1f\x8b\x08 no gzip", GZIP),
    }
    for path, (body, mime_type) in broken.items():
        put(web, path, body, mime_type)
    put(web, "/map.xml.gz", gzip_bomb(60), GZIP)
    put(web, "/copy.pdf", broken["/cut.pdf"][0], PDF)
    put(web, "/odd", b"?", "application/x-nobody-knows")
    seed = home(web, *broken, "/map.xml.gz", "/good", "/odd")
    result = crawl([seed])
    rows = by_path(web, result)
    for path in broken:
        assert rows[path]["processing_error"], path
        assert (rows[path]["status"], rows[path]["error"]) == (200, None)
        assert rows[path]["warc_file"], path
    assert (
        rows["/bomb.rss"]["processing_error"] == "application/rss+xml defines entities, which no feed needs"
    )
    summary = result.summary
    assert (summary["pages"], summary["dead_letters"]) == (8, 0)
    types = summary["types"]
    errors = {mime_type: one["errors"] for mime_type, one in types.items()}
    assert errors["application/pdf"] == 1
    assert errors["application/rss+xml"] == 1
    assert errors["application/gzip"] >= 1
    assert (errors["application/xml"], errors["text/html"], errors["other"]) == (1, 0, 0)
    assert (types["application/pdf"]["pages"], types["text/html"]["pages"]) == (1, 2)
    assert types["application/pdf"]["bytes"] == len(broken["/cut.pdf"][0])
    assert "application/pdf" in result.stderr
    assert "1 not readable" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="finding the child processes of a worker needs /proc")
def test_a_hanging_document_fails_alone_and_a_killed_worker_loses_no_url(
    local_web: StartWeb, start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    leaf(web, "/good", "/from-pdf")
    put(web, "/loop.pdf", pdf_bomb(), PDF)
    put(web, "/a.pdf", pdf(links=["/from-pdf"]), PDF)
    home(web, "/loop.pdf", "/a.pdf", "/good")

    def start(**options: Any) -> Crawl:
        # an eighth is for any document, and this one takes more all the time
        options |= {"MIME_MEMORY": 8 * 2**30}
        return start_crawl("broad", [web.url(SITE)], **options)

    first = start(MIME_TIMEOUT=60)
    # the second PDF waits for the first, which never finishes
    until(lambda: {"/loop.pdf", "/a.pdf"} <= set(web.paths(SITE)), first)
    until(lambda: any(cpu_ticks(pid) > 30 for pid in readers_of(first.process.pid)), first)
    (reader,) = readers_of(first.process.pid)
    os.kill(first.process.pid, signal.SIGKILL)
    assert first.process.wait(60) < 0
    assert "/from-pdf" not in web.paths(SITE)
    result = start(MIME_TIMEOUT=1.5).wait()
    assert not is_alive(reader)
    rows = by_path(web, result)
    assert rows["/loop.pdf"]["processing_error"] == "application/pdf takes longer than 1.5 s"
    assert rows["/loop.pdf"]["warc_file"]
    assert rows["/from-pdf"]["status"] == rows["/good"]["status"] == 200
    assert result.summary["types"]["application/pdf"]["errors"] == 1


def readers_of(worker: int) -> list[int]:
    """Returns the pids of the processes in which a worker reads documents; Linux only."""
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == "reader_child\n"]


def test_intact_and_truncated_files_of_every_type_are_stored_and_counted(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    """Each file of a supported type has a row, intact or truncated, and the summary counts files by type."""
    web = local_web(SITE)
    good, cut = ({f"/{name}": file for name, file in files.items()} for files in mixed())
    for path, (mime_type, body) in {**good, **cut}.items():
        put(web, path, body, mime_type)
    put(web, "/bomb.png", png_bomb(), "image/png")
    good["/odd.json"] = "application/json", b'{"a\\u0000b": 1, "\\ud800": 2, "name": "n\\u0000\\udfff"}'
    put(web, "/odd.json", good["/odd.json"][1], "application/json")
    put(web, "/bomb.docx", zip_bomb("word/document.xml", 70), good["/office-0"][0])
    result = crawl([home(web, *good, *cut, "/bomb.png", "/bomb.docx")], DEPTH_LIMIT=1)
    rows = by_path(web, result)
    assert rows.keys() == {"/", *good, *cut, "/bomb.png", "/bomb.docx"}
    assert {row["status"] for row in rows.values()} == {200}
    assert {row["error"] for row in rows.values()} == {None}
    for path in good:
        assert rows[path]["details"] and not rows[path]["processing_error"], path
    assert rows["/odd.json"]["details"]["keys"] == ["a\ufffdb", "?", "name"]
    assert rows["/odd.json"]["title"] == "n\ufffd?"
    refused = {path for path, row in rows.items() if row["processing_error"]}
    assert {"/bomb.docx", "/cut-pdf-0", "/cut-office-0", "/cut-office-1", "/cut-json_data-0"} <= refused
    assert not refused & good.keys()
    expected: dict[str, dict[str, int]] = {}
    for path, row in rows.items():
        one = expected.setdefault(row["mime_type"], {"pages": 0, "bytes": 0, "errors": 0})
        one["pages"] += 1
        one["bytes"] += row["length"]
        one["errors"] += path in refused
    assert result.summary["types"] == expected
    assert result.summary["dead_letters"] == 0
    assert f"{len(expected) - 12} more: see summary.json" in result.stderr


WORDS = [f"word{number}" for number in range(60)]


def framed(web: LocalWeb, other: str = "http://127.0.9.9/") -> str:
    """Publishes a frameset with two existing frames, a missing one, and one on another host."""
    words = [" ".join(WORDS), " ".join(reversed(WORDS))]
    put(web, "/left", f"<title>left</title><p>{words[0]}</p><a href=/linked>x</a>", "text/html")
    put(web, "/right", f"<title>right</title><p>{words[1]}</p><a href=/left>x</a>", "text/html")
    leaf(web, "/linked")
    frames = "".join(f'<frame src="{path}">' for path in ("/left", "/right#top", "/missing", other))
    return put(
        web, "/", f"<title>Set</title><frameset>{frames}<noframes>none</noframes></frameset>", "text/html"
    )


def test_frames_are_stitched_into_their_page(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    text = " ".join(f"other{number}" for number in range(60))
    other = web.put(OTHER, "/frame", Reply(f"<p>{text}</p>", headers={"Content-Type": "text/html"}))
    result = crawl([framed(web, other), web.url(OTHER, "/")], FRAMES_STITCHED=True)
    rows = by_path(web, result)
    # a frame on another host is crawled as a page of its own
    assert rows.pop(other)["simhash"] is not None and rows.pop(web.url(OTHER, "/"))["status"] == 404
    assert rows.keys() == {"/", "/left", "/right", "/missing", "/linked"}
    text = f"{' '.join(WORDS)} x {' '.join(reversed(WORDS))} x"
    assert rows["/"]["simhash"] == as_stored(simhash64(text))
    assert (rows["/"]["title"], rows["/left"]["title"], rows["/left"]["simhash"]) == ("Set", "left", None)
    assert rows["/left"]["warc_file"] and rows["/left"]["referrer"] == web.url(SITE, "/")
    assert rows["/missing"]["status"] == 404
    asked = [path for path in web.paths(SITE) if path != "/robots.txt"]
    assert sorted(asked) == ["/", "/left", "/linked", "/missing", "/missing", "/right"]


def test_large_framesets_and_frames_are_not_stitched(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    framed(web)
    filler, text = f"<!--{'x' * MOST_BYTES}-->", " ".join(WORDS)
    set_of_two = "<title>Set</title><frameset><frame src=/right><frame src=/large></frameset>"
    put(web, "/large", f"<title>large</title>{filler}<p>{text}</p>", "text/html")
    seeds = [
        put(web, "/a-large-set", filler + set_of_two, "text/html"),
        put(web, "/set", set_of_two, "text/html"),
    ]
    rows = by_path(web, crawl(seeds[:1], FRAMES_STITCHED=True, data_dir=tmp_path / "a"))
    assert rows["/a-large-set"]["simhash"] is None
    assert rows["/right"]["simhash"] is not None and rows["/large"]["simhash"] is not None
    rows = by_path(web, crawl(seeds[1:], FRAMES_STITCHED=True, data_dir=tmp_path / "b"))
    assert rows["/set"]["simhash"] == as_stored(simhash64(f"{' '.join(reversed(WORDS))} x"))
    assert rows["/right"]["simhash"] is None and rows["/large"]["simhash"] == as_stored(simhash64(text))


def as_stored(simhash: int | None) -> int | None:
    """Converts unsigned 64 bits to the signed integer that SQLite stores."""
    return simhash - 2**64 if simhash is not None and simhash >= 2**63 else simhash
