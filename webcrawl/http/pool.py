"""Opens connections to servers, directly or through a proxy, and keeps them for the next request to the same server."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias, cast

from cachetools import LRUCache

from webcrawl.errors import CrawlError, HandshakeFailed, NotConnected, TunnelRefused
from webcrawl.http.bodies import is_tunnel
from webcrawl.http.connection import BodyReadAhead, HTTPConnection, Rate
from webcrawl.http.requests import SOCKS_VERSIONS, Origin, head_of
from webcrawl.http.tls import encrypt

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses to try for a host and port, in order; raises an exception to refuse the connection."""

Bind: TypeAlias = Callable[[str, str], tuple[str, int] | None]
"""Returns the local address and port for a connection to an address of a host, in the order (host, address); None if
the system may choose. Raises OSError if there is none."""
MOST_FURTHER = 64
"""Sockets of all requests, not counting each first attempt: names that do not answer must not take all open files."""
_NEXT_SECONDS = 0.25
"""The time after which the next address is tried while earlier attempts go on (RFC 8305)."""
# most servers keep a connection for longer; a request that is sent while the server closes it is lost
_KEEPALIVE_SECONDS = 4.0
_MOST_CLOSED, _MOST_CLOSING = 2, 10_000
"""Kept connections in a row that a server may close at their next request; servers that have done so."""
_PROXY_SECONDS = 10.0
"""The longest wait for a proxy to connect."""
_NO_LIMIT = 1e6
"""Seconds: requests have limits of their own."""
SOCKS_FAULTS = (None, 2, 7, 92, 93)
"""Codes of SOCKS for which the proxy is left out: none (it speaks another protocol, refuses the login, or closes the
connection), not allowed, no such command, and of version 4 the failures of identd."""
_NOT_SENT = "SOCKS takes users and passwords of up to 255 ASCII characters"


class Way(NamedTuple):
    """How a request reaches its server: directly, or through a proxy."""

    server: Origin
    proxy: Origin | None = None

    @property
    def is_tunnelled(self) -> bool:
        """Whether the proxy passes on bytes that it cannot read."""
        return self.proxy is not None and (self.server.is_encrypted or self.proxy.is_socks)


class Pool:
    """The connections of a client. `further`: attempts to connect that are not the first of a request."""

    def __init__(
        self,
        resolve: Resolve,
        make_context: Callable[[], ssl.SSLContext],
        bind: Bind = lambda host, address: None,
        proxy_resolve: Resolve | None = None,
        unconfirmed_seconds: float = 0.0,
    ) -> None:
        """`unconfirmed_seconds`: how long the system sends a request again that no server confirms; 0: as it is set."""
        self.further = 0
        self._unconfirmed_ms = int(1000 * unconfirmed_seconds)
        self._resolve = resolve
        self._proxy_resolve = proxy_resolve or resolve
        self._make_context = make_context
        self._bind = bind
        self._rate = Rate()
        self._ahead = BodyReadAhead()
        self._idle: dict[Way, list[HTTPConnection]] = {}
        self._open: set[HTTPConnection] = set()
        self._closed: LRUCache[Way, int] = LRUCache(_MOST_CLOSING)
        """How many kept connections in a row a server has closed at their next request."""

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Made for the first server with TLS: to read the certificates of a system takes 20 ms."""
        return self._make_context()

    async def take(self, way: Way) -> HTTPConnection:
        """Returns a kept connection, or opens one; raises NotConnected, TunnelRefused, and what `Resolve` raises."""
        while idle := self._idle.get(way):
            connection = idle.pop()
            if connection.idle_timer is not None:
                connection.idle_timer.cancel()
            if connection.is_open:
                return connection
            self._forget(way, connection)
        connection = await self._connect(way)
        self._open.add(connection)
        return connection

    def give(self, way: Way, connection: HTTPConnection) -> None:
        """Keeps a connection for another request if that is possible, and closes it otherwise."""
        if not connection.is_reusable or (self._closed and not self._keeps(way, connection)):
            self._forget(way, connection)
            return
        self._idle.setdefault(way, []).append(connection)
        loop = asyncio.get_running_loop()
        connection.idle_timer = loop.call_later(_KEEPALIVE_SECONDS, self._forget, way, connection)

    def note_closed(self, way: Way) -> None:
        """Notes that a server has closed a kept connection at its next request; the second time, none is kept any more.

        Some servers promise to keep connections and close each at its second request, which is lost.
        """
        self._closed[way] = self._closed.get(way, 0) + 1

    def _keeps(self, way: Way, connection: HTTPConnection) -> bool:
        """Returns whether a server has not closed kept connections too often; forgets this when it answers over one."""
        if connection.requests > 1:
            self._closed.pop(way, None)
        return self._closed.get(way, 0) < _MOST_CLOSED

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._open:
            if connection.idle_timer is not None:
                connection.idle_timer.cancel()
            connection.abort()
        self._open.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # sockets are closed in the next turn of the loop

    def _forget(self, way: Way, connection: HTTPConnection) -> None:
        connection.leave()
        self._open.discard(connection)
        if (idle := self._idle.get(way)) is not None:
            if connection in idle:
                idle.remove(connection)
            if not idle:
                del self._idle[way]

    async def _connect(self, way: Way) -> HTTPConnection:
        if way.proxy is None:
            return await self._connect_to(way.server, self._resolve)
        if way.proxy.is_socks:
            return await self._connect_by_socks(way.server, way.proxy)
        async with _reaching(way.proxy):
            connection = await self._connect_to(way.proxy, self._proxy_resolve)
        if way.is_tunnelled:
            await self._tunnel(connection, way.server, way.proxy)
        return connection

    async def _tunnel(self, connection: HTTPConnection, server: Origin, proxy: Origin) -> None:
        fields = [(b"Proxy-Authorization", proxy.credentials)] if proxy.credentials else []
        try:
            connection.send(
                "CONNECT", head_of(b"CONNECT", server.authority, server._replace(login=None), fields, 0)
            )
            head = await connection.head()
            if not is_tunnel(head.status):
                # a status of 5xx means that the proxy cannot reach the host
                is_proxy = head.status < HTTPStatus.INTERNAL_SERVER_ERROR
                raise TunnelRefused(f"the proxy answers {head.status} to CONNECT", is_proxy=is_proxy)
        except BaseException:
            connection.abort()
            raise
        await self._encrypt(connection, server)
        connection.requests = 0

    async def _connect_by_socks(self, server: Origin, proxy: Origin) -> HTTPConnection:
        """Connects to a server by its name, or to the first of its addresses that the proxy reaches."""
        hosts = [server.host] if proxy.resolves_names else await self._resolve(server.host, server.port)
        failure: CrawlError = NotConnected(server.host, server.port, "no address that the proxy can reach")
        for host in hosts:
            if ":" in host and SOCKS_VERSIONS[proxy.scheme] == 4:  # which has no IPv6
                continue
            async with _reaching(proxy):
                opened = await self._socket_of(proxy)
            try:
                await _pass_through(opened, proxy, host, server.port)
                connection = await self._connection_over(opened)
            except TunnelRefused as error:
                if error.is_proxy:
                    raise
                failure = error
            else:
                if server.is_encrypted:
                    await self._encrypt(connection, server)
                return connection
        raise failure

    async def _socket_of(self, proxy: Origin) -> socket.socket:
        try:
            addresses = list(await self._proxy_resolve(proxy.host, proxy.port))
            return await self._open_socket(addresses, proxy.host, proxy.port)
        except OSError as error:
            raise NotConnected(proxy.host, proxy.port, _reason(error)) from error

    async def _connect_to(self, server: Origin, resolve: Resolve) -> HTTPConnection:
        """Connects to the first address that accepts; raises NotConnected."""
        untried = list(await resolve(server.host, server.port))
        failure: NotConnected | None = None
        while untried:
            try:
                connection = await self._connection_over(
                    await self._open_socket(untried, server.host, server.port)
                )
            except OSError as error:
                raise NotConnected(server.host, server.port, _reason(error)) from error
            if not server.is_encrypted:
                return connection
            try:
                await self._encrypt(connection, server)
            except NotConnected as error:
                failure = error
            else:
                return connection
        raise failure or NotConnected(server.host, server.port, "no address")

    async def _encrypt(self, connection: HTTPConnection, server: Origin) -> None:
        """Begins TLS; if that fails, `encrypt` has closed the connection."""
        try:
            await encrypt(connection, self._context, server.host.rstrip("."))
        except TimeoutError:
            raise
        except OSError as error:
            kind = HandshakeFailed if isinstance(error, ssl.SSLError) else NotConnected
            raise kind(server.host, server.port, _reason(error)) from error

    async def _connection_over(self, opened: socket.socket) -> HTTPConnection:
        loop = asyncio.get_running_loop()
        connection = HTTPConnection(loop, self._rate, self._ahead)
        await loop.create_connection(lambda: connection, sock=opened)
        return connection

    async def _open_socket(self, untried: list[str], host: str, port: int) -> socket.socket:
        """Returns a socket for the first address that accepts; takes what it tries off the list. Raises OSError.

        The next address is tried while earlier attempts go on, as long as there are few such attempts in all.
        """
        if len(untried) == 1:
            return await self._socket_to(untried.pop(), host, port)
        pending = {asyncio.ensure_future(self._socket_to(untried.pop(0), host, port))}
        error, further = None, 0
        try:
            while pending:
                seconds = _NEXT_SECONDS if untried else None
                done, _ = await asyncio.wait(pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                for attempt in done:
                    if (error := attempt.exception()) is None:
                        pending.discard(attempt)
                        return attempt.result()
                pending -= done
                if self.further >= MOST_FURTHER:
                    untried.clear()
                if untried:
                    further, self.further = further + 1, self.further + 1
                    pending.add(asyncio.ensure_future(self._socket_to(untried.pop(0), host, port)))
        finally:
            self.further -= further
            for attempt in pending:
                attempt.cancel()
                attempt.add_done_callback(_close_socket)
        raise error or OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    async def _socket_to(self, address: str, host: str, port: int) -> socket.socket:
        local = self._bind(host, address)
        opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            if local is not None:
                opened.bind(local)
            await asyncio.get_running_loop().sock_connect(opened, (address, port))
            if self._unconfirmed_ms and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._unconfirmed_ms)
        except BaseException:
            opened.close()
            raise
        return opened


@asynccontextmanager
async def _reaching(proxy: Origin) -> AsyncIterator[None]:
    """Bounds the wait for a connection to a proxy; raises NotConnected."""
    try:
        async with asyncio.timeout(_PROXY_SECONDS) as limit:
            yield
    except NotConnected as error:
        error.is_proxy = True
        raise
    except TimeoutError:
        if not limit.expired():
            raise
        raise NotConnected(proxy.host, proxy.port, "it takes too long", is_proxy=True) from None


class _OpenedSocket:
    """What python-socks asks for a connection to a proxy."""

    def __init__(self, opened: socket.socket) -> None:
        self._opened = opened

    async def connect(self, dest_host: str, dest_port: int, timeout: float | None = None) -> socket.socket:
        return self._opened


async def _pass_through(opened: socket.socket, proxy: Origin, host: str, port: int) -> None:
    """Has a SOCKS proxy connect to a name or an address (RFC 1928, RFC 1929); closes the socket if it does not.

    Raises TunnelRefused, without user and password.
    """
    from python_socks import ProxyError, ProxyType
    from python_socks.async_.asyncio import Proxy

    version, forward = SOCKS_VERSIONS[proxy.scheme], cast("Any", _OpenedSocket(opened))
    user, password = (part.decode("latin-1") for part in proxy.login or (b"", b""))
    kind = ProxyType.SOCKS5 if version == 5 else ProxyType.SOCKS4
    try:
        way = Proxy(kind, proxy.host, proxy.port, user, password, rdns=True, forward=forward)
        await way.connect(host, port, _NO_LIMIT)
    except ProxyError as error:
        is_proxy = error.error_code in SOCKS_FAULTS
        raise TunnelRefused(f"the proxy of SOCKS {version}: {error}", is_proxy=is_proxy) from error
    except OSError as error:
        raise TunnelRefused(f"the proxy of SOCKS {version}: {_reason(error)}", is_proxy=True) from error
    except ValueError:  # its message may have the password
        raise TunnelRefused(_NOT_SENT, is_proxy=True) from None


def _close_socket(attempt: asyncio.Task[socket.socket]) -> None:
    """Closes the socket of an attempt that is not needed."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _reason(error: OSError) -> str:
    """Returns why there is no connection, without the address."""
    if isinstance(error, ssl.SSLError):  # its numbers are not those of the system
        return getattr(error, "verify_message", None) or str(error)
    number = errno.ECONNRESET if isinstance(error, ConnectionResetError) else error.errno
    return os.strerror(number) if number else str(error)
