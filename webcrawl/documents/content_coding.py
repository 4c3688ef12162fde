"""Decodes content codings (RFC 9110, section 8.4), one piece at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, TypeAlias

import brotli  # type: ignore[import-untyped]
from xxhash import xxh64
from zlib_ng import zlib_ng

from webcrawl.documents.body import CHUNK
from webcrawl.errors import BadCoding, TruncatedCoding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Pieces: TypeAlias = Iterator[bytes]
Flaw: TypeAlias = Literal["unfinished", "bad_checksum"]
"""What is wrong with a payload whose content is kept: it ends early, or its checksum or length is another one."""
Note: TypeAlias = Callable[[Flaw], object]

MAX_CODINGS = 5
"""As in curl. A longer chain of codings is an attack."""

MAX_BETWEEN = 16 * 1024 * 1024
"""The most bytes that a coding in a chain may pass on to the next coding."""


def codings(content_encoding: str | None) -> list[str]:
    """Returns the codings of a header value in the order in which they must be decoded."""
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    return [name for name in reversed(names) if name not in ("", "identity", "none")]


_GZIP = b"\x1f\x8b"
_SHORT_HEADER = b"\x1f\x8b\x08\0"
"""The start of a gzip header without optional fields, which servers send; it has ten bytes."""
_ZSTD_FRAME, _ZSTD_SKIPPABLE = b"\xb5\x2f\xfd", b"\x2a\x4d\x18"
"""The bytes after the first byte of a frame, and of a skippable frame."""
_ZSTD_HEAD_BYTES, _ZSTD_CHECKSUM = 5, 4
"""The signature of a frame and its descriptor, whose flag says that a checksum follows (RFC 8878, section 3.1.1)."""
_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): 23}
"""A window of 8 MiB is the largest that a response may need (RFC 9659); zstd itself would take 128 MiB."""
_SIGNATURE_BYTES = 4
_LONGEST_GZIP_HEADER = 256 * 1024
_HEADER_CRC, _EXTRA, _NAME, _COMMENT, _RESERVED = 2, 4, 8, 16, 0xE0
"""Flags in the header of a gzip member (RFC 1952, section 2.3.1)."""
_DICTIONARY = 32
"""Flag in the header of zlib (RFC 1950, section 2.2)."""
_MOST_BROTLI_AGAIN = 1024 * 1024
"""The longest Brotli, with the data after it, that is read again to find its end."""


def pieces(payload: Iterable[bytes], names: Iterable[str], note: Note = lambda flaw: None) -> Pieces:
    """Yields a payload without these codings, at most `CHUNK` bytes at a time.

    If the payload is truncated or damaged, yields the part before the damage and notes that it is unfinished. As in
    browsers, content whose checksum is wrong is kept, and the wrong checksum noted. Raises BadCoding if nothing can be
    decoded, or for more than `MAX_CODINGS` codings.
    """
    names = list(names)
    if len(names) > MAX_CODINGS:
        raise BadCoding(f"the payload has {len(names)} content codings, more than {MAX_CODINGS}")
    decoded: Pieces = iter(payload)
    for number, name in enumerate(names):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise BadCoding(f"content coding {name} is not supported")
        decoded = _until_broken(name, decoder(_bounded(decoded) if number else decoded, note), note)
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


def _until_broken(name: str, pieces: Pieces, note: Note) -> Pieces:
    """Yields the pieces before the first error; raises BadCoding if there are none."""
    begun = False
    try:
        for piece in pieces:
            begun = True
            yield piece
    except TruncatedCoding:
        note("unfinished")
    except _BROKEN as error:
        if not begun:
            raise BadCoding(f"content coding {name} is broken: {error}") from error
        note("unfinished")


def _gzip(payload: Pieces, note: Note) -> Pieces:
    """Decodes all members; ignores data after the last member, as browsers do."""
    head = next(payload, b"")
    while head:
        content = _after_gzip_header(head, payload, note)
        crc, size, rest = yield from _deflated(content, payload, zlib_ng.crc32, 0)
        trailer = (crc | (size & 0xFFFFFFFF) << 32).to_bytes(8, "little")
        head = _after_trailer(trailer, rest, payload, note)
        # zeros may follow a member, as in files that were on tape
        while not (head := head.lstrip(b"\0")) and (head := next(payload, b"")):
            pass
        head = _at_least(_SIGNATURE_BYTES, head, payload)
        if not head.startswith(_GZIP):
            return


def _after_gzip_header(head: bytes, payload: Pieces, note: Note) -> bytes:
    """Returns the data after the header of a member that begins with `head`; raises BadCoding."""
    if len(head) > 10 and head.startswith(_SHORT_HEADER):
        return head[10:]
    while (end := _gzip_header_end(head)) > len(head) or not end:
        more = next(payload, b"")
        if not more or len(head) > _LONGEST_GZIP_HEADER:
            raise TruncatedCoding
        head += more
    if head[3] & _HEADER_CRC:
        crc = zlib_ng.crc32(head[: end - 2]) & 0xFFFF
        if head[end - 2 : end] != crc.to_bytes(2, "little"):
            note("bad_checksum")
    return head[end:]


def _gzip_header_end(head: bytes) -> int:
    """Returns the length of the header of a member, or 0 if more bytes must be known; raises BadCoding."""
    if not (_GZIP + b"\x08").startswith(head[:3]):
        raise BadCoding("incorrect header check")
    flags, end = head[3] if len(head) > 3 else 0, 10
    if flags & _RESERVED:
        raise BadCoding("unknown header flags set")
    if len(head) < 12:
        return 0
    if flags & _EXTRA:
        end += 2 + int.from_bytes(head[10:12], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag and not (end := head.find(b"\0", end) + 1):
            return 0
    return end + 2 if flags & _HEADER_CRC else end


def _deflate(payload: Pieces, note: Note) -> Pieces:
    """Decodes deflate with zlib's wrapper, as the standard says, or without it, as many servers send it."""
    head = _at_least(_SIGNATURE_BYTES, b"", payload)
    if not head:
        return
    wrapped = len(head) > 1 and head[0] & 0x8F == 8 and (head[0] << 8 | head[1]) % 31 == 0
    if not wrapped:
        yield from _deflated(head, payload, lambda piece, value: value, 0)
        return
    if head[1] & _DICTIONARY:
        raise BadCoding("a dictionary is needed")
    adler, _, rest = yield from _deflated(head[2:], payload, zlib_ng.adler32, 1)
    _after_trailer(adler.to_bytes(4, "big"), rest, payload, note)


def _deflated(
    data: bytes, payload: Pieces, add: Callable[[bytes, int], int], checksum: int
) -> Generator[bytes, None, tuple[int, int, bytes]]:
    """Yields deflated content without header and trailer, at most `CHUNK` bytes at a time.

    Returns its checksum, its length in bytes and the data after it that was read. zlib itself does not pass on the end
    of content whose checksum is wrong.
    """
    stream = zlib_ng.decompressobj(-zlib_ng.MAX_WBITS)
    size = 0
    for piece in inflate(stream, chain((data,), payload)):
        checksum = add(piece, checksum)
        size += len(piece)
        yield piece
    if not stream.eof:
        raise TruncatedCoding
    return checksum, size, stream.unused_data


def _after_trailer(trailer: bytes, rest: bytes, payload: Pieces, note: Note) -> bytes:
    """Returns the data after a trailer, and notes if `trailer` is not what it should be."""
    rest = _at_least(len(trailer), rest, payload)
    if not rest.startswith(trailer):
        if len(rest) < len(trailer):
            raise TruncatedCoding
        note("bad_checksum")
    return rest[len(trailer) :]


def _at_least(size: int, data: bytes, payload: Pieces) -> bytes:
    """Returns `data` with as much of the payload as is needed for so many bytes, or with all of it."""
    while len(data) < size and (more := next(payload, b"")):
        data += more
    return data


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


def _brotli(payload: Pieces, note: Note) -> Pieces:
    """Decodes Brotli; ignores data after its end, as browsers do, if it ends within `_MOST_BROTLI_AGAIN` bytes."""
    stream, size, read = brotli.Decompressor(), 0, bytearray()
    for chunk in payload:
        if len(read) <= _MOST_BROTLI_AGAIN:
            read += chunk
        try:
            for piece in _unbrotlied(stream, chunk):
                size += len(piece)
                yield piece
        except brotli.error:
            # the decoder does not pass on content that came with data after its end
            if len(read) > _MOST_BROTLI_AGAIN or not (end := _end_of_brotli(read)):
                raise
            yield from _without_start(_unbrotlied(brotli.Decompressor(), bytes(read[:end])), size)
            return
        if stream.is_finished():
            return
    if not size:  # Brotli has no signature: this may never have been Brotli
        raise EOFError("it ends before its first byte")
    raise TruncatedCoding


def _unbrotlied(stream: Any, chunk: bytes) -> Pieces:
    """Yields the content of a chunk of Brotli, at most `CHUNK` bytes at a time."""
    while piece := stream.process(chunk, output_buffer_limit=CHUNK):
        yield piece
        chunk = b""


def _end_of_brotli(data: bytes | bytearray) -> int:
    """Returns the length of the Brotli stream at the start of `data`, or 0 if it is broken, or has no content.

    Reads the stream again in ever smaller steps, because the decoder does not say where it ends.
    """
    start = step = 0
    end = len(data)
    while step != 1:
        step = max(1, (end - start) // 32)
        stream = brotli.Decompressor()
        size = _size(_unbrotlied(stream, bytes(data[:start])))
        for begin in range(start, end, step):
            start, end = begin, begin + step
            try:
                size += _size(_unbrotlied(stream, bytes(data[start:end])))
            except brotli.error:
                break
            if stream.is_finished():
                return end if size else 0
    return 0


def _size(pieces: Pieces) -> int:
    return sum(map(len, pieces))


def _without_start(pieces: Pieces, size: int) -> Pieces:
    """Yields the pieces without their first `size` bytes."""
    for piece in pieces:
        if len(piece) > size:
            yield piece[size:]
        size = max(0, size - len(piece))


def _zstd(payload: Pieces, note: Note) -> Pieces:
    """Decodes all frames; ignores data after the last frame.

    The checksum is computed here, because the decoder does not pass on the end of content whose checksum is wrong.
    """
    head = _at_least(_ZSTD_HEAD_BYTES, b"", payload)
    while head:
        is_frame = len(head) >= _ZSTD_HEAD_BYTES and head[1:_SIGNATURE_BYTES] == _ZSTD_FRAME
        is_checked = is_frame and head[4] & _ZSTD_CHECKSUM != 0
        if is_checked:
            head = head[:4] + bytes((head[4] ^ _ZSTD_CHECKSUM,)) + head[5:]
        stream, checksum = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), xxh64()
        for chunk in chain((head,), payload):
            for piece in _decompressed(stream, chunk):
                if is_checked:
                    checksum.update(piece)
                yield piece
            if stream.eof:
                break
        if not stream.eof:
            raise TruncatedCoding
        head = stream.unused_data
        if is_checked:
            trailer = (checksum.intdigest() & 0xFFFFFFFF).to_bytes(4, "little")
            head = _after_trailer(trailer, head, payload, note)
        head = _at_least(_ZSTD_HEAD_BYTES, head, payload)
        if head[1:_SIGNATURE_BYTES] not in (_ZSTD_FRAME, _ZSTD_SKIPPABLE):
            return


def _decompressed(stream: Any, chunk: bytes) -> Pieces:
    """Yields the content of a chunk of a zstd frame, at most `CHUNK` bytes at a time."""
    while not stream.eof:
        if piece := stream.decompress(chunk, CHUNK):
            yield piece
        chunk = b""
        if stream.needs_input:
            return


_BROKEN: Any = (BadCoding, zlib_ng.error, brotli.error, zstd.ZstdError, EOFError)
_DECODERS: dict[str, Callable[[Pieces, Note], Pieces]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
