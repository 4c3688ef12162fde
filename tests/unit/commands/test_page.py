"""`scrapy page` prints archived bodies in bounded memory, whatever their decoded size."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, scrapy
from tests.processes import scrapy_peak
from tests.unit.warcs import NOW, exchange
from webcrawl.documents.page import ROW_FIELDS, Page
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.files import WarcLocation

HOME = "http://www.example.org/"
LIMIT = 10_000_000
MOST_KB = 120_000


@cache
def large() -> bytes:
    return os.urandom(1 << 20) * 60


"""Memory of Scrapy, SQLAlchemy and the rest with a margin; far less than the bodies."""


def put(
    folder: Path, path: str, payload: bytes, coding: str = "", at: datetime = NOW, **more: object
) -> WarcLocation:
    """Stores a page as a crawl does."""
    headers = f"Content-Encoding: {coding}\r\n" if coding else ""
    answer = exchange(path, payload, f"Content-Type: text/html\r\nX-Path: {path}\r\n{headers}".encode())
    answer = replace(answer, fetched_at=at)
    page = Page(url=HOME + path, host=HOME[:-1], fetched_at=answer.fetched_at, status=200)
    page.mime_type, page.digest, page.archived.exchange = "text/html", answer.payload.digest, answer
    for name, value in more.items():
        setattr(page.archived if name == "duplicate_fetched_at" else page, name, value)
    archive = FolderArchive(folder / "warc")
    page.warc_file, page.warc_offset, page.warc_length = place = archive.write(page)
    archive.close()
    with Metadata(f"sqlite:///{folder}/metadata.db") as metadata:
        metadata.upsert([page.row()])
    return place


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    put(folder, "bomb", gzip.compress(bytes(60_000_000), 1), "gzip")
    put(folder, "large", large())
    put(folder, "small", gzip.compress(b"<p>small"), "gzip")
    put(folder, "wrong", b"<p>not packed", "gzip")
    put(folder, "cut", b"<p>half", truncated="disconnect")
    small = exchange("small", gzip.compress(b"<p>small")).payload.digest
    with Metadata(f"sqlite:///{folder}/metadata.db") as metadata:
        # the duplicate points to the record of the first page; `lost` has no record
        bare = metadata.get(HOME + "small")
        assert bare is not None
        copy = {"url": HOME + "copy", "duplicate_of": HOME + "small", "duplicate_kind": "exact"}
        lost = {"url": HOME + "lost", "warc_file": None}
        given = {name: bare[name] for name in ROW_FIELDS}
        metadata.upsert([given | copy | {"digest": small}, given | lost])
    return folder


def command(stored: Path, path: str, *options: str) -> tuple[str, ...]:
    limit = f'DOCUMENT_MAXSIZE={{"text/html": {LIMIT}}}'
    return "page", HOME + path, "-s", f"DATA_DIR={stored}", "-s", limit, *options


def page(stored: Path, path: str, *options: str, code: int = 0) -> tuple[str, str]:
    """Runs `scrapy page`; returns stdout and stderr."""
    done = scrapy(*command(stored, path, *options), status=code)
    return done.stdout, done.stderr


def page_peak(stored: Path, path: str, *options: str) -> tuple[bytes, str, int]:
    """Runs `scrapy page` in a new Python; returns stdout, stderr and the peak memory in KiB."""
    ended, out, errors, peak = scrapy_peak(*command(stored, path, *options))
    assert ended == 0, errors
    return out, errors, peak


def test_body_is_printed_in_chunks(stored: Path) -> None:
    out, errors, peak = page_peak(stored, "large", "--body")
    assert out == large() and errors == ""
    assert peak < MOST_KB
    out, errors, peak = page_peak(stored, "large", "--headers")
    assert b"X-Path: large" in out and len(out) < 10_000
    assert peak < MOST_KB


def test_decoded_body_is_truncated_at_the_limit_with_a_warning(stored: Path) -> None:
    out, errors, peak = page_peak(stored, "bomb", "--body")
    assert out == bytes(LIMIT)
    assert errors.startswith(
        "The decoded body is truncated at 10,000,000 bytes: the limit of DOCUMENT_MAXSIZE"
    )
    assert peak < MOST_KB
    out, errors, peak = page_peak(stored, "bomb", "--body", "-s", 'DOCUMENT_MAXSIZE={"*/*": 0}')
    assert out == bytes(60_000_000) and errors == ""
    assert peak < MOST_KB


def test_encoded_duplicate_truncated_and_missing_bodies_are_handled(stored: Path) -> None:
    assert page(stored, "small", "--body") == ("<p>small", "")
    assert page(stored, "copy", "--body") == ("<p>small", "")
    assert page(stored, "wrong", "--body") == ("<p>not packed", "")
    half, errors = page(stored, "cut", "--body")
    assert (half, errors) == ("<p>half", "The body was truncated when it was fetched: disconnect.\n")
    for option in ("--body", "--headers"):
        assert "lost is not in the archive" in page(stored, "lost", option, code=1)[1]


def test_duplicate_has_the_body_of_its_original_fetch(tmp_path: Path) -> None:
    first = HOME + "first"
    put(tmp_path, "first", b"<p>the same")
    copy = {"duplicate_of": first, "duplicate_kind": "exact", "duplicate_fetched_at": NOW}
    put(tmp_path, "copy", b"<p>the same", at=NOW + timedelta(seconds=1), **copy)
    for days in (1, 2):
        put(tmp_path, "first", b"<p>new %d" % days, at=NOW + timedelta(days=days))
    out, errors = page(tmp_path, "copy", "--body")
    assert (out, errors) == ("<p>the same", "")
    assert "X-Path: copy" in page(tmp_path, "copy", "--headers")[0]
    # the history no longer holds the fetch with this body
    with Metadata(f"sqlite:///{tmp_path}/metadata.db", history=1) as metadata:
        row = metadata.get(first)
        assert row is not None
        metadata.upsert([{name: row[name] for name in ROW_FIELDS} | {"fetched_at": NOW + timedelta(days=3)}])
    _, errors = page(tmp_path, "copy", "--body", code=1)
    assert f"the body of {HOME}copy is not in the archive: the page is a duplicate of {first}" in errors


def test_url_is_canonicalized_before_the_lookup(stored: Path) -> None:
    for path in ("small?", "small?utm_source=x", "./small#top"):
        assert page(stored, path, "--body")[0] == "<p>small"
    assert "nothing is stored about" in page(stored, "small?a=1", "--row", code=1)[1]


def test_closed_pipe_ends_the_command_quietly(stored: Path) -> None:
    piped = f"scrapy page {HOME}large --body -s DATA_DIR={stored} | head -c 10"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", piped],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (run.stdout, run.stderr) == (large()[:10], b"")
    # this output stays in the buffer of Python until the end
    row = f"scrapy page {HOME}small --json -s DATA_DIR={stored} | true"
    words = ["bash", "-o", "pipefail", "-c", row]
    run = subprocess.run(words, cwd=CHECKOUT, env=environment, capture_output=True, timeout=60, check=True)
    assert run.stderr == b""


def test_a_missing_warc_file_hints_at_the_store(stored: Path, tmp_path: Path) -> None:
    elsewhere = f"STORE_URI={tmp_path.as_uri()}"
    assert (
        "STORE_URI must be that of the crawl" in page(stored, "small", "--body", "-s", elsewhere, code=1)[1]
    )


def test_missing_data_folder_is_an_error_and_not_created(tmp_path: Path) -> None:
    _, errors = page(tmp_path / "nothing", "", "--row", code=1)
    assert "nothing was stored yet" in errors
    assert not (tmp_path / "nothing").exists()
