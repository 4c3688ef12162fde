"""Archived pages are read as they were fetched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.warcs import NOW, exchange
from webcrawl.config import Spool, StoreConfig
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError
from webcrawl.reparse.archived import Archived, ArchivedPages
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.writer import WarcWriter


class Stored:
    """A crawl with an archive and a database in a folder."""

    def __init__(self, folder: Path) -> None:
        self._config = StoreConfig(folder.as_uri(), f"sqlite:///{folder}/metadata.db", folder)
        self._folder = folder

    def put(self, one: Exchange, first: str | None = None, **fields: Any) -> str:
        page = Page(url=one.url, host="http://www.example.org", fetched_at=one.fetched_at, status=one.status)
        page.digest = fields.pop("digest", one.payload.digest)
        with WarcWriter(self._folder, "crawl", "webcrawl/1") as writer:
            place = writer.write_revisit(one, first, NOW) if first else writer.write(one)
        page.warc_file, page.warc_offset, page.warc_length = place
        for name, value in fields.items():
            setattr(page, name, value)
        with Metadata(self._config.metadata) as metadata:
            metadata.upsert([page.row()])
        return one.url

    def load(self, *urls: str) -> dict[str, Any]:
        pages = ArchivedPages(self._config, Spool(self._folder / "spool"))
        try:
            return dict(pages.load(urls))
        finally:
            pages.close()

    def page(self, url: str) -> Archived:
        page = self.load(url)[url]
        assert isinstance(page, Archived), page
        return page


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def test_a_response_has_its_header_as_received(stored: Stored) -> None:
    headers = b"Transfer-Encoding: chunked\r\nContent-Length: 999\r\nX-A: 1\r\nx-a: 2\r\nno field\r\n"
    page = stored.page(stored.put(exchange("a", b"<p>body", headers, truncated="time")))
    assert page.fields == [
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"999"),
        (b"X-A", b"1"),
        (b"x-a", b"2"),
    ]
    found = page.exchange
    assert (bytes(found.payload), found.status, found.fetched_at) == (b"<p>body", 200, NOW)
    assert (found.truncated, found.ip_address, page.first) == ("time", "192.0.2.1", None)


def test_a_copy_has_its_own_header_and_the_payload_of_the_first_page(stored: Stored) -> None:
    first = stored.put(exchange("first", b"same", b"X-Robots-Tag: nofollow\r\n"))
    copy = stored.put(
        exchange("copy", b"same", b"X-Copy: 1\r\n"), first, duplicate_of=first, duplicate_kind="exact"
    )
    page = stored.page(copy)
    assert (bytes(page.exchange.payload), dict(page.fields)[b"X-Copy"]) == (b"same", b"1")
    assert page.first is not None
    assert (page.first.url, dict(page.first.fields)[b"X-Robots-Tag"]) == (first, b"nofollow")
    # the first page has changed since: its earlier fetch is in the history
    later = replace(exchange("first", b"other"), fetched_at=NOW.replace(year=2027))
    stored.put(later)
    assert bytes(stored.page(copy).exchange.payload) == b"same"


@pytest.mark.parametrize(
    ("url", "row", "fields"),
    [
        pytest.param(
            "http://a.example/", {}, [(b"Content-Type", b"text/html; charset=utf-8")], id="rendered"
        ),
        pytest.param(
            "http://a.example/",
            {"language": "fr", "language_source": "declared"},
            [(b"Content-Type", b"text/html; charset=utf-8"), (b"Content-Language", b"fr")],
            id="rendered-with-language",
        ),
        pytest.param(
            "http://a.example/",
            {"language": "de", "language_source": "detected", "details": {"languages": {"declared": "fr"}}},
            [(b"Content-Type", b"text/html; charset=utf-8"), (b"Content-Language", b"fr")],
            id="rendered-in-another-language",
        ),
        pytest.param("ftp://a.example/f.txt", {}, [], id="file"),
        pytest.param("ftp://a.example/d/", {}, [(b"Content-Type", b"text/html; charset=utf-8")], id="folder"),
        pytest.param("gemini://a.example/", {}, [(b"Content-Type", b"text/html")], id="other-protocol"),
    ],
)
def test_what_was_fetched_without_http_has_the_header_of_its_handler(
    stored: Stored, url: str, row: dict[str, Any], fields: Any
) -> None:
    made = replace(Exchange.without_heads(url, Body(b"<p>x"), "text/html", status=404), fetched_at=NOW)
    page = stored.page(stored.put(made, **row))
    assert (list(page.fields), page.exchange.status, page.exchange.mime_type) == (fields, 404, "text/html")


def test_pages_that_cannot_be_read_say_why(stored: Stored, tmp_path: Path) -> None:
    other = stored.put(exchange("other", digest := b"digest"), digest="sha1:" + "A" * 32)
    lost = stored.put(exchange("lost", b"x"), "http://www.example.org/none", duplicate_of="none")
    file = stored.put(exchange("file", b"y"), warc_file="none.warc.gz")
    good = stored.put(exchange("good", digest))
    found = stored.load(other, lost, file, good, "http://www.example.org/unknown")
    assert "the payload has the digest sha1:" in str(found[other])
    assert "its body is not in the archive: it is a copy of none" in str(found[lost])
    assert "none.warc.gz does not exist" in str(found[file])
    assert all(isinstance(found[url], StoreError) for url in (other, lost, file))
    assert isinstance(found[good], Archived)
    assert found["http://www.example.org/unknown"] is None
