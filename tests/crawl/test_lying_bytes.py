"""A site whose bytes lie a little: pages are read, rows say how, and the archive has the bytes as they were sent."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest

from tests.crawl.archive import check, record_at
from tests.crawl.reparsing import execute, reparse, rows
from tests.crawls import CrawlResult
from tests.wire import Say, Wire, running
from webcrawl.documents.content_coding import zstd

CURL = "webcrawl.crawler.download.curl.CurlDownloadHandler"
ODD, REPEATED, LYING = "odd_status_line", "repeated_length", "bad_checksum"


def html(name: str) -> bytes:
    return f"<title>{name}</title><p>The text of the page {name}. <a href='/after-{name}'>next</a>".encode()


def sent(line: bytes, body: bytes, *fields: bytes) -> bytes:
    head = [line, b"Content-Type: text/html", *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*head, b"", body])


def gzipped(body: bytes) -> bytes:
    """Returns a gzip member whose checksum and length are zeros."""
    return sent(b"HTTP/1.1 200 OK", gzip.compress(body, mtime=0)[:-8] + bytes(8), b"Content-Encoding: gzip")


OK = b"HTTP/1.1 200 OK"
LENGTH = b"Content-Length: %d" % len(html("length"))
PAGES: dict[str, tuple[bytes, int, list[str]]] = {
    "gzip": (gzipped(html("gzip")), 200, [LYING]),
    "deflate": (
        sent(OK, zlib.compress(html("deflate"))[:-4] + bytes(4), b"Content-Encoding: deflate"),
        200,
        [LYING],
    ),
    "length": (sent(OK, html("length"), LENGTH), 200, [REPEATED]),
    "case": (sent(b"http/1.1 200 OK", html("case")), 200, [ODD]),
    "tabs": (sent(b"HTTP/1.1\t404\tNot Found", html("tabs")), 404, [ODD]),
    "plain": (sent(OK, html("plain")), 200, []),
    # libcurl refuses it, so the host is asked by the other client from the second attempt on
    "newer": (sent(b"HTTP/1.2 200 OK", html("newer")), 200, [ODD]),
}


def served(pages: dict[str, tuple[bytes, int, list[str]]]) -> Wire:
    links = "".join(f"<a href=/{name}>{name}</a>" for name in [*pages, "private"]).encode()
    answers = {
        b"/": sent(OK, links),
        b"/robots.txt": gzipped(b"User-agent: *\nDisallow: /private\n"),
        **{b"/" + name.encode(): page for name, (page, _, _) in pages.items()},
    }

    def answer(head: bytes) -> Say:
        path = head.split(b" ")[1]
        return Say([answers.get(path, sent(b"HTTP/1.1 404 Not Found", b"nothing"))])

    return Wire([answer])


def remarks_of(row: dict[str, Any]) -> list[str]:
    return list(json.loads(row["details"] or "{}").get("remarks", []))


def stored_record(data_dir: Path, row: dict[str, Any]) -> bytes:
    data = (data_dir / "warc" / row["warc_file"]).read_bytes()
    return gzip.decompress(data[row["warc_offset"] :][: row["warc_length"]])


@pytest.mark.parametrize("handler", ["", CURL], ids=["own", "curl"])
def test_pages_are_read_and_rows_say_how_their_bytes_lie(
    handler: str, run_crawl: Callable[..., CrawlResult]
) -> None:
    options = {"DOWNLOAD_HANDLERS": json.dumps({"http": handler})} if handler else {}
    with running(served(PAGES)) as wire:
        result = run_crawl(
            "broad",
            [wire.url()],
            ALLOWED_NETWORKS="127.0.0.0/8",
            DOWNLOAD_DELAY=0,
            FRONTIER_RETRY_DELAY=0.1,
            **options,
        )
    asked = {head.split(b" ")[1] for head in wire.heads}
    assert b"/private" not in asked
    assert {b"/after-" + name.encode() for name, (_, status, _) in PAGES.items() if status == 200} <= asked
    before = rows(result.data_dir)
    assert before[wire.url("/newer")]["attempts"] == (2 if handler else 1)
    for name, (answer, status, remarks) in PAGES.items():
        row = before[wire.url(f"/{name}")]
        assert (row["status"], row["title"], row["error"]) == (status, name, None)
        assert remarks_of(row) == remarks
        head, _, payload = answer.partition(b"\r\n\r\n")
        assert record_at(result.data_dir, row).headers.statusline
        stored = stored_record(result.data_dir, row)
        assert head.partition(b"\r\n")[0] in stored and stored.count(LENGTH) == head.count(LENGTH)
        assert stored.endswith(b"\r\n\r\n" + payload + b"\r\n\r\n")
    odd = sum(ODD in remarks for _, _, remarks in PAGES.values())
    assert result.summary["remarks"] == {LYING: 2, ODD: odd, REPEATED: 1}
    assert "2 pages decoded in full, but with a wrong checksum or length" in result.stderr
    check(result.data_dir)
    (index,) = (result.data_dir / "warc").glob("*.cdxj")
    statuses = {
        entry["url"]: entry["status"]
        for entry in (json.loads(line.split(" ", 2)[2]) for line in index.read_text().splitlines())
    }
    assert [statuses[wire.url(f"/{name}")] for name in PAGES] == [str(page[1]) for page in PAGES.values()]

    # a row of a crawl that did not read the page, whose answer it archived
    forgotten = wire.url("/gzip")
    execute(result.data_dir, "UPDATE pages SET details = NULL, error = 'old' WHERE url = ?", forgotten)
    execute(result.data_dir, "UPDATE pages SET title = 'old'")
    reparse(result.data_dir)
    after = rows(result.data_dir)
    assert after[forgotten]["error"] is None
    assert [after[wire.url(f"/{name}")]["title"] for name in PAGES] == list(PAGES)
    assert [remarks_of(after[wire.url(f"/{name}")]) for name in PAGES] == [page[2] for page in PAGES.values()]


def test_pages_are_read_before_other_data(run_crawl: Callable[..., CrawlResult]) -> None:
    compress = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}
    pages: dict[str, tuple[bytes, int, list[str]]] = {
        name: (sent(OK, call(html(name)) + b"\r\n", b"Content-Encoding: " + name.encode()), 200, [])
        for name, call in compress.items()
    }
    with running(served(pages)) as wire:
        result = run_crawl("broad", [wire.url()], ALLOWED_NETWORKS="127.0.0.0/8", DOWNLOAD_DELAY=0)
    stored = rows(result.data_dir)
    for name in pages:
        row = stored[wire.url(f"/{name}")]
        assert (row["status"], row["title"], row["error"], remarks_of(row)) == (200, name, None, [])
    asked = {head.split(b" ")[1] for head in wire.heads}
    assert {b"/after-" + name.encode() for name in pages} <= asked
