"""Serves the metrics of a process over HTTP in its event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.metrics.exposition import Exposition

logger = logging.getLogger(__name__)

PATH = "/metrics"
_HEAD_SECONDS = 10.0
"""The longest wait for the head of a request."""
_CLOSE_SECONDS = 1.0
"""How long the end of a crawl waits for a response in progress."""


def listen(name: str, host: str, port: int) -> socket.socket:
    """Returns a bound socket for a server; raises ConfigurationError, which begins with `name`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        # Python appends the address
        why = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise ConfigurationError(f"{name}: cannot serve metrics at {host} port {port}: {why}") from error


class MetricsServer:
    """Answers GET /metrics with the result of `metrics` for the `Accept` header."""

    def __init__(self, listening: socket.socket, metrics: Callable[[str], Awaitable[Exposition]]) -> None:
        self._listening = listening
        self._metrics = metrics
        host, port = listening.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        """The URL of the metrics."""
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begins to answer."""
        self._server = await asyncio.start_server(self._serve, sock=self._listening)

    async def close(self) -> None:
        """Closes the socket and open connections."""
        if self._server is not None:
            self._server.close()
        if self._answering:
            _, late = await asyncio.wait(self._answering, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
        self._listening.close()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.add(task := asyncio.ensure_future(self._answer(reader, writer)))
        task.add_done_callback(self._answering.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the request of a connection, and closes it."""
        try:
            with suppress(OSError, EOFError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._response(head.decode("latin-1")))
                await writer.drain()
        finally:
            writer.close()

    async def _response(self, head: str) -> bytes:
        line, *lines = head.splitlines()
        method, target, *_ = [*line.split(" "), ""]
        if target.partition("?")[0] != PATH:
            return _written(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _written(HTTPStatus.METHOD_NOT_ALLOWED)
        fields = (line.partition(":") for line in lines)
        accept = ", ".join(value.strip() for name, _, value in fields if name.lower() == "accept")
        try:
            metrics = await self._metrics(accept)
        except Exception:
            logger.exception("Cannot collect the metrics")
            return _written(HTTPStatus.INTERNAL_SERVER_ERROR)
        written = _written(HTTPStatus.OK, metrics.text, metrics.content_type)
        return written if method == "GET" else written.removesuffix(metrics.text)


def _written(status: HTTPStatus, body: bytes = b"", content_type: str = "text/plain") -> bytes:
    lines = [f"HTTP/1.1 {status} {status.phrase}", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
