"""TLS servers that send much besides content: tickets, records of one byte, messages before the handshake ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest
import uvloop
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadFailedError

from tests.downloads import Client
from tests.tls13 import (
    DATA,
    HANDSHAKE,
    TICKET,
    Identity,
    asked,
    greet,
    one_byte_records,
    tickets,
)

Say: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Identity], Awaitable[None]]
Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
TRUSTING = {"DOWNLOAD_VERIFY_CERTIFICATES": False, "DOWNLOAD_TIMEOUT": 60}
loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@asynccontextmanager
async def speaking(say: Say) -> AsyncIterator[str]:
    """Runs a server; yields its URL."""
    identity = Identity.made()

    async def converse(reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            await say(reader, stream, identity)
        stream.close()

    async with await asyncio.start_server(converse, "127.0.0.1", 0) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def page(*pieces: bytes) -> Say:
    """Sends some tickets, and answers with a page in records of these bytes."""

    async def say(reader: asyncio.StreamReader, stream: asyncio.StreamWriter, identity: Identity) -> None:
        to_client = await greet(reader, stream, identity)
        await asked(reader)
        size = sum(map(len, pieces))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % size
        stream.write(to_client.record(TICKET * 4, HANDSHAKE) + to_client.record(head, DATA))
        for piece in pieces:
            stream.write(to_client.record(piece, DATA))
        await stream.drain()
        await reader.read()

    return say


@loops
def test_tickets_without_end_end_the_connection(run: Run) -> None:
    async def check() -> None:
        async with speaking(tickets) as url, Client(**TRUSTING) as client:
            with pytest.raises(
                (DownloadConnectionRefusedError, DownloadFailedError), match=r"sends \d+,\d+ bytes of TLS"
            ):
                await client.get(url)

    run(check())


@loops
def test_a_body_in_records_of_one_byte_is_cut(run: Run) -> None:
    async def check() -> None:
        async with speaking(one_byte_records) as url, Client(**TRUSTING) as client:
            response = await client.get(url)
            assert 1_000 < len(response.body) < 10_000
            assert response.flags == ["dataloss"]

    run(check())


@loops
@pytest.mark.parametrize("size", [20, 1_400, 16_000])
def test_a_body_in_small_records_is_complete(size: int, run: Run) -> None:
    """It comes after some tickets, which most servers send."""

    async def check() -> None:
        pieces = [b"%d " % number * (size // 2) for number in range(10)]
        pieces = [piece[:size] for piece in pieces] * (1_000_000 // size // 10)
        async with speaking(page(*pieces)) as url, Client(**TRUSTING) as client:
            response = await client.get(url)
            assert response.body == b"".join(pieces) and response.flags == []

    run(check())


@loops
def test_messages_before_the_handshake_ends_are_bounded(run: Run) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, stream: asyncio.StreamWriter, identity: Identity) -> None:
        nonlocal sent
        await reader.read(1)
        # an incomplete message of the handshake, which would have 16 MB
        stream.write(b"\x16\x03\x03\x40\x00\x02\xff\xff\xff" + bytes(16_380))
        while True:
            stream.write(b"\x16\x03\x03\x40\x00" + bytes(16_384))
            await stream.drain()
            sent += 16_384

    async def check() -> None:
        async with speaking(flood) as url, Client(**TRUSTING) as client:
            with pytest.raises((DownloadConnectionRefusedError, DownloadFailedError)):
                await client.get(url)

    run(check())
    assert sent < 16_000_000
