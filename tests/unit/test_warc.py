"""WARC files: written by us, read by warcio; torn at every byte; full disks; two processes."""

from __future__ import annotations

import errno
import gzip
import io
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate
from pathlib import Path

import brotli
import pytest
from hypothesis import given, strategies as st
from warcio.archiveiterator import ArchiveIterator

from webcrawl.errors import StoreError
from webcrawl.exchange import Exchange
from webcrawl.stores.cdxj import surt
from webcrawl.stores.record import Record, inflated, members, parse
from webcrawl.stores.warc import OPEN, WarcPlace, WarcWriter, read_record, repair

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


def exchange(
    path: str = "", payload: bytes = b"<p>body", headers: bytes = b"", truncated: str | None = None
) -> Exchange:
    return Exchange(
        url=f"http://www.example.org/{path}",
        method="GET",
        request_head=b"GET /%s HTTP/1.1\r\nHost: www.example.org\r\n\r\n" % path.encode(),
        request_body=b"",
        status=200,
        response_head=HEAD + headers + b"\r\n",
        payload=payload,
        ip_address="192.0.2.1",
        fetched_at=NOW,
        truncated=truncated,
    )


def warcs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.warc.gz"))


def check(path: Path) -> None:
    """`warcio check`: every digest holds, nothing is left over."""
    run = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", str(path)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout
    assert not run.stdout


def replay(path: Path) -> list[tuple[str, str | None, bytes]]:
    """(type, URL, decoded body) of each record, by warcio; digests checked."""
    with path.open("rb") as file:
        return [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
        ]


def one_file(folder: Path) -> Path:
    (path,) = warcs(folder)
    return path


def test_a_page_is_a_response_and_a_request(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "webcrawl/1", info={"robots": "obey"}) as writer:
        place = writer.write(exchange("a"))
    path = one_file(tmp_path)
    assert path.name == place.file
    assert path.name.startswith("crawl-20")
    assert [path.name] == [p.name for p in tmp_path.iterdir() if p.suffix != ".cdxj"]
    with path.open("rb") as file:
        iterator = ArchiveIterator(file)
        info = next(iterator)
        assert info.rec_headers.get_header("WARC-Filename") == path.name
        assert b"software: webcrawl/1\r\n" in (lines := info.content_stream().read())
        assert b"robots: obey\r\n" in lines
        response = next(iterator)
        assert (iterator.get_record_offset(), iterator.get_record_length()) == place[1:]
        headers = dict(response.rec_headers.headers)
        assert response.rec_headers.protocol == "WARC/1.1"
        assert headers["WARC-Date"] == "2026-02-03T04:05:06.000789Z"
        assert headers["WARC-IP-Address"] == "192.0.2.1"
        assert headers["WARC-Warcinfo-ID"] == info.rec_headers.get_header("WARC-Record-ID")
        assert "WARC-Truncated" not in headers
        assert response.http_headers.get_statuscode() == "200"
        request = next(iterator)
        assert request.rec_headers.get_header("WARC-Concurrent-To") == headers["WARC-Record-ID"]
        assert request.http_headers.get_header("Host") == "www.example.org"
    check(path)


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        (b"", b"the body"),
        (b"Transfer-Encoding: chunked\r\n", b"the body"),
        (b"transfer-encoding : gzip, chunked\r\nContent-Length: 99\r\n", b"the body"),
        (b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", gzip.compress(b"the body")),
        (b"X-Folded: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 8\r\n", b"the body"),
    ],
)
def test_warcio_replays_the_decoded_body(tmp_path: Path, headers: bytes, payload: bytes) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a", payload, headers))
    path = one_file(tmp_path)
    check(path)
    assert replay(path)[1] == ("response", "http://www.example.org/a", b"the body")
    assert read_record(path, place.offset, place.length).body == b"the body"


def test_brotli(tmp_path: Path) -> None:
    """warcio itself reads it only with brotlipy; with the brotli package it stops with an AttributeError."""
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a", brotli.compress(b"the body"), b"Content-Encoding: br\r\n"))
    assert read_record(tmp_path / place.file, place.offset, place.length).body == b"the body"
    with one_file(tmp_path).open("rb") as file:
        bodies = [record.raw_stream.read() for record in ArchiveIterator(file, check_digests="raise")]
    assert bodies[1] == brotli.compress(b"the body")


def test_the_header_block_tells_the_truth(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        chunked = writer.write(
            exchange("a", b"123", b"Transfer-Encoding: chunked\r\nContent-Length: 9\r\nE: f\r\n")
        )
        plain = writer.write(exchange("b", b"123", b"content-length: 3\r\n"))
    status, content_type, _ = HEAD.split(b"\r\n")
    path = one_file(tmp_path)
    assert read_record(path, *chunked[1:]).http_head.split(b"\r\n") == [
        status,
        b"Content-Length: 3",
        content_type,
        b"X-Archive-Orig-Transfer-Encoding: chunked",
        b"X-Archive-Orig-Content-Length: 9",
        b"E: f",
        b"",
        b"",
    ]
    assert read_record(path, *plain[1:]).http_head == HEAD + b"content-length: 3\r\n\r\n"


def test_truncated_and_revisit(tmp_path: Path) -> None:
    zone = timezone(timedelta(hours=2))
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        cut = writer.write(exchange("a", truncated="length"))
        again = writer.write_revisit(exchange("b"), "http://www.example.org/a", NOW.astimezone(zone))
    path = one_file(tmp_path)
    check(path)
    first, second = read_record(path, *cut[1:]), read_record(path, *again[1:])
    assert first.headers["WARC-Truncated"] == "length"
    assert second.headers["WARC-Type"] == "revisit"
    assert second.headers["WARC-Profile"].endswith("/warc/1.1/revisit/identical-payload-digest")
    assert second.headers["WARC-Refers-To-Target-URI"] == "http://www.example.org/a"
    assert second.headers["WARC-Refers-To-Date"] == first.headers["WARC-Date"]
    assert second.headers["WARC-Payload-Digest"] == first.headers["WARC-Payload-Digest"]
    assert second.http_head == HEAD + b"\r\n"
    assert second.payload == b""


@given(st.binary(), st.binary(max_size=50), st.text(max_size=20))
def test_any_bytes_survive(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, junk: bytes, url: str
) -> None:
    folder = tmp_path_factory.mktemp("warc")
    url = f"http://host/{url}"  # warcio reads HTTP headers only where the URL says so
    head, naive = b"POST / HTTP/1.1\r\n\r\n", NOW.replace(tzinfo=None)
    odd = Exchange(url, "POST", head, junk, 200, HEAD + b"\r\n", payload, None, naive)
    with WarcWriter(folder, "a/b c", "x\r\ny", roll_bytes=1) as writer:
        place = writer.write(odd)
    record = read_record(folder / place.file, place.offset, place.length)
    assert record.payload == payload
    with (folder / place.file).open("rb") as file:
        assert [record.rec_type for record in ArchiveIterator(file, check_digests="raise")] == [
            "warcinfo",
            "response",
            "request",
        ]


def test_files_roll_and_are_indexed(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "x", roll_bytes=3_000) as writer:
        places = [writer.write(exchange(f"{n}", os.urandom(1_000))) for n in (3, 1, 2, 0)]
    assert len(warcs(tmp_path)) == 2
    lines = []
    for path in warcs(tmp_path):
        check(path)
        index = path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj").read_text().splitlines()
        assert index == sorted(index)
        lines += index
    found = {}
    for line in lines:
        key, timestamp, facts = line.split(" ", 2)
        assert timestamp == "20260203040506"
        entry = json.loads(facts)
        assert (entry["mime"], entry["status"]) == ("text/html", "200")
        assert key == "org,example)/" + entry["url"][-1]
        found[entry["url"]] = WarcPlace(entry["filename"], int(entry["offset"]), int(entry["length"]))
    assert found == {
        f"http://www.example.org/{n}": place for n, place in zip((3, 1, 2, 0), places, strict=True)
    }


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.Example.org:443/A/?b=2&a=1#f", "org,example)/a?a=1&b=2"),
        ("http://www2.example.co.uk", "uk,co,example)/"),
        ("http://127.0.1.1:8080/x", "127.0.1.1:8080)/x"),
        ("http://user@[::1]/", "::1)/"),
        ("http://[/", "http://[/"),
    ],
)
def test_surt(url: str, key: str) -> None:
    assert surt(url) == key


def test_nothing_written_leaves_nothing(tmp_path: Path) -> None:
    WarcWriter(tmp_path, "crawl", "x").close()
    assert list(tmp_path.iterdir()) == []


def test_an_open_file_is_readable_and_left_alone_by_repair(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    place = writer.write(exchange("a"))
    assert repair(tmp_path) == []
    assert (tmp_path / (place.file + OPEN)).exists()
    assert read_record(tmp_path / place.file, place.offset, place.length).body == b"<p>body"
    writer.close()
    assert read_record(tmp_path / place.file, place.offset, place.length).body == b"<p>body"
    assert repair(tmp_path) == []


def test_repair_at_every_byte_of_the_last_records(tmp_path: Path) -> None:
    with WarcWriter(tmp_path / "whole", "crawl", "x") as writer:
        writer.write(exchange("first"))
        last = writer.write(exchange("last"))
    data = one_file(tmp_path / "whole").read_bytes()
    whole_index = next((tmp_path / "whole").glob("*.cdxj")).read_bytes()
    ends = {last.offset: 3, last.offset + last.length: 4, len(data): 5}
    for cut in range(last.offset, len(data) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / (last.file + OPEN)).write_bytes(data[:cut])
        assert repair(folder) == [folder / last.file]
        assert repair(folder) == []
        assert sorted(p.name for p in folder.iterdir()) == [
            last.file.replace(".warc.gz", ".cdxj"),
            last.file,
        ]
        end = max(end for end in ends if end <= cut)
        assert (folder / last.file).read_bytes() == data[:end]
        assert len(replay(folder / last.file)) == ends[end]
        index = next(folder.glob("*.cdxj")).read_bytes()
        assert index == (whole_index if end > last.offset else whole_index.splitlines(keepends=True)[0])


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"garbage", b"\x1f\x8b\x08\0"])
def test_repair_cuts_off_what_is_no_record(tmp_path: Path, tail: bytes) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        writer.write(exchange("a", os.urandom(200_000)))
    path = one_file(tmp_path)
    whole = path.read_bytes()
    leftover = path.with_name(path.name + OPEN)
    path.rename(leftover)
    leftover.write_bytes(whole + tail)
    assert repair(tmp_path) == [path]
    assert path.read_bytes() == whole


BODIES = st.builds(bytes.__mul__, st.binary(max_size=300), st.integers(1, 3_000))


@given(st.lists(BODIES, max_size=6), st.integers(0, 9), st.integers(0, 30))
def test_members_are_found_whatever_they_hold(bodies: list[bytes], level: int, torn: int) -> None:
    whole = [Record({}, (body,)).member(level) for body in bodies]
    offsets = [0, *accumulate(map(len, whole))]
    data = b"".join([*whole, gzip.compress(b"torn")[:torn]]) if torn < 24 else b"".join(whole)
    found = list(members(io.BytesIO(data)))
    assert [(offset, length) for offset, length, _ in found] == [
        (offset, len(member)) for offset, member in zip(offsets, whole, strict=False)
    ]
    assert all(
        start == inflated(member)[: 1 << 16] for (_, _, start), member in zip(found, whole, strict=True)
    )


def test_repair_finds_its_way_past_bodies_that_unfold_far(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        places = [writer.write(exchange(f"{n}", b"a" * 50_000_000)) for n in range(2)]
    path = one_file(tmp_path)
    whole = path.read_bytes()
    path.with_name(path.name + OPEN).write_bytes(whole[:-1])
    path.unlink()
    assert repair(tmp_path) == [path]
    assert whole.startswith(path.read_bytes())
    assert path.stat().st_size == places[1].offset + places[1].length


def test_repair_removes_what_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / f"crawl-1.warc.gz{OPEN}").write_bytes(b"\x1f\x8b")
    (tmp_path / f"crawl-2.warc.gz{OPEN}").touch()
    assert repair(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert repair(tmp_path / "missing") == []


def _write_until_killed(folder: Path, written: str) -> None:
    writer = WarcWriter(folder, "crawl", "x", roll_bytes=200_000)
    with open(written, "a", buffering=1) as log:
        for number in range(1_000_000):
            place = writer.write(exchange(f"{number}", os.urandom(500)))
            log.write(f"{place.file} {place.offset} {place.length} {number}\n")


def test_kill_loses_nothing_that_was_written(tmp_path: Path) -> None:
    folder, log = tmp_path / "warc", tmp_path / "log"
    log.touch()
    process = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(folder, str(log)))
    process.start()
    try:
        while log.read_bytes().count(b"\n") < 500:
            assert process.is_alive()
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
    assert len(repair(folder)) == 1
    lines = log.read_text().splitlines()
    assert len(lines) >= 500
    for file, offset, length, number in map(str.split, lines):
        record = read_record(folder / file, int(offset), int(length))
        assert record.headers["WARC-Target-URI"] == f"http://www.example.org/{number}"
    for path in warcs(folder):
        check(path)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A disk that is full after `size` bytes of a file: the kernel takes part of a write, then refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("before", [0, 1])
def test_a_failed_write_leaves_a_valid_file(tmp_path: Path, before: int) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    for _ in range(before):
        writer.write(exchange("before"))
    with (
        file_size_limit(10_000),
        pytest.raises(StoreError, match=r"crawl-.*\.warc\.gz\.open: File too large"),
    ):
        writer.write(exchange("big", os.urandom(50_000)))
    after = writer.write(exchange("after"))
    writer.close()
    path = one_file(tmp_path)
    check(path)
    assert [kind for kind, _, _ in replay(path)] == ["warcinfo"] + ["response", "request"] * (before + 1)
    assert read_record(path, after.offset, after.length).headers["WARC-Target-URI"].endswith("/after")


def test_a_file_with_only_failed_writes_disappears(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    with file_size_limit(100), pytest.raises(StoreError):
        writer.write(exchange("a"))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=os.strerror(errno.ENOTDIR)):
        WarcWriter(tmp_path / "file" / "warc", "crawl", "x").write(exchange())


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_record(tmp_path / "none.warc.gz", 0, 10)
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a"))
    for offset, length in ((place.offset + 1, place.length), (place.offset, place.length - 1)):
        with pytest.raises(StoreError, match=place.file):
            read_record(tmp_path / place.file, offset, length)


def test_records_of_other_writers_can_be_read() -> None:
    """A record of a crawler that names its fields in its own way still has a body."""
    block = b"HTTP/1.0 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"body")
    head = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http;msgtype=response\r\n"
    record = parse(head + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n")
    assert record.body == b"body"
    assert io.BytesIO(record.payload).read(2) == b"\x1f\x8b"
