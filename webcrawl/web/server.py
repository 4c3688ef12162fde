"""The HTTP server of the dashboard and of the API, in the event loop of its command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from webcrawl.errors import ConfigurationError

_LAST_SECONDS = 3
_BACKLOG = 128
_HEAD_SECONDS = 10.0
_ACCEPT_SECONDS = 60.0

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    _UvicornProtocol = H11Protocol
else:  # it stands before either protocol of uvicorn
    _UvicornProtocol = object


def listening(address: str, port: int) -> socket.socket:
    """Returns a listening socket; raises ConfigurationError."""
    try:
        ((family, _, _, _, socket_address), *_) = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.create_server(socket_address[:2], family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"--bind {address} --port {port}: cannot listen ({error})") from error
    # asyncio does not do it for sockets without a protocol number; an answer would wait 40 ms for the client's ACK
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


def _check(certificate: str, key: str | None) -> None:
    """Raises ConfigurationError unless the files contain a certificate and its private key."""
    for option, file in (("--certificate", certificate), ("--key", key)):
        try:
            if file:
                Path(file).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{option} {file}: {error.strerror}") from error

    def passphrase() -> str:
        # otherwise OpenSSL would ask for a passphrase at the terminal, also in a service
        raise ConfigurationError(
            f"--key {key or certificate}: the key has a passphrase, which nobody could type when the server starts "
            "again. Write it without one: openssl pkey -in KEY -out FILE"
        )

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as error:
        files = f"{certificate} --key {key}" if key else certificate
        raise ConfigurationError(
            f"--certificate {files}: no certificate with its private key as PEM ({error.reason or error})"
        ) from error


class TimedHeads(_UvicornProtocol):
    """Ends a connection of uvicorn if the head of a request is not complete in time.

    Above `most_connections`, or half of the file descriptors, the connection that has waited longest for a head ends.
    If none waits, the new connection ends.
    """

    most_connections = 500
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_head()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(self.connections) > min(self.most_connections, descriptors // 2):
            waiting = [each for each in self.connections if isinstance(each, TimedHeads) and each._limit]
            min(waiting, key=TimedHeads.due).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_time()
        super().connection_lost(exc)

    def due(self) -> float:
        """Returns when the connection ends."""
        return self._limit.when() if self._limit else math.inf

    def _time_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_time()
        elif self._limit is None:
            self._limit = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def _stop_time(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class DashboardConnection(TimedHeads, H11Protocol):
    """A connection to the dashboard."""


class _Failures:
    """Handles errors of an event loop: one line a minute for connections that cannot be accepted.

    Python calls the handler for each place in the backlog, with a traceback, while a process has no descriptor left.
    """

    def __init__(self) -> None:
        self._silent_until = -math.inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _ACCEPT_SECONDS
            logger.error("The server cannot accept connections: %s", context.get("exception"))


class ClosingApp(Protocol):
    """An ASGI application whose `close` ends the answers for which a server would wait when it stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def close(self) -> None: ...


class Server(uvicorn.Server):
    """Serves a dashboard or the API until `stop`."""

    def __init__(
        self,
        app: ClosingApp,
        certificate: str | None = None,
        key: str | None = None,
        connection: type[asyncio.Protocol] = DashboardConnection,
    ) -> None:
        """Raises ConfigurationError for files that cannot be used."""
        if certificate:
            _check(certificate, key)
        self._app = app
        config = uvicorn.Config(
            app,
            http=connection,
            backlog=_BACKLOG,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # accepts the header of a proxy on this machine that tells whether the browser used HTTPS
            proxy_headers=True,
            forwarded_allow_ips=["127.0.0.1", "::1"],
            timeout_graceful_shutdown=_LAST_SECONDS,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        super().__init__(config)

    def url(self, listener: socket.socket) -> str:
        """Returns the address for a browser."""
        host, port = listener.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"

    async def run(self, listener: socket.socket) -> None:  # type: ignore[override]
        """Serves until `stop`."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(_Failures())
        try:
            await self.serve([listener])
        finally:
            loop.set_exception_handler(before)

    def stop(self) -> None:
        """Ends `run` after the open requests have been answered; a second call does not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the handling of signals to the command."""
        yield
