"""Helpers for tests of the S3 store: pages, archives, bucket contents, and waiting."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from tests.s3server import ACCESS_KEY, SECRET_KEY, Line, S3Server
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.spooled_archive import SpooledArchive

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def environment(server: Line | S3Server) -> dict[str, str]:
    """Returns the variables by which a crawl uses a server, or the server behind a line."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        # ignore the AWS configuration of this machine and any cloud metadata service
        **dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def page(path: str, payload: bytes = b"<p>body") -> Page:
    url = f"http://www.example.org/{path}"
    page = Page(url=url, host="http://www.example.org", fetched_at=NOW)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    request = b"GET /%s HTTP/1.1\r\nHost: www.example.org\r\n\r\n" % path.encode()
    page.archived.exchange = Exchange(url, "GET", request, b"", 200, head, Body(payload), "192.0.2.1", NOW)
    return page


def archive(spool: Path, prefix_path: str = "crawl/1", **options: Any) -> SpooledArchive:
    folder = spool / "pages" / prefix_path
    store = open_store(f"s3://pages/{prefix_path}", "STORE_URI")
    return SpooledArchive(store, folder, prefix="crawl", software="webcrawl/1", **options)


def archived(objects: dict[str, bytes]) -> dict[str, bytes]:
    """The body of every response in WARC objects, by URL; checks all digests."""
    return {
        record.rec_headers.get_header("WARC-Target-URI"): record.content_stream().read()
        for name, data in objects.items()
        if name.endswith(".warc.gz")
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise")
        if record.rec_type == "response"
    }


def files(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.rglob("*") if path.is_file())


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def uploads_end() -> None:
    """Wait for the upload threads of archives that were closed before their uploads ended."""
    eventually(lambda: not any(thread.name == "uploads" for thread in threading.enumerate()))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
