"""Content codings of payloads: what they decode to, and how truncated ones are reported."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from itertools import chain, repeat

import brotli
import pytest

from tests.cases import cases
from webcrawl.documents.content_coding import codings, pieces, zstd
from webcrawl.errors import BadCoding


def decoded(payload: bytes, coding: str | None) -> bytes:
    return b"".join(pieces([payload], codings(coding)))


@cases(
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


@cases("coding", ["gzip", "br", "zstd", "unheard-of"])
def test_body_without_its_declared_coding_raises(coding: str) -> None:
    with pytest.raises(BadCoding):
        decoded(b"body", coding)


ZSTD = zstd.compress(b"bo") + b"\x50\x2a\x4d\x18\x01\0\0\0x" + zstd.compress(b"dy")


@cases(
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
@cases("size", [1, 1000])
def test_truncated_payload_is_reported(coding: str, payload: bytes, size: int) -> None:
    def cut(data: bytes) -> tuple[bytes, int]:
        flaws: list[str] = []
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        content = b"".join(pieces(chunks, codings(coding), flaws.append))
        assert set(flaws) <= {"unfinished"}
        return content, len(flaws)

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


PAGE = b"".join(b"<p>%d</p>" % number for number in range(2000))


def changed(data: bytes, at: int) -> bytes:
    """Returns data with another byte at a position."""
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at:][1:]


def with_name(data: bytes, flags: int = 0) -> bytes:
    """Returns a gzip member with an extra field, a name, a comment and the checksum of its header."""
    header = data[:3] + bytes([2 | 4 | 8 | 16 | flags]) + data[4:10] + b"\3\0abc" + b"name\0" + b"a comment\0"
    return header + (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little") + data[10:]


GZIP, ZLIB, RAW = gzip.compress(PAGE, mtime=0), zlib.compress(PAGE), zlib.compress(PAGE, wbits=-15)
FIRST, SECOND = gzip.compress(PAGE[:5000], mtime=0), gzip.compress(PAGE[5000:], mtime=0)
CHECKED, FIRST_FRAME, SECOND_FRAME = (
    zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})
    for data in (PAGE, PAGE[:5000], PAGE[5000:])
)
SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\3\0\0\0abc"
WHOLE: list[str] = []
LIES = ["bad_checksum"]
CUT = ["unfinished"]

LYING = {
    "gzip": ("gzip", GZIP, WHOLE),
    "CRC": ("gzip", changed(GZIP, -8), LIES),
    "size": ("gzip", changed(GZIP, -1), LIES),
    "zeros as trailer": ("x-gzip", GZIP[:-8] + bytes(8), LIES),
    "CRC, then other data": ("gzip", changed(GZIP, -5) + b"\r\nmore", LIES),
    "no trailer": ("gzip", GZIP[:-8], CUT),
    "a wrong part of a trailer": ("gzip", changed(GZIP, -8)[:-3], CUT),
    "zeros between members": ("gzip", FIRST + bytes(300_000) + SECOND + bytes(5), WHOLE),
    "CRC of the first member": ("gzip", changed(FIRST, -8) + SECOND, LIES),
    "CRC of the second member": ("gzip", FIRST + changed(SECOND, -8), LIES),
    "a long header": ("gzip", with_name(GZIP), WHOLE),
    "a long header, and CRC": ("gzip", changed(with_name(GZIP), -8), LIES),
    "CRC of a header": ("gzip", changed(with_name(GZIP), 12), LIES),
    "deflate": ("deflate", ZLIB, WHOLE),
    "Adler-32": ("deflate", changed(ZLIB, -1), LIES),
    "zeros as Adler-32": ("deflate", ZLIB[:-4] + bytes(4), LIES),
    "Adler-32, then other data": ("deflate", changed(ZLIB, -4) + b"more", LIES),
    "no Adler-32": ("deflate", ZLIB[:-4], CUT),
    "no wrapper, but Adler-32": ("deflate", RAW + ZLIB[-4:], WHOLE),
    "no wrapper, then other data": ("deflate", RAW + b"more", WHOLE),
    "checksum of zstd": ("zstd", changed(CHECKED, -1), LIES),
    "no checksum of zstd": ("zstd", CHECKED[:-4], CUT),
    "checksum of zstd, then other data": ("zstd", changed(CHECKED, -1) + b"\r\nmore", LIES),
    "checksum of zstd, then more than itself": ("zstd", changed(CHECKED, -4) + PAGE, LIES),
    "checksum of the first frame": ("zstd", changed(FIRST_FRAME, -1) + SECOND_FRAME, LIES),
    "checksum of the second frame": ("zstd", FIRST_FRAME + SKIPPABLE_FRAME + changed(SECOND_FRAME, -2), LIES),
    "a wrong part of a checksum": ("zstd", changed(CHECKED, -4)[:-1], CUT),
    "frames of zstd": ("zstd", SKIPPABLE_FRAME + FIRST_FRAME + SECOND_FRAME + zstd.compress(b""), WHOLE),
    "zstd, then other data": ("zstd", CHECKED + b"\r\nmore", WHOLE),
    "Brotli": ("br", brotli.compress(PAGE), WHOLE),
    "Brotli, then other data": ("br", brotli.compress(PAGE) + b"\r\nmore", WHOLE),
    "Brotli, then more than itself": ("br", brotli.compress(PAGE) + PAGE, WHOLE),
    "Brotli in gzip, then other data": ("br, gzip", gzip.compress(brotli.compress(PAGE) + b"x"), WHOLE),
    "CRC of the inner coding": ("gzip, br", brotli.compress(changed(GZIP, -8)), LIES),
    "CRC of the outer coding": ("gzip, gzip", changed(gzip.compress(GZIP, mtime=0), -8), LIES),
}


@cases("size", [1, 7, 100_000])
@cases(("coding", "payload", "flaws"), LYING.values(), ids=LYING)
def test_content_with_a_wrong_checksum_is_kept_and_noted(
    coding: str, payload: bytes, flaws: list[str], size: int
) -> None:
    chunks = (payload[at : at + size] for at in range(0, len(payload), size))
    noted: list[str] = []
    assert b"".join(pieces(chunks, codings(coding), noted.append)) == PAGE
    assert noted == flaws


@pytest.mark.parametrize("more", [b"x", b"x" * 300_000])
def test_long_brotli_before_other_data_is_whole(more: bytes) -> None:
    page = b"".join(b"<p>%x</p>" % (number * 2_654_435_761) for number in range(100_000))
    noted: list[str] = []
    payload = brotli.compress(page, quality=1) + more
    chunks = (payload[at : at + 262_144] for at in range(0, len(payload), 262_144))
    assert len(payload) < 1024 * 1024
    assert b"".join(pieces(chunks, ["br"], noted.append)) == page
    assert noted == []


DAMAGED = {
    "another method": ("gzip", changed(GZIP, 2)),
    "unknown flags": ("gzip", with_name(GZIP, flags=128)),
    "content": ("gzip", changed(GZIP, 10)),
    "a header of zlib": ("deflate", changed(ZLIB, 1)),
    "a dictionary": ("deflate", b"\x78\xbb" + ZLIB[2:]),
    "zlib as gzip": ("gzip", ZLIB),
    "gzip as zlib": ("deflate", GZIP),
    "data after empty Brotli": ("br", brotli.compress(b"") + PAGE),
    "a page as Brotli": ("br", PAGE),
}


@cases(("coding", "payload"), DAMAGED.values(), ids=DAMAGED)
def test_other_damage_is_not_taken_for_a_wrong_checksum(coding: str, payload: bytes) -> None:
    with pytest.raises(BadCoding):
        decoded(payload, coding)


def test_name_of_a_gzip_member_has_a_limit() -> None:
    noted: list[str] = []
    endless = chain([with_name(GZIP)[:20]], repeat(b"x" * 10_000))
    assert list(pieces(endless, ["gzip"], noted.append)) == []
    assert noted == ["unfinished"]
