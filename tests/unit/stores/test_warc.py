"""WARC files: written by webcrawl, read by warcio and fastwarc."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap
import time
import uuid
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path

import brotli
import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import given, strategies as st
from warcio.archiveiterator import ArchiveIterator

from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.unit.warcs import HEAD, NOW, check, exchange, one_file, replay, warcs
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.errors import StoreError
from webcrawl.stores.warc.cdxj import surt
from webcrawl.stores.warc.files import WarcLocation, read_record
from webcrawl.stores.warc.reading import has_body, http_field, parse
from webcrawl.stores.warc.records import record_id
from webcrawl.stores.warc.repair import repair
from webcrawl.stores.warc.writer import WarcWriter


def test_page_is_a_response_and_a_request_record(tmp_path: Path) -> None:
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
        (b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", gzip.compress(b"the body", mtime=0)),
        (b"X-Folded: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 8\r\n", b"the body"),
    ],
)
def test_warcio_replays_the_decoded_body(tmp_path: Path, headers: bytes, payload: bytes) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a", payload, headers))
    path = one_file(tmp_path)
    check(path)
    assert replay(path)[1] == ("response", "http://www.example.org/a", b"the body")
    assert read_record(path, place.offset, place.length).payload == payload


def test_brotli_payload_is_stored_unchanged(tmp_path: Path) -> None:
    """warcio decodes brotli only with brotlipy; with the brotli package it raises AttributeError."""
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a", brotli.compress(b"the body"), b"Content-Encoding: br\r\n"))
    assert read_record(tmp_path / place.file, place.offset, place.length).payload == brotli.compress(
        b"the body"
    )
    with one_file(tmp_path).open("rb") as file:
        bodies = [record.raw_stream.read() for record in ArchiveIterator(file, check_digests="raise")]
    assert bodies[1] == brotli.compress(b"the body")


def test_archived_header_block_describes_the_stored_payload(tmp_path: Path) -> None:
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


def test_a_record_id_is_a_random_uuid() -> None:
    ids = [record_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    for one in ids:
        number = uuid.UUID(one.removeprefix("<urn:uuid:").removesuffix(">"))
        assert (number.version, number.variant) == (4, uuid.RFC_4122)
        assert one == f"<{number.urn}>"


def test_crawl_facts_are_a_metadata_record(tmp_path: Path) -> None:
    """In the format of Heritrix. The index lists responses and revisits only."""
    facts = {"via": "http://www.example.org/\r\nX: y", "hopsFromSeed": "LL", "firstByteMs": "12"}
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        writer.write(exchange("a"), facts)
        writer.write_revisit(exchange("b"), "http://www.example.org/a", NOW, facts)
    path = one_file(tmp_path)
    check(path)
    kinds = [kind for kind, _, _ in replay(path)]
    assert kinds == ["warcinfo", "response", "request", "metadata", "revisit", "request", "metadata"]
    with path.open("rb") as file:
        found = [
            (dict(record.rec_headers.headers), record.content_stream().read())
            for record in ArchiveIterator(file)
        ]
    headers, block = found[3]
    assert headers["WARC-Concurrent-To"] == found[1][0]["WARC-Record-ID"]
    assert headers["Content-Type"] == "application/warc-fields"
    assert block == b"via: http://www.example.org/ X: y\r\nhopsFromSeed: LL\r\nfirstByteMs: 12\r\n"
    assert found[6][0]["WARC-Concurrent-To"] == found[4][0]["WARC-Record-ID"]
    (index,) = tmp_path.glob("*.cdxj")
    assert len(index.read_text().splitlines()) == 2


def test_truncated_and_revisit_records_have_their_headers(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("scheme", ["ftp", "http"])  # http: a rendered page has no HTTP message either
def test_revisit_of_a_resource_record_is_readable_and_indexed(tmp_path: Path, scheme: str) -> None:
    """Two libraries read it, and a rebuilt index equals the first one."""
    first, url = f"{scheme}://host/first", f"{scheme}://host/copy"
    bare = replace(exchange(), url=first, request_head=b"", response_head=b"", mime_type="text/html")
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        writer.write(bare)
        place = writer.write_revisit(replace(bare, url=url), first, NOW)
    path = one_file(tmp_path)
    check(path)
    assert replay(path)[1:] == [("resource", first, b"<p>body"), ("revisit", url, b"")]
    with path.open("rb") as file:
        kept, copy = list(FastIterator(file))[1:]
        names = ("Refers-To-Target-URI", "Refers-To-Date", "Payload-Digest")
        assert [copy.headers[f"WARC-{name}"] for name in names] == [
            kept.headers[f"WARC-{name}"] for name in ("Target-URI", "Date", "Payload-Digest")
        ]
    record = read_record(path, *place[1:])
    assert not has_body(record) and (record.http_head, record.payload) == (b"", b"")
    index = path.with_name(path.name.replace(".warc.gz", ".cdxj"))
    lines = index.read_text()
    facts = [json.loads(line.split(" ", 2)[2]) for line in lines.splitlines()]
    assert [(one["mime"], one["status"]) for one in facts] == [("warc/revisit", "200"), ("text/html", "200")]
    path.rename(path.with_name(path.name + ".open"))
    index.unlink()
    assert repair(tmp_path) == [path] and index.read_text() == lines


@given(st.binary(), st.binary(max_size=50), st.text(max_size=20))
def test_any_bytes_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, junk: bytes, url: str
) -> None:
    folder = tmp_path_factory.mktemp("warc")
    url = f"http://host/{url}"  # warcio parses HTTP headers only for http URLs
    head, naive = b"POST / HTTP/1.1\r\n\r\n", NOW.replace(tzinfo=None)
    odd = Exchange(url, "POST", head, junk, 200, HEAD + b"\r\n", Body(payload), None, naive)
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


ODD = [
    replace(exchange(), url="http://[2001:db8::1]:8080/%C3%BC?q=a|b", ip_address="2001:db8::1"),
    replace(exchange(), url="http://xn--bcher-kva.example/\u00fc", ip_address=None),
    replace(
        exchange("post"),
        method="POST",
        request_head=b"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        request_body=b"a=b\0\r",
    ),
    exchange("chunked", b"abc", b"Transfer-Encoding: chunked\r\nX-Old: \xfc\r\n folded\r\n"),
    exchange("empty", b""),
    exchange("time", b"half a bo", truncated="time"),
    replace(exchange("curt"), response_head=b"HTTP/1.0 200\r\n\r\n"),
    exchange("binary", bytes(range(256)) * 400),
]


def test_two_libraries_read_unusual_records_alike(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        for one in ODD:
            writer.write(one, {"via": one.url})
    path = one_file(tmp_path)
    check(path)
    with path.open("rb") as file:
        first = [
            (record.rec_type, record.rec_headers["WARC-Target-URI"], record.raw_stream.read())
            for record in ArchiveIterator(file, no_record_parse=True)
        ]
    second = []
    with path.open("rb") as file:
        for record in FastIterator(file, parse_http=False):
            assert record.verify_block_digest()
            block = record.reader.read()
            second.append((record.headers["WARC-Type"], record.headers.get("WARC-Target-URI"), block))
    assert first == second
    assert [kind for kind, _, _ in first] == ["warcinfo"] + ["response", "request", "metadata"] * len(ODD)
    for number, one in enumerate(ODD):
        (_, url, answer), (_, _, question), (_, _, facts) = first[1 + 3 * number : 4 + 3 * number]
        assert url == one.url
        assert answer.partition(b"\r\n\r\n")[2] == bytes(one.payload)
        assert question == one.request_head + one.request_body
        assert facts == f"via: {one.url}\r\n".encode()


def test_files_roll_over_and_are_indexed(tmp_path: Path) -> None:
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
        found[entry["url"]] = WarcLocation(entry["filename"], int(entry["offset"]), int(entry["length"]))
    assert found == {
        f"http://www.example.org/{n}": place for n, place in zip((3, 1, 2, 0), places, strict=True)
    }


@cases(
    ("url", "key"),
    [
        ("https://www.Example.org:443/A/?b=2&a=1#f", "org,example)/a?a=1&b=2"),
        ("http://www2.example.co.uk", "uk,co,example)/"),
        # as returned by cdxj-indexer 1.5.0
        ("http://127.0.1.1:8080/x", "1,1,0,127:8080)/x"),
        ("http://[2001:db8::1]:8080/a", "2001:db8::1:8080)/a"),
        ("http://example.org./dot", "org,example)/dot"),
        ("http://web12.example.org/a//b/", "org,example,web12)/a/b"),
        ("http://xn--bcher-kva.example/%C3%BC%7E", "example,xn--bcher-kva)/%c3%bc~"),
        ("http://example.org/a%20b+c%2525?x=%20y&X=1", "org,example)/a%20b+c%25?x=%20y&x=1"),
        ("http://example.org/?a=&b&a-b=1&a", "org,example)/?a&a=&a-b=1&b"),
        ("http://example.org/x?sid=9682993c8daa2c5497996114facdc805&y=1", "org,example)/x?y=1"),
        ("http://example.org/x?PHPSESSID=9682993c8daa2c5497996114facdc805", "org,example)/x"),
        ("http://example.org/x?sid=short&y=1", "org,example)/x?sid=short&y=1"),
        ("http://example.org/%2F../..%2Fa/b%2F%2F.%2e/c%252F./", "org,example)/../a/b/c"),
        ("http://example.org/?sid=" + 32 * "1" + "jsessionid=" + 32 * "2", "org,example)/"),
        ("http://example.org/?sid=" + 32 * "1" + "&sid=" + 32 * "2", "org,example)/?&sid=" + 32 * "1"),
        ("http://example.org/a/(S(" + 24 * "x" + "))/b.ASPX", "org,example)/a/b.aspx"),
        ("http://user@[::1]/", "::1)/"),
        ("http://[/", "http://[/"),
    ],
)
def test_url_has_its_surt_key(url: str, key: str) -> None:
    assert surt(url) == key


def test_writer_without_records_leaves_no_file(tmp_path: Path) -> None:
    WarcWriter(tmp_path, "crawl", "x").close()
    assert list(tmp_path.iterdir()) == []


def test_reading_a_missing_record_raises_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        read_record(tmp_path / "none.warc.gz", 0, 10)
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a"))
    for offset, length in ((place.offset + 1, place.length), (place.offset, place.length - 1)):
        with pytest.raises(StoreError, match=place.file):
            read_record(tmp_path / place.file, offset, length)


def test_records_of_other_writers_are_readable() -> None:
    """Header names may be spelled in any case."""
    block = b"HTTP/1.0 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"body")
    head = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http;msgtype=response\r\n"
    record = parse(head + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n")
    assert gzip.decompress(record.payload) == b"body"
    assert http_field(record.http_head, "content-encoding") == "gzip"


def test_old_files_are_closed_with_or_without_further_writes(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x", roll_seconds=0.5)
    first = writer.write(exchange("a"))
    writer.close_old()
    assert warcs(tmp_path) == []
    time.sleep(0.51)
    writer.close_old()
    assert [path.name for path in warcs(tmp_path)] == [first.file]
    writer.close_old()
    second = writer.write(exchange("b"))
    time.sleep(0.51)
    third = writer.write(exchange("c"))
    assert len({first.file, second.file, third.file}) == 3
    writer.close()
    for path in warcs(tmp_path):
        check(path)


def test_memory_and_descriptors_stay_flat_over_a_thousand_files(tmp_path: Path) -> None:
    """Stands for a crawl of months. Runs in its own process, so that nothing else allocates."""
    program = """
        import os, sys, tracemalloc
        from pathlib import Path
        from tests.unit.warcs import exchange
        from webcrawl.stores.warc.writer import WarcWriter

        os.fsync = lambda fd: None  # a disk takes ten seconds for them
        body = os.urandom(1_000)

        def used():
            return len(os.listdir("/dev/fd")), tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        with WarcWriter(Path(sys.argv[1]), "crawl", "x", roll_bytes=1) as writer:
            for number in range(1_100):
                writer.write(exchange(str(number), body), {"via": "a"})
                if number == 99:
                    before = used()
            after = used()
        print(*(now - then for now, then in zip(after, before)), writer.closed)
    """
    words = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    run = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    descriptors, memory, closed = map(int, run.stdout.split())
    assert (descriptors, closed) == (0, 1_100)
    # Python 3.12 never frees interned strings, such as the names in a Path: half a kilobyte a file
    assert memory < (1_000_000 if sys.version_info[:2] == (3, 12) else 100_000)
    assert len(warcs(tmp_path)) == 1_100
