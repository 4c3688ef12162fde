"""Content codings of payloads: what they decode to, and how truncated ones are reported."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import brotli
import pytest

from webcrawl.documents.content_coding import codings, pieces, zstd
from webcrawl.errors import BadCoding


def decoded(payload: bytes, coding: str | None) -> bytes:
    return b"".join(pieces([payload], codings(coding)))


@pytest.mark.parametrize(
    ("coding", "payload"),
    [
        ("gzip", gzip.compress(b"body", mtime=0)),
        ("x-gzip", gzip.compress(b"bo", mtime=0) + gzip.compress(b"dy", mtime=0) + b"garbage"),
        ("deflate", zlib.compress(b"body")),
        ("deflate", zlib.compress(b"body", wbits=-15)),
        ("br", brotli.compress(b"body")),
        ("gzip, BR", brotli.compress(gzip.compress(b"body", mtime=0))),
        ("identity", b"body"),
        (None, b"body"),
    ],
)
def test_content_codings_are_decoded(coding: str | None, payload: bytes) -> None:
    assert decoded(payload, coding) == b"body"


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "unheard-of"])
def test_body_without_its_declared_coding_raises(coding: str) -> None:
    with pytest.raises(BadCoding):
        decoded(b"body", coding)


ZSTD = zstd.compress(b"bo") + b"\x50\x2a\x4d\x18\x01\0\0\0x" + zstd.compress(b"dy")


@pytest.mark.parametrize(
    ("coding", "payload"),
    [
        ("gzip", gzip.compress(b"bo", mtime=0) + gzip.compress(b"dy", mtime=0)),
        ("deflate", zlib.compress(b"body")),
        ("deflate", zlib.compress(b"body", wbits=-15)),
        ("br", brotli.compress(b"body")),
        ("zstd", ZSTD),
        ("gzip, br", brotli.compress(gzip.compress(b"body", mtime=0))),
        ("br, gzip", gzip.compress(brotli.compress(b"body")[:-1], mtime=0)),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_truncated_payload_is_reported(coding: str, payload: bytes, size: int) -> None:
    def cut(data: bytes) -> tuple[bytes, int]:
        breaks: list[None] = []
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        return b"".join(pieces(chunks, codings(coding), lambda: breaks.append(None))), len(breaks)

    if coding != "br, gzip":
        trailers = (b"\0", b"\n", b"garbage that is no member") if "br" not in coding else ()
        for trailer in (b"", *trailers):
            assert cut(payload + trailer) == (b"body", 0), "trailing bytes are ignored"
    for end in range(len(payload) - 5, len(payload)):
        with suppress(BadCoding):  # too little to decode
            found, breaks = cut(payload[:end])
            assert b"body".startswith(found) and breaks, end
    if coding == "br, gzip":
        assert cut(payload)[1], "the inner coding is truncated"


def test_truncated_payload_is_decoded_up_to_its_end() -> None:
    body = bytes(range(256)) * 100
    assert body.startswith(decoded(gzip.compress(body, mtime=0)[:-20], "gzip"))
    assert decoded(gzip.compress(body, mtime=0)[:-20], "gzip") != b""
