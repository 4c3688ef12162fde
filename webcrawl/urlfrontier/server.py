"""The server of the protocol, with TLS and the services for health and reflection."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError
from webcrawl.urlfrontier.calls import Calls, methods
from webcrawl.urlfrontier.health import Health
from webcrawl.urlfrontier.http2 import HttpConnection
from webcrawl.urlfrontier.messages import HEALTH, REFLECTIONS, SERVICE
from webcrawl.urlfrontier.queues import ClientQueues
from webcrawl.urlfrontier.reflection import Reflection
from webcrawl.urlfrontier.service import FrontierService

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 5.0
_ANNOUNCE_SECONDS = 5.0
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files for TLS. With `clients`, a client needs a certificate that this authority has signed."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Reads the files; raises ConfigurationError."""
        files = [self.certificate, self.key, *([self.clients] if self.clients else [])]
        for file in files:
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigurationError(f"cannot read {error.filename}: {error.strerror}") from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2"])
        try:
            # an empty password, because OpenSSL would ask for that of an encrypted key at the terminal
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"{self.certificate} and {self.key} are not a certificate and its private key without a password "
                f"(PEM): {error}"
            ) from error
        if self.clients is not None:
            try:
                context.load_verify_locations(self.clients)
            except ssl.SSLError as error:
                raise ConfigurationError(f"{self.clients} has no certificate (PEM): {error}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class FrontierServer:
    """Serves the queues of an engine at one address."""

    def __init__(self, queues: ClientQueues, address: str, certificates: Certificates | None = None) -> None:
        """`address`: host and port; port 0 takes a free one. Raises ConfigurationError if it cannot listen there."""
        self._queues = queues
        self._context = certificates.context() if certificates else None
        names = (SERVICE, HEALTH, *(f"{package}.ServerReflection" for package in REFLECTIONS))
        self._health = Health(names)
        self._calls = Calls(
            methods(SERVICE, FrontierService(queues))
            | methods(HEALTH, self._health)
            | {
                path: method
                for package in REFLECTIONS
                for path, method in methods(f"{package}.ServerReflection", Reflection(package, names)).items()
            }
        )
        host, _, port = address.rpartition(":")
        self._socket = _listening(host, int(port), address)
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._connections: set[HttpConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to serve."""
        await self._queues.announce(self.address, 3 * _ANNOUNCE_SECONDS)
        self._server = await asyncio.get_running_loop().create_server(
            self._connect, sock=self._socket, ssl=self._context, backlog=_BACKLOG
        )
        self._health.set(serving=True)
        self._announcing = asyncio.create_task(self._announce())

    async def stop(self) -> None:
        """Lets calls end for some seconds, then ends them. What a client was not told, it sends again."""
        self._health.end()
        if self._announcing is not None:
            self._announcing.cancel()
        with suppress(*UNAVAILABLE):
            await self._queues.retire(self.address)
        if self._server is not None:
            self._server.close()
        self._socket.close()
        for connection in list(self._connections):
            connection.say_goodbye()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                for connection in list(self._connections):
                    await connection.closed.wait()
        for connection in list(self._connections):
            connection.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connect(self) -> HttpConnection:
        return HttpConnection(self._calls.answer, self._connections, self._tasks)

    async def _announce(self) -> None:
        """Says again and again that this server runs, and whether the engine answers."""
        while True:
            await asyncio.sleep(_ANNOUNCE_SECONDS)
            serving = True
            try:
                await self._queues.announce(self.address, 3 * _ANNOUNCE_SECONDS)
            except UNAVAILABLE as error:
                logger.warning("The engine does not answer: %s", error)
                serving = False
            self._health.set(serving=serving)


def _listening(host: str, port: int, address: str) -> socket.socket:
    """Returns a socket that is bound; raises ConfigurationError."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(f"cannot listen at {address}: {error.strerror}") from error
    # its connections have it too: a client that went away without a word is noticed some day
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return listening
