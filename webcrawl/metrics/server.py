"""Serves the metrics of a process over HTTP in its event loop."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.metrics.exposition import Exposition

PATH = "/metrics"
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
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Begins to answer."""
        app = web.Application()
        app.router.add_get(PATH, self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listening).start()

    async def close(self) -> None:
        """Closes the socket and open connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._listening.close()

    async def _answer(self, request: web.Request) -> web.Response:
        metrics = await self._metrics(request.headers.get("Accept", ""))
        return web.Response(body=metrics.text, headers={"Content-Type": metrics.content_type})
