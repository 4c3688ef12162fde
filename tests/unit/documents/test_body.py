"""Bodies in memory and in files, and their use in responses, limits and WARC records."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import hashlib
import io
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import brotli
import pytest
from hypothesis import given, strategies as st
from scrapy import Request
from scrapy.http import Headers, HtmlResponse, Response, TextResponse

from tests.cases import cases
from tests.unit.warcs import NOW, check, one_file, replay
from webcrawl.config import ReaderConfig, Spool
from webcrawl.crawler.pages.from_response import document_of
from webcrawl.crawler.pages.scraper_slot import ScraperSlot
from webcrawl.crawler.responses import SpooledResponse, body_of, length_of, make_response
from webcrawl.documents.body import CHUNK, Body
from webcrawl.documents.body_writer import BodyBudget, BodyWriter
from webcrawl.documents.content_coding import codings, pieces, zstd
from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange, digest
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.documents.mime.sizes import SizeLimits
from webcrawl.errors import BadCoding, StoreError
from webcrawl.stores.warc.files import read_record
from webcrawl.stores.warc.writer import WarcWriter

URL = "https://example.org/"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


def written(spool: Spool, *chunks: bytes, digests: bool = False) -> Body:
    writer = BodyWriter(spool, digests=digests)
    for chunk in chunks:
        writer.add(chunk)
        if writer.is_full:
            writer.spill()
    return writer.finish()


def open_files(folder: Path) -> int:
    """Return how many files in `folder` this process has open; other tests' leftovers may close at any time."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(descriptor).startswith(str(folder))
    return count


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60), st.booleans(), st.integers(0, 80))
def test_body_is_the_same_in_memory_and_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], memory: int, digests: bool, size: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    body, whole = written(Spool(folder, memory), *chunks, digests=digests), b"".join(chunks)
    assert body.is_spooled == (len(whole) > memory)
    assert (bytes(body), len(body), body.start(size)) == (whole, len(whole), whole[:size])
    assert b"".join(body.chunks()) == whole
    assert body.digest == digest(whole) == digest(body) == Body(whole).digest
    first, second = body.open(), body.open()
    assert first.read(3) == whole[:3] and second.read() == whole and first.read() == whole[3:]
    assert first.seek(size) == size and first.read(5) == whole[size : size + 5]
    assert first.seek(0, io.SEEK_END) == len(whole) and first.tell() == len(whole)


@LINUX
def test_spool_file_has_no_name_and_is_freed_with_its_last_reader(tmp_path: Path) -> None:
    body = written(Spool(tmp_path / "spool", 10), b"x" * 100)
    assert list((tmp_path / "spool").iterdir()) == []
    assert open_files(tmp_path) == 1
    stream = body.open()
    del body
    assert stream.read() == b"x" * 100
    del stream
    gc.collect()
    assert open_files(tmp_path) == 0


@LINUX
def test_another_process_can_open_a_spooled_body(tmp_path: Path) -> None:
    document = Document(written(Spool(tmp_path, 10), b"x" * 100_000), "video/mp4", None, URL)
    assert document.path is not None
    script = "import sys; print(len(open(sys.argv[1], 'rb').read()))"
    read = subprocess.run([sys.executable, "-c", script, document.path], capture_output=True, timeout=60)
    assert read.stdout == b"100000\n", read.stderr
    assert Document(b"x", "video/mp4", None, URL).path is None


ADD, FINISH, DROP, ABORT = "add", "finish", "drop", "abort"
budget_steps = st.lists(
    st.tuples(
        st.sampled_from([ADD, ADD, ADD, FINISH, DROP, ABORT]), st.integers(0, 4), st.integers(0, 90_000)
    ),
    max_size=40,
)


@given(budget_steps, st.integers(0, 200_000), st.integers(0, 300_000))
def test_bodies_share_a_budget_and_give_all_of_it_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], memory: int, disk: int
) -> None:
    """Bodies grow, end, are given up and are forgotten in any order; one of those that grow never waits."""
    spool, budget = Spool(tmp_path_factory.getbasetemp(), 1_000), BodyBudget(memory, disk)
    writers: dict[int, BodyWriter] = {}
    bodies: list[Body] = []

    def has_room(writer: BodyWriter) -> bool:
        try:
            budget.room(writer).send(None)
        except StopIteration:
            return True
        except RuntimeError:  # there is no event loop in which it could wait
            return False
        raise AssertionError("it waits without an event loop")

    for step, number, size in steps:
        writer = writers.setdefault(number, BodyWriter(spool, budget=budget))
        if step == ADD:
            writer.add(b"x" * size)
            if writer.is_full:
                before = budget.spooled
                if has_room(writer):
                    writer.spill()
                else:
                    assert before >= disk
        elif step == DROP and bodies:
            bodies.pop(0)
        elif step in (FINISH, ABORT):
            if step == FINISH:
                bodies.append(writer.finish())
            writers.pop(number).close()
        del writer
        spooled = sum(len(body) for body in bodies if body.is_spooled)
        held = sum(writer._held for writer in writers.values())
        assert budget.held == held
        assert budget.spooled == spooled + sum(writer.size - writer._held for writer in writers.values())
    growing = [writer for writer in writers.values() if writer.is_full]
    assert not growing or any(has_room(writer) for writer in writers.values())
    while writers:
        writers.popitem()[1].close()
    growing.clear()
    bodies.clear()
    assert (budget.held, budget.spooled) == (0, 0)
    assert has_room(BodyWriter(spool, budget=budget))


async def test_a_body_waits_for_room_until_its_time_is_over(tmp_path: Path) -> None:
    budget = BodyBudget(disk=0)
    first, second = (BodyWriter(Spool(tmp_path, 1), budget=budget) for _ in range(2))
    await budget.room(first)
    with pytest.raises(TimeoutError):
        await budget.room(second, until=time.monotonic() + 0.01)
    first.close()
    await budget.room(second, until=time.monotonic() + 10)


async def test_a_body_that_waits_is_woken_by_a_file_that_is_gone_and_by_a_body_that_ends(
    tmp_path: Path,
) -> None:
    budget = BodyBudget(disk=1)
    first, second, third = (BodyWriter(Spool(tmp_path, 1), budget=budget) for _ in range(3))
    stored = written_by(BodyWriter(Spool(tmp_path, 1), budget=budget), b"xx")
    await budget.room(first)
    waiting = [asyncio.create_task(budget.room(writer)) for writer in (second, third)]
    await asyncio.sleep(0)
    first.close()
    async with asyncio.timeout(10):
        await waiting[0]
    assert not waiting[1].done()
    bodies = [stored]
    del stored
    await asyncio.to_thread(bodies.clear)  # files are often deleted in the threads of stores
    async with asyncio.timeout(10):
        await waiting[1]


def written_by(writer: BodyWriter, data: bytes) -> Body:
    writer.add(data)
    return writer.finish()


def test_a_crowded_memory_sends_bodies_to_the_disk_early(tmp_path: Path) -> None:
    budget = BodyBudget(memory=500_000)
    writers = [BodyWriter(Spool(tmp_path), budget=budget) for _ in range(200)]
    peak = 0
    for _ in range(30):
        for writer in writers:
            writer.add(b"x" * 16_384)
            peak = max(peak, budget.held)
            if writer.is_full:
                writer.spill()
    assert peak <= 500_000 + 200 * 32_768 < 200 * CHUNK


def test_unwritable_spool_folder_raises_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("no folder")
    with pytest.raises(StoreError, match="cannot spool a body in .*spool"):
        written(Spool(tmp_path / "spool", 1), b"xx")


@LINUX
def test_large_body_takes_bounded_memory(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from webcrawl.config import Spool
from webcrawl.documents.body_writer import BodyWriter
writer = BodyWriter(Spool(Path(sys.argv[1])), digests=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(1024):
    writer.add(bytes([number % 251]) * 65_536)
    if writer.is_full:
        writer.spill()
body = writer.finish()
assert sum(map(len, body.chunks())) == len(body) == 67_108_864
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60)
    assert int(run.stdout) < 8_000, run.stderr  # KiB


# --- content codings ---

BODY = b"".join(b"%d," % number for number in range(25_000)) * 9


@cases("chunk", [1000, 1 << 30])
@cases(
    ("coding", "payload"),
    [
        ("gzip", gzip.compress(BODY, 1, mtime=0)),
        (
            "x-gzip",
            gzip.compress(BODY[:500_000], 1, mtime=0) + gzip.compress(BODY[500_000:], 1, mtime=0) + b"junk",
        ),
        ("deflate", zlib.compress(BODY, 1)),
        ("deflate", zlib.compress(BODY, 1, wbits=-15)),
        ("br", brotli.compress(BODY, quality=1)),
        ("zstd", zstd.compress(BODY[:500_000]) + zstd.compress(BODY[500_000:])),
        ("gzip, identity, zstd", zstd.compress(gzip.compress(BODY, 1, mtime=0))),
        ("", BODY),
    ],
)
def test_content_codings_are_decoded_in_chunks(coding: str, payload: bytes, chunk: int) -> None:
    chunks = [payload[at : at + chunk] for at in range(0, len(payload), chunk)]
    found = list(pieces(chunks, codings(coding)))
    assert b"".join(found) == BODY
    # brotli treats its output limit as a hint
    assert not coding or max(map(len, found)) <= CHUNK * (4 if coding == "br" else 1)


@cases("zeros", [CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK])
@cases("wbits", [15, -15, 31])
def test_no_bytes_are_lost_at_chunk_boundaries(zeros: int, wbits: int) -> None:
    packed = zlib.compress(bytes(zeros), wbits=wbits)
    name = "gzip" if wbits == 31 else "deflate"
    assert sum(map(len, pieces([packed], [name]))) == zeros


def test_bomb_is_decoded_only_on_demand() -> None:
    bomb = gzip.compress(gzip.compress(bytes(1 << 26), 1), 1)
    found = pieces([bomb], ["gzip", "gzip"])
    assert all(len(next(found)) <= CHUNK for _ in range(3))


@cases("name", ["gzip", "deflate", "br", "zstd", "rot13"])
def test_body_without_its_declared_coding_raises(name: str) -> None:
    with pytest.raises(BadCoding, match=name):
        list(pieces([b"<p>this was never encoded, whatever they say"], [name]))


# --- limits ---


def test_size_limit_depends_on_the_mime_type() -> None:
    sizes = SizeLimits({"text/html": 10, "text/*": 20, "video/*": 0, "*/*": 30})
    found = [sizes.of(name) for name in ("text/html", "text/css", "video/mp4", "image/png")]
    assert found == [10, 20, float("inf"), 30]
    assert (sizes.least, SizeLimits({}).least, SizeLimits({}).of("a/b")) == (10, float("inf"), float("inf"))
    assert sizes.of_start("image/png", b"<html>", URL) == 30
    assert sizes.of_start(None, b"<html>", URL) == 10


# --- responses ---


def test_spooled_response_has_the_class_of_its_mime_type(tmp_path: Path) -> None:
    page = b"<html><p class=x>Gr\xc3\xbc\xc3\x9fe</p>" + b" " * 100
    body = written(Spool(tmp_path, 10), page)
    headers = Headers({"Content-Type": "text/html; charset=utf-8"})
    response = make_response(body, URL, headers, status=201, flags=["a"])
    assert isinstance(response, HtmlResponse) and isinstance(response, SpooledResponse)
    assert (response.body, response.status, response.flags) == (page, 201, ["a"])
    assert response.css("p.x::text").get() == "Grüße"
    assert body_of(response) is body and length_of(response) == len(page)
    other = response.replace(status=404)
    assert isinstance(other, HtmlResponse) and body_of(other) is body and other.status == 404
    short = response.replace(body=b"short")
    assert type(short) is HtmlResponse and short.body == b"short"
    assert type(response.replace(cls=TextResponse)) is TextResponse
    assert response.copy().body == page


def test_small_response_is_not_spooled() -> None:
    response = make_response(Body(b"\0\1"), URL + "a.mp4", Headers())
    assert type(response) is Response
    assert (length_of(response), bytes(body_of(response))) == (2, b"\0\1")


@pytest.mark.parametrize(
    ("content_type", "length", "counted"),
    [
        ("text/html", 5_000, 5_000),
        ("text/html", 500_000, 500_000),
        ("video/mp4", 5_000, 5_000),
        ("video/mp4", 500_000, 1_024),
    ],
)
def test_scraper_slot_counts_memory_of_spooled_responses(
    tmp_path: Path, content_type: str, length: int, counted: int
) -> None:
    """Otherwise many megabyte pages would be parsed at once, each taking 15 to 30 times its size."""
    readers = Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29))
    woken: list[bool] = []
    slot, request = ScraperSlot(10_000, readers, lambda: woken.append(True)), Request(URL)
    body = written(Spool(tmp_path), b"\1" * length)
    slot.add_response_request(make_response(body, URL, Headers({"Content-Type": content_type})), request)
    assert (slot.active_size, slot.needs_backout()) == (counted, counted > 10_000)
    response, *_ = slot.next_response_request_deferred()
    assert isinstance(response, Response)
    # while another process reads it, others may be fetched
    with readers.aside(document_of(response)):
        assert not slot.needs_backout()
        # the engine that was refused a request would ask again after five seconds only
        assert woken == [True] * (counted > 10_000)
    assert slot.needs_backout() == (counted > 10_000)
    slot.finish_response(response, request)
    assert slot.active_size == 0


# --- the archive ---


def exchange(payload: Body, **more: str) -> Exchange:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n"
    return Exchange(URL, "GET", b"GET / HTTP/1.1\r\n\r\n", b"", 200, head, payload, None, NOW, **more)


@pytest.mark.parametrize("content", [os.urandom(3_000_000), b"words and words " * 200_000])
def test_spooled_payload_is_archived_unchanged(tmp_path: Path, content: bytes) -> None:
    body = written(Spool(tmp_path / "spool"), content, digests=True)
    with WarcWriter(tmp_path, "test", "software") as writer:
        place = writer.write(exchange(body, truncated="length"))
        after = writer.write(exchange(Body(b"small")))
    path = one_file(tmp_path)
    check(path)
    assert [body for kind, _, body in replay(path) if kind == "response"] == [content, b"small"]
    record = read_record(path, place.offset, place.length)
    sha1 = hashlib.sha1(content, usedforsecurity=False).digest()
    assert record.headers["WARC-Payload-Digest"] == body.digest == digest(content) != str(sha1)
    assert record.headers["WARC-Truncated"] == "length"
    assert read_record(path, after.offset, after.length).payload == b"small"
    # incompressible payloads are stored without compression
    assert place.length < len(content) * 1.001
    assert (place.length < len(content) / 10) == content.startswith(b"words")


def test_unreadable_payload_leaves_no_partial_record(tmp_path: Path) -> None:
    body = written(Spool(tmp_path / "spool"), b"x" * 3_000_000, digests=True)
    body._size += 1  # as if the file had been truncated
    with WarcWriter(tmp_path, "test", "software") as writer:
        writer.write(exchange(Body(b"before")))
        with pytest.raises(StoreError, match="ends after 3000000"):
            writer.write(exchange(body))
        writer.write(exchange(Body(b"after")))
    check(one_file(tmp_path))
    assert [body for kind, _, body in replay(one_file(tmp_path)) if kind == "response"] == [
        b"before",
        b"after",
    ]
