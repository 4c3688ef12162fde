"""Nobody holds the service up: heads are bounded in size, and slow readers lose their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from webcrawl.service.server import ServiceConnection
from webcrawl.web.server import Server, listening

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECE = b"a" * 1_000_000


class Sending:
    """An application that sends an answer of 100 MB, and notes whether it could."""

    def __init__(self) -> None:
        self.sent = 0
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.sent += len(PIECE)
        await send({"type": "http.response.body"})
        self.ended.set()

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving(app: Sending) -> AsyncIterator[int]:
    listener = listening("127.0.0.1", 0)
    served = Server(app, connection=ServiceConnection)
    running = asyncio.create_task(served.run(listener))
    yield listener.getsockname()[1]
    served.stop()
    await running


def test_a_client_that_reads_nothing_loses_its_connection_and_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ServiceConnection, "slow_seconds", 0.2)

    async def ask() -> int:
        app = Sending()
        async with serving(app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
            writer.write(ASK)
            # the application goes on without a client: uvicorn drops what it sends
            before = 0
            while not app.ended.is_set():
                before = before or app.sent
                await asyncio.sleep(0.05)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(100 * len(PIECE))
            writer.close()
            return before

    # what the application could send first is what the buffers of the sockets hold
    assert asyncio.run(ask()) < 50 * len(PIECE)


@pytest.mark.parametrize("more", [b"A: " + b"a" * 70_000, b"A: b\r\n" * 12_000], ids=["line", "lines"])
def test_a_head_that_does_not_end_is_refused(more: bytes) -> None:
    async def ask() -> bytes:
        async with serving(Sending()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK[:-2] + more)
            answer = b""
            with suppress(ConnectionResetError):
                answer = await reader.read(4_000)
            writer.close()
            return answer

    answer = asyncio.run(ask())
    assert answer.startswith(b"HTTP/1.1 400") and b"application/problem+json" in answer
