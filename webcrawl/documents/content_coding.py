"""Content codings (RFC 9110, section 8.4): from a payload to the body it stands for, piece by piece."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import brotli  # type: ignore[import-untyped]
from zlib_ng import zlib_ng

from webcrawl.documents.body import CHUNK
from webcrawl.errors import BadCoding, TruncatedCoding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Pieces: TypeAlias = Iterator[bytes]

MOST_CODINGS = 5
"""As many as curl takes off; who sends more wants to keep somebody busy."""


def codings(content_encoding: str | None) -> list[str]:
    """The codings of a header's value in the order in which they are to be taken off."""
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    return [name for name in reversed(names) if name not in ("", "identity", "none")]


_GZIP = b"\x1f\x8b"
_ZSTD = (b"\xb5\x2f\xfd", b"\x2a\x4d\x18")
"""Of frames, and of frames to be skipped, what follows their first byte."""
_SIGNATURE_BYTES = 4


def pieces(
    payload: Iterable[bytes], names: Iterable[str], breaks_off: Callable[[], None] = lambda: None
) -> Pieces:
    """`payload` without these codings, at most `CHUNK` bytes at a time.

    Of a payload that is cut off or breaks in the middle, what there is, and then `breaks_off` is called. Raises
    BadCoding when it cannot be begun, or is in more than `MOST_CODINGS`.
    """
    names = list(names)
    if len(names) > MOST_CODINGS:
        raise BadCoding(f"{len(names)} content codings are more than {MOST_CODINGS}")
    found: Pieces = iter(payload)
    for name in names:
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise BadCoding(f"content coding {name} is not known")
        found = _until_broken(name, decoder(found), breaks_off)
    return found


def _until_broken(name: str, found: Pieces, breaks_off: Callable[[], None]) -> Pieces:
    """What comes before the first error; BadCoding where that is nothing."""
    begun = False
    try:
        for piece in found:
            begun = True
            yield piece
    except TruncatedCoding:
        breaks_off()
    except _BROKEN as error:
        if not begun:
            raise BadCoding(f"content coding {name} is broken: {error}") from error
        breaks_off()


def _gzip(payload: Pieces) -> Pieces:
    """All members; what follows the last one is ignored, as browsers do."""
    head = next(payload, b"")
    while head:
        stream = zlib_ng.decompressobj(zlib_ng.MAX_WBITS | 16)
        yield from inflate(stream, chain((head,), payload))
        if not stream.eof:
            raise TruncatedCoding
        head = _following(stream.unused_data, payload)
        if not head.startswith(_GZIP):
            return


def _following(rest: bytes, payload: Pieces) -> bytes:
    """What comes after the end of a member: enough to tell whether it is one more, or all there is."""
    while len(rest) < _SIGNATURE_BYTES and (more := next(payload, b"")):
        rest += more
    return rest


def _deflate(payload: Pieces) -> Pieces:
    """With zlib's wrapper, as the standard says, or without it, as many servers send it."""
    head = _following(b"", payload)
    wrapped = len(head) > 1 and head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0
    stream = zlib_ng.decompressobj(zlib_ng.MAX_WBITS if wrapped else -zlib_ng.MAX_WBITS)
    yield from inflate(stream, chain((head,), payload))
    if head and not stream.eof:
        raise TruncatedCoding


def inflate(stream: zlib_ng._Decompress, payload: Iterable[bytes]) -> Pieces:
    """What `payload` unfolds to, at most `CHUNK` bytes at a time, up to the end of `stream`; raises zlib_ng.error."""
    for chunk in payload:
        while not stream.eof:
            piece = stream.decompress(chunk, CHUNK)
            if piece:
                yield piece
            chunk = stream.unconsumed_tail
            if not chunk and len(piece) < CHUNK:
                break
        if stream.eof:
            return


def _brotli(payload: Pieces) -> Pieces:
    stream = brotli.Decompressor()
    begun = False
    for chunk in payload:
        piece: bytes = stream.process(chunk, output_buffer_limit=CHUNK)
        while piece:
            begun = True
            yield piece
            piece = stream.process(b"", output_buffer_limit=CHUNK)
        if stream.is_finished():
            return
    if not begun:  # Brotli has no signature: what it waits for may never have begun
        raise EOFError("it ends before its first byte")
    raise TruncatedCoding


def _zstd(payload: Pieces) -> Pieces:
    head = next(payload, b"")
    while head:
        stream = zstd.ZstdDecompressor()
        for chunk in chain((head,), payload):
            while not stream.eof:
                if piece := stream.decompress(chunk, CHUNK):
                    yield piece
                chunk = b""
                if stream.needs_input:
                    break
            if stream.eof:
                break
        if not stream.eof:
            raise TruncatedCoding
        head = _following(stream.unused_data, payload)
        if head[1:_SIGNATURE_BYTES] not in _ZSTD:
            return


_BROKEN: Any = (zlib_ng.error, brotli.error, zstd.ZstdError, EOFError)
_DECODERS: dict[str, Callable[[Pieces], Pieces]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
