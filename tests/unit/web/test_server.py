"""Nobody holds the dashboard's server up: unfinished heads end, connections are bounded, failures are told once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import RequestResponseCycle
from uvicorn.server import ServerState

from webcrawl.web import server
from webcrawl.web.app import Dashboard
from webcrawl.web.server import Server, _Failures, listening

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CUT = WHOLE[:-20]


class Answering:
    """An application that answers each request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Serves, and yields the port."""
    listener = listening("127.0.0.1", 0)
    served = Server(cast(Dashboard, Answering()))
    running = asyncio.create_task(served.run(listener))
    yield listener.getsockname()[1]
    served.stop()
    await running


Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, data: bytes) -> Connected:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer  # without the writer, the connection closes


async def received(connection: Connected) -> bytes:
    """What the server sends until it ends the connection."""
    answer = b""
    with suppress(ConnectionResetError):
        while piece := await asyncio.wait_for(connection[0].read(1000), 30):
            answer += piece
    connection[1].close()
    return answer


def test_uvicorn_has_the_parts_that_connections_use() -> None:
    """They are not documented. If this fails with another version, `TimedHeads` has to be read beside its code."""

    async def made() -> server.DashboardConnection:
        return server.DashboardConnection(uvicorn.Config(Answering()), ServerState(), {})

    connection = asyncio.run(made())
    assert isinstance(connection.connections, set) and connection.cycle is None
    assert {"loop", "transport"} <= vars(connection).keys()
    assert "response_complete" in RequestResponseCycle.__init__.__code__.co_names


def test_an_unfinished_head_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.2)

    async def ask() -> list[bytes]:
        async with serving() as port:
            connections = [
                await connected(port, data) for data in (CUT, b"", WHOLE.replace(b"close", b"keep"))
            ]
            reader, writer = connections[-1]
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            writer.write(CUT)
            return [await received(each) for each in connections]

    assert asyncio.run(ask()) == [b"", b"", b""]


def test_connections_are_bounded_and_a_new_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.DashboardConnection, "most_connections", 3)

    async def ask() -> list[bytes]:
        async with serving() as port:
            waiting = [await connected(port, CUT) for _ in range(5)]
            answer = await received(await connected(port, WHOLE))
            return [answer, *[await received(each) for each in waiting[:2]]]

    answer, *oldest = asyncio.run(ask())
    assert answer.startswith(b"HTTP/1.1 204")
    assert oldest == [b"", b""]


def test_an_accept_that_fails_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    context = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(24, "Too many files"),
    }

    async def fail() -> None:
        failures, loop = _Failures(), asyncio.get_running_loop()
        for _ in range(100):
            failures(loop, context)
        failures(loop, {"message": "another"})

    with caplog.at_level(logging.ERROR):
        asyncio.run(fail())
    assert [record.message for record in caplog.records] == [
        "The server cannot accept connections: [Errno 24] Too many files",
        "another",
    ]
