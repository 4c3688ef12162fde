"""Content codings (RFC 9110, section 8.4): an archived payload back to the body it stands for."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# A few kilobytes can unfold to gigabytes.
MAX_BODY = 1 << 28


def decoded(payload: bytes, content_encoding: str | None) -> bytes:
    """`payload` without its content codings, at most `MAX_BODY` bytes of it.

    `content_encoding` is the header's value, the last coding applied comes last. What cannot be decoded (an
    unknown coding, a body that is not what it says) is returned as it is; of a cut-off payload, what there
    is.
    """
    codings = [name.strip().lower() for name in (content_encoding or "").split(",")]
    for coding in reversed([name for name in codings if name not in {"", "identity"}]):
        decoder = _DECODERS.get(coding)
        if decoder is None:
            return payload
        try:
            payload = decoder(payload)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError):
            return payload
    return payload


def _gzip(payload: bytes) -> bytes:
    body = bytearray()
    while payload and len(body) < MAX_BODY:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            body += stream.decompress(payload, MAX_BODY - len(body))
        except zlib.error:
            if body:  # garbage after the last member, which browsers ignore too
                break
            raise
        payload = stream.unused_data
    return bytes(body)


def _deflate(payload: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(payload, MAX_BODY)
    except zlib.error:  # many servers send the bare stream without zlib's wrapper
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(payload, MAX_BODY)


def _brotli(payload: bytes) -> bytes:
    stream = brotli.Decompressor()
    body: bytes = stream.process(payload, output_buffer_limit=MAX_BODY)
    if (
        not body and not stream.is_finished()
    ):  # Brotli has no signature: what it waits for may never have begun
        raise EOFError
    return body[:MAX_BODY]


def _zstd(payload: bytes) -> bytes:
    return zstd.ZstdDecompressor().decompress(payload, MAX_BODY)


_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
