"""A server on a free port of 127.0.0.1 that cuts its open connections at the end."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Self


class Listener:
    """An async context manager; a subclass implements `_serve`, and keeps its open connections in `_open`."""

    tls: ssl.SSLContext | None = None
    port: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._open: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        raise NotImplementedError
