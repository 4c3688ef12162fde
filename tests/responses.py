"""Responses as servers send them, and what a connection of the client makes of their bytes in any pieces."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from webcrawl.errors import BrokenTransfer, CrawlError
from webcrawl.http.connection import HTTPConnection, Rate

TOKENS = st.text("abcXYZ09-_!~", min_size=1, max_size=12).map(str.encode)
VALUES = st.binary(max_size=30).map(lambda value: value.translate(None, b"\r\n\0"))
CONTENTS = st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(gzip.compress))
FRAMING = (b"content-length", b"transfer-encoding", b"connection")
INTERIM = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")


class Sent(NamedTuple):
    """A response. `ends`: the end of the connection ends its body."""

    data: bytes
    head: bytes
    body: bytes
    ends: bool


@st.composite
def sent_responses(draw: st.DrawFn) -> Sent:
    """Draws valid responses with every framing, trailers, extensions of chunks, and interim responses before them."""
    fields = [
        (name, value.strip())
        for name, value in draw(st.lists(st.tuples(TOKENS, VALUES), max_size=5))
        if name.lower() not in FRAMING
    ]
    body = draw(CONTENTS)
    framing = draw(st.sampled_from(["length", "chunks", "end"]))
    payload = body
    if framing == "length":
        fields.append((b"Content-Length", b"%d" % len(body)))
    elif framing == "chunks":
        fields.append((b"Transfer-Encoding", draw(st.sampled_from([b"chunked", b"Chunked"]))))
        payload = draw(chunked(body))
    lines = [b"HTTP/1.1 200 OK", *(name + b": " + value for name, value in fields)]
    head = b"\r\n".join([*lines, b"", b""])
    interim = b"".join(draw(st.lists(st.sampled_from(INTERIM), max_size=3)))
    return Sent(interim + head + payload, head, body, ends=framing == "end")


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """Draws the same body in chunks."""
    cuts = sorted({0, len(body), *draw(st.lists(st.integers(0, len(body)), max_size=6))})
    extensions, trailers = (
        st.sampled_from([b"", b";a", b';a=b;c="d"']),
        st.sampled_from([b"", b"X-Sum: 1\r\n"]),
    )
    pieces = [
        b"%x%b\r\n%b\r\n" % (end - start, draw(extensions), body[start:end])
        for start, end in zip(cuts, cuts[1:], strict=False)
    ]
    return b"".join(pieces) + b"0\r\n" + draw(trailers) + b"\r\n"


@st.composite
def pieces_of(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Draws cuts of the data; one in four is a cut after each byte."""
    if draw(st.integers(0, 3)) == 0:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=8))})
    return [data[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]


class _Pipe(asyncio.Transport):
    """The transport of a connection to a server that has said everything."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Does nothing: the server does not listen."""

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """Does nothing: what was said has come."""


class Outcome(NamedTuple):
    """What became of a response: its head as sent, its body, the class of its failure, and if others may follow."""

    head: bytes | None
    body: bytes
    failure: type[Exception] | None
    is_reusable: bool


async def outcome_of(pieces: Sequence[bytes], *, method: str = "GET", ends: bool = True) -> Outcome:
    """Feeds the pieces to a connection, and ends it if the server `ends` it."""
    connection = HTTPConnection(asyncio.get_running_loop(), Rate())
    connection.connection_made(pipe := _Pipe())
    connection.send(method, b"")
    for piece in pieces:
        if not pipe.closed:
            connection.data_received(piece)
    is_reusable = connection.is_reusable
    if ends or pipe.closed:
        connection.connection_lost(None)
    head, body = None, b""
    try:
        head = (await connection.head()).sent
        async with asyncio.timeout(60):
            while piece := await connection.read():
                body += piece
    except (CrawlError, BrokenTransfer) as error:
        return Outcome(head, body, type(error), is_reusable)
    return Outcome(head, body, None, is_reusable)
