"""gRPC over streams of HTTP/2: the head of a call, its messages, its deadline and its status.

As in gRPC's documents "gRPC over HTTP2" and "Compression".
"""

from __future__ import annotations

import asyncio
import logging
import re
import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from webcrawl.errors import CallRefused
from webcrawl.urlfrontier.http2 import Headers, HttpStream
from webcrawl.urlfrontier.messages import POOL, function_name

logger = logging.getLogger(__name__)


class GrpcStatus(IntEnum):
    """The statuses that calls end with."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


@dataclass(frozen=True, slots=True)
class RemoteMethod:
    """A method, its messages, and what answers it.

    `answer` gets a message, or with `streams_in` an iterator of lists of messages, those that came together. It returns
    an awaitable message, or with `streams_out` a generator of lists of messages. It may raise CallRefused.
    """

    answer: Callable[[Any], Any]
    request: Any
    streams_in: bool
    streams_out: bool


def methods(service: str, answers: object) -> dict[bytes, RemoteMethod]:
    """Returns the methods of a service by their paths, each answered by the function of its name.

    Raises AttributeError if `answers` lacks one.
    """
    return {
        f"/{service}/{method.name}".encode(): RemoteMethod(
            getattr(answers, function_name(method.name)),
            message_factory.GetMessageClass(method.input_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in POOL.FindServiceByName(service).methods
    }


_MOST_MESSAGE = 4 << 20
"""Bytes of a message, also of one that was compressed; gRPC's own default. Parsed, it may take 40 times as many."""
_MOST_AT_ONCE = 1 << 20
"""Bytes of messages that are parsed before the method takes them, and one message more."""
_LONGEST_SECONDS = 86_400 * 365.0
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_WINDOW_BITS = {b"identity": 0, b"": 0, b"gzip": 31, b"deflate": 15}
"""Coding of messages -> the argument of zlib, 0 for none."""
_PREFIX = struct.Struct(">BI")
_HEAD: Headers = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc+proto"),
    (b"grpc-accept-encoding", b"identity,deflate,gzip"),
]


class Calls:
    """Answers streams by the methods of services. `methods`: path, such as /package.Service/Method -> method."""

    def __init__(self, methods: Mapping[bytes, RemoteMethod]) -> None:
        self._methods = methods

    async def answer(self, stream: HttpStream) -> None:
        """Answers a stream, whatever its head is."""
        fields = dict(stream.headers)
        refusal = _http_refusal(fields)
        if refusal is not None:
            await stream.end([(b":status", refusal)])
            return
        call = _Call(stream)
        try:
            seconds = _seconds(fields)
        except CallRefused as error:
            await call.end(GrpcStatus(error.status), str(error))
            return
        try:
            # one timeout for all: the call may also wait for a client that does not read
            async with asyncio.timeout(seconds):
                await self._answer(call, fields)
        except TimeoutError:
            stream.waiting.clear()
            if stream.is_writable:
                await call.end(GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call is over")
            else:
                stream.reset()

    async def _answer(self, call: _Call, fields: Mapping[bytes, bytes]) -> None:
        status, text = GrpcStatus.OK, ""
        try:
            await call.run(self._method(fields), _window_bits(fields))
        except CallRefused as error:
            status, text = GrpcStatus(error.status), str(error)
        except Exception:
            logger.exception("The call %s failed", fields[b":path"].decode("latin-1"))
            status, text = GrpcStatus.UNKNOWN, "internal error; the log of the server has more"
        await call.end(status, text)

    def _method(self, fields: Mapping[bytes, bytes]) -> RemoteMethod:
        path = fields[b":path"]
        if path not in self._methods:
            raise CallRefused(GrpcStatus.UNIMPLEMENTED, f"no method {path.decode('latin-1')}")
        return self._methods[path]


class _Call:
    def __init__(self, stream: HttpStream) -> None:
        self._stream = stream
        self._begun = False

    async def run(self, method: RemoteMethod, window_bits: int) -> None:
        async with aclosing(_messages(self._stream, method.request, window_bits)) as requests:
            request = requests if method.streams_in else await _only(requests)
            if not method.streams_out:
                await self._send([await method.answer(request)])
                return
            async with aclosing(method.answer(request)) as parts:
                async for answers in parts:
                    await self._send(answers)

    async def end(self, status: GrpcStatus, text: str) -> None:
        trailers = [(b"grpc-status", b"%d" % status)]
        if text:
            trailers.append((b"grpc-message", _percent_encoded(text)))
        await self._stream.end(trailers if self._begun else [*_HEAD, *trailers])

    async def _send(self, answers: Iterable[Any]) -> None:
        if not self._begun:
            self._begun = True
            self._stream.begin(_HEAD)
        serialized = [answer.SerializeToString() for answer in answers]
        await self._stream.write(b"".join([_PREFIX.pack(0, len(text)) + text for text in serialized]))


async def _messages(stream: HttpStream, message: Any, window_bits: int) -> AsyncGenerator[list[Any]]:
    """Yields lists of messages: those that have arrived since the list before."""
    received = bytearray()
    while part := await stream.read():
        received += part
        messages, start, size = [], 0, 0
        while len(received) - start >= _PREFIX.size:
            is_compressed, length = _PREFIX.unpack_from(received, start)
            if length > _MOST_MESSAGE:
                raise CallRefused(
                    GrpcStatus.RESOURCE_EXHAUSTED,
                    f"a message has {length} bytes, but at most {_MOST_MESSAGE} are taken",
                )
            end = start + _PREFIX.size + length
            if end > len(received):
                break
            serialized = bytes(received[start + _PREFIX.size : end])
            if is_compressed:
                serialized = _decompressed(serialized, window_bits)
            messages.append(_parsed(serialized, message))
            start, size = end, size + len(serialized)
            if size > _MOST_AT_ONCE:
                del received[:start]
                yield messages
                messages, start, size = [], 0, 0
        del received[:start]
        if messages:
            yield messages
    if received:
        raise CallRefused(GrpcStatus.INTERNAL, "the stream ends amid a message")


async def _only(requests: AsyncIterator[list[Any]]) -> Any:
    messages: list[Any] = []
    async for some in requests:
        messages += some
        if len(messages) > 1:
            break
    if len(messages) != 1:
        came = "more" if messages else "none"
        raise CallRefused(GrpcStatus.INTERNAL, f"the method takes one message, but {came} came")
    return messages[0]


def _parsed(serialized: bytes, message: Any) -> Any:
    try:
        return message.FromString(serialized)
    except DecodeError as error:
        name = message.DESCRIPTOR.name
        raise CallRefused(
            GrpcStatus.INVALID_ARGUMENT, f"request: these bytes are not a message {name}"
        ) from error


def _decompressed(compressed: bytes, window_bits: int) -> bytes:
    if not window_bits:
        raise CallRefused(GrpcStatus.INTERNAL, "a message is compressed, but grpc-encoding does not say how")
    decompressor = zlib.decompressobj(window_bits)
    try:
        plain = decompressor.decompress(compressed, _MOST_MESSAGE + 1)
    except zlib.error as error:
        raise CallRefused(
            GrpcStatus.INTERNAL, f"a compressed message cannot be decompressed: {error}"
        ) from error
    if len(plain) > _MOST_MESSAGE:
        raise CallRefused(
            GrpcStatus.RESOURCE_EXHAUSTED, f"a compressed message has more than {_MOST_MESSAGE} bytes"
        )
    if not decompressor.eof:
        raise CallRefused(GrpcStatus.INTERNAL, "a compressed message ends too early")
    return plain


def _http_refusal(fields: Mapping[bytes, bytes]) -> bytes | None:
    """Returns the HTTP status for a request that is not one of gRPC."""
    if fields.get(b":method") != b"POST":
        return b"405"
    content_type = fields.get(b"content-type", b"").partition(b";")[0].strip()
    return None if content_type in (b"application/grpc", b"application/grpc+proto") else b"415"


def _seconds(fields: Mapping[bytes, bytes]) -> float | None:
    """Returns how long the call may take; None without a bound."""
    text = fields.get(b"grpc-timeout")
    if text is None:
        return None
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        # an expired deadline is no answer to a client that made a mistake
        raise CallRefused(GrpcStatus.INTERNAL, f"grpc-timeout {text.decode('latin-1')!r} is not a time")
    return min(int(match[1]) * _UNITS[match[2]], _LONGEST_SECONDS)


def _window_bits(fields: Mapping[bytes, bytes]) -> int:
    coding = fields.get(b"grpc-encoding", b"")
    if coding not in _WINDOW_BITS:
        raise CallRefused(
            GrpcStatus.UNIMPLEMENTED,
            f"grpc-encoding {coding.decode('latin-1')!r}: use identity, gzip or deflate",
        )
    return _WINDOW_BITS[coding]


def _percent_encoded(text: str) -> bytes:
    return b"".join(
        b"%c" % byte if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte for byte in text.encode()
    )
