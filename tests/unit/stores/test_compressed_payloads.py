"""Records whose payload is compressed already."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

from hypothesis import given, strategies as st

from tests.cases import cases
from tests.unit.warcs import NOW, check, exchange, one_file, replay
from webcrawl.documents.body import Body
from webcrawl.stores.warc.files import read_record
from webcrawl.stores.warc.reading import members
from webcrawl.stores.warc.records import Record, is_compressed
from webcrawl.stores.warc.writer import WarcWriter

JPEG, PNG = b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"
LARGE = 300_000


@given(st.binary(max_size=2_000), st.binary(max_size=100_000), st.integers(0, 9))
def test_a_stored_payload_is_the_same_record(head: bytes, payload: bytes, level: int) -> None:
    record = Record({"WARC-Type": "response"}, (head, Body(payload)))
    packed, stored = (b"".join(record.member(level, is_compressed=one)) for one in (False, True))
    assert gzip.decompress(stored) == gzip.decompress(packed)
    found = list(members(io.BytesIO(stored + packed)))
    assert [(offset, length) for offset, length, _ in found] == [(0, len(stored)), (len(stored), len(packed))]


@cases(
    ("payload", "expected"),
    [
        (gzip.compress(b"text", mtime=0), True),
        (JPEG + bytes(100), True),
        (PNG + bytes(100), True),
        (b"text", False),
        (b"", False),
        (JPEG + bytes(LARGE), False),
        (os.urandom(LARGE), True),
        (b"text" * LARGE, False),
    ],
)
def test_payloads_that_are_compressed_are_recognized(payload: bytes, expected: bool) -> None:
    assert is_compressed(Body(payload)) is expected


def test_a_page_that_was_sent_compressed_is_not_compressed_again(tmp_path: Path) -> None:
    text = b"".join(b"<p>%d</p>" % (number * number) for number in range(5_000))
    payload, headers = gzip.compress(text, mtime=0), b"X: " + b"y" * 1_000 + b"\r\nContent-Encoding: gzip\r\n"
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        place = writer.write(exchange("a", payload, headers))
        copy = writer.write_revisit(exchange("b", payload, headers), "http://www.example.org/a", NOW)
    path = one_file(tmp_path)
    check(path)
    assert replay(path)[1] == ("response", "http://www.example.org/a", text)
    assert read_record(path, *place[1:]).payload == payload
    assert payload in path.read_bytes()
    assert place.length < len(payload) + 700  # the heads are compressed
    assert copy.length < 700
