"""Decodes content codings (RFC 9110, section 8.4), one piece at a time."""

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

MAX_CODINGS = 5
"""As in curl. A longer chain of codings is an attack."""

MAX_BETWEEN = 16 * 1024 * 1024
"""The most bytes that a coding in a chain may pass on to the next coding."""


def codings(content_encoding: str | None) -> list[str]:
    """Returns the codings of a header value in the order in which they must be decoded."""
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    return [name for name in reversed(names) if name not in ("", "identity", "none")]


_GZIP = b"\x1f\x8b"
_ZSTD = (b"\xb5\x2f\xfd", b"\x2a\x4d\x18")
"""The bytes after the first byte of a frame, and of a skippable frame."""
_SIGNATURE_BYTES = 4


def pieces(
    payload: Iterable[bytes], names: Iterable[str], breaks_off: Callable[[], None] = lambda: None
) -> Pieces:
    """Yields a payload without these codings, at most `CHUNK` bytes at a time.

    If the payload is truncated or damaged, yields the part before the damage and calls `breaks_off`. Raises BadCoding
    if nothing can be decoded, or for more than `MAX_CODINGS` codings.
    """
    names = list(names)
    if len(names) > MAX_CODINGS:
        raise BadCoding(f"the payload has {len(names)} content codings, more than {MAX_CODINGS}")
    decoded: Pieces = iter(payload)
    for number, name in enumerate(names):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise BadCoding(f"content coding {name} is not supported")
        decoded = _until_broken(name, decoder(_bounded(decoded) if number else decoded), breaks_off)
    return decoded


def _bounded(pieces: Pieces) -> Pieces:
    """Yields the pieces that a coding passes on to the next coding; raises TruncatedCoding after `MAX_BETWEEN` bytes.

    A limit on the output of the last coding is not enough: gzip yields nothing for any number of empty members.
    """
    size = 0
    for piece in pieces:
        yield piece
        if (size := size + len(piece)) > MAX_BETWEEN:
            raise TruncatedCoding


def _until_broken(name: str, pieces: Pieces, breaks_off: Callable[[], None]) -> Pieces:
    """Yields the pieces before the first error; raises BadCoding if there are none."""
    begun = False
    try:
        for piece in pieces:
            begun = True
            yield piece
    except TruncatedCoding:
        breaks_off()
    except _BROKEN as error:
        if not begun:
            raise BadCoding(f"content coding {name} is broken: {error}") from error
        breaks_off()


def _gzip(payload: Pieces) -> Pieces:
    """Decodes all members; ignores data after the last member, as browsers do."""
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
    """Returns the data after a member: enough bytes to recognize another member, or all the rest."""
    while len(rest) < _SIGNATURE_BYTES and (more := next(payload, b"")):
        rest += more
    return rest


def _deflate(payload: Pieces) -> Pieces:
    """Decodes deflate with zlib's wrapper, as the standard says, or without it, as many servers send it."""
    head = _following(b"", payload)
    wrapped = len(head) > 1 and head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0
    stream = zlib_ng.decompressobj(zlib_ng.MAX_WBITS if wrapped else -zlib_ng.MAX_WBITS)
    yield from inflate(stream, chain((head,), payload))
    if head and not stream.eof:
        raise TruncatedCoding


def inflate(stream: zlib_ng._Decompress, payload: Iterable[bytes]) -> Pieces:
    """Yields the decompressed payload up to the end of `stream`, `CHUNK` bytes at a time; raises zlib_ng.error."""
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
    if not begun:  # Brotli has no signature: this may never have been Brotli
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
