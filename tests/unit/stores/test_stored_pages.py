"""Stored pages with their archived bodies: decoded as on fetch, in bounded memory."""

from __future__ import annotations

import gzip
import hashlib
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.unit.warcs import NOW, exchange
from webcrawl.config import FetchConfig, StoreConfig
from webcrawl.documents.exchange import digest as payload_digest
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError
from webcrawl.results.linkcheck import problems
from webcrawl.results.mirror import write_mirror
from webcrawl.results.variants import Variants
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.stored_pages import StoredPages
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.urls.canonical import Canonicalizer

HOME = "http://www.example.org/"
PAGE = b"<p>" + b"words " * 1_000_000


class Crawl:
    """A folder with the archive and the database of a finished crawl."""

    def __init__(self, folder: Path, **more: Any) -> None:
        settings = Settings({"DATA_DIR": str(folder), **more})
        self.stores, self.fetch = StoreConfig.from_settings(settings), FetchConfig.from_settings(settings)
        self.archive = FolderArchive(folder / "warc")
        self.metadata = Metadata(self.stores.metadata)

    def put(
        self,
        path: str,
        payload: bytes,
        headers: bytes = b"",
        mime_type: str = "text/html",
        at: datetime = NOW,
        **more: Any,
    ) -> WarcLocation:
        """Stores a page; as an HTTP exchange if `headers` is not empty."""
        of_http = replace(exchange(path, payload, headers), fetched_at=at)
        bare = replace(of_http, request_head=b"", response_head=b"", mime_type=mime_type)
        page = Page(url=HOME + path, host=HOME[:-1], fetched_at=at, status=200, mime_type=mime_type)
        for name, value in more.items():
            setattr(page.archived if name == "duplicate_fetched_at" else page, name, value)
        page.archived.exchange = of_http if headers else bare
        place = self.archive.write(page)
        kept = dict(zip(("warc_file", "warc_offset", "warc_length"), place, strict=True))
        self.metadata.upsert([page.row() | kept])
        return place

    @contextmanager
    def stored(self) -> Iterator[StoredPages]:
        self.archive.close()
        with StoredPages(self.stores, self.fetch) as stored:
            yield stored


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path, DOCUMENT_MAXSIZE={"text/html": 300_000, "video/*": 0})


def test_duplicate_has_the_body_of_its_original_fetch(crawl: Crawl) -> None:
    header, digest = b"X: y\r\n", payload_digest(b"<p>the same")
    crawl.put("first", b"<p>the same", header, digest=digest)
    copy = {"duplicate_of": HOME + "first", "duplicate_kind": "exact", "duplicate_fetched_at": NOW}
    crawl.put("copy", b"<p>the same", header, digest=digest, at=NOW + timedelta(seconds=1), **copy)
    crawl.put("first", b"<p>changed", header, digest="sha1:" + "A" * 32, at=NOW + timedelta(days=1))
    with crawl.stored() as stored:
        for path, text in (("first", b"<p>changed"), ("copy", b"<p>the same")):
            row = stored.get(HOME + path)
            assert row is not None and (document := stored.document(row)) is not None
            assert document.body == text


@pytest.mark.parametrize(
    ("payload", "coding", "body"),
    [
        (gzip.compress(PAGE[:600_000]), b"gzip", PAGE[:300_000]),
        (zlib.compress(PAGE[:5_000]), b"deflate", PAGE[:5_000]),
        (PAGE[:300], b"gzip", PAGE[:300]),
        (b"", b"identity", b""),
    ],
)
def test_body_is_decoded_and_cut_as_on_fetch(
    crawl: Crawl, payload: bytes, coding: bytes, body: bytes
) -> None:
    place = crawl.put("", payload, b"Content-Encoding: %s\r\n" % coding)
    crawl.put("after", b"<p>after", b"A: b\r\n")
    record, found = Bodies(crawl.archive, crawl.fetch).read(place)
    assert (bytes(found), found.is_spooled) == (body, len(body) > crawl.fetch.spool.memory)
    assert record.headers["WARC-Target-URI"] == HOME and record.http_head.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("moved", [(1, 0), (0, -20), (100_000, 0)])
def test_damaged_record_raises_a_store_error(crawl: Crawl, moved: tuple[int, int]) -> None:
    place = crawl.put("", PAGE[:1_000], b"A: b\r\n")
    wrong = WarcLocation(place.file, place.offset + moved[0], place.length + moved[1])
    with pytest.raises(StoreError, match=rf"{place.file} at byte {wrong.offset}: "):
        Bodies(crawl.archive, crawl.fetch).read(wrong)


def test_linkcheck_reads_pages_without_http_headers(crawl: Crawl) -> None:
    crawl.put("", b"<a href=/missing>x</a><a href=#nowhere>y</a>")
    crawl.metadata.upsert([Page(url=f"{HOME}missing", host=HOME[:-1], fetched_at=NOW, status=404).row()])
    with crawl.stored() as stored:
        found = [
            (one.url, one.problem) for one in problems(stored, lambda url: True, Variants(Canonicalizer()))
        ]
    assert found == [(HOME, "anchor"), (f"{HOME}missing", "missing")]


def test_page_that_exceeds_the_parse_timeout_is_mirrored_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.documents.html.timed_parse.SECONDS", 0.1)
    monkeypatch.setattr("webcrawl.documents.html.timed_parse.BYTES", 100_000)
    crawl = Crawl(tmp_path)
    nested = b"<a href=/lost>" + b"<div><!--</div>-->" * 15_000
    crawl.put("", nested)
    with crawl.stored() as stored:
        document = next(stored.document(row) for row in stored.rows())
        assert document is not None and document.refused and document.elements == []
        assert write_mirror(stored, tmp_path / "mirror", Variants(Canonicalizer())) == (1, 0, 0)
    assert (tmp_path / "mirror" / "www.example.org" / "index.html").read_bytes() == nested


def test_a_mirror_leaves_out_pages_whose_path_is_too_deep_or_long(crawl: Crawl, tmp_path: Path) -> None:
    crawl.put("", PAGE)
    crawl.put("a/" * 1_015 + "x.html", PAGE)
    crawl.put("/".join(["b" * 119] * 30), PAGE)
    with crawl.stored() as stored:
        assert write_mirror(stored, tmp_path / "mirror", Variants(Canonicalizer())) == (1, 0, 2)
    assert [path.name for path in (tmp_path / "mirror" / "www.example.org").iterdir()] == ["index.html"]


def test_mirror_of_large_bodies_takes_bounded_memory(crawl: Crawl, tmp_path: Path) -> None:
    video = hashlib.shake_128(b"noise").digest(1 << 20) * 40
    crawl.put("film.mp4", video, b"Content-Type: video/mp4\r\n", "video/mp4")
    crawl.put("bomb", gzip.compress(PAGE * 10), b"Content-Encoding: gzip\r\n")
    # tracemalloc must not start or stop while an abandoned parser thread allocates without the GIL
    for thread in threading.enumerate():
        if thread.name == "parser":
            thread.join(60)
    with crawl.stored() as stored:
        tracemalloc.start()
        try:
            assert write_mirror(stored, tmp_path / "mirror", Variants(Canonicalizer())) == (2, 0, 0)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (tmp_path / "mirror/www.example.org/film.mp4").read_bytes() == video
    assert (tmp_path / "mirror/www.example.org/bomb.html").stat().st_size < 310_000
    assert most < 10_000_000
