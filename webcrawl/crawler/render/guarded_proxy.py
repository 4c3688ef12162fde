"""A proxy on loopback through which a browser reaches only the addresses that the crawl may connect to.

It resolves names with the crawl's resolver and connects to exactly the address that the guard checked. A browser would
resolve the name again when it connects, and might get another address.
"""

from __future__ import annotations

import asyncio
import base64
import math
import re
import secrets
from contextlib import suppress
from typing import Self

from webcrawl.errors import AddressRefused, NameNotResolved
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver, to_try
from webcrawl.hosts.local_addresses import LocalAddresses

_LONGEST_HEAD = 64 * 1024
_READ_BYTES = 64 * 1024
_CONNECT_SECONDS = 20.0
_TUNNEL = re.compile(rb"CONNECT (?P<host>\S+):(?P<port>\d{1,5}) HTTP/1\.\d\r\n", re.IGNORECASE)
_PLAIN = re.compile(
    rb"(?P<method>[A-Z]+) http://(?P<host>\[[^\]/]+\]|[^/:\s?]+)(?::(?P<port>\d{1,5}))?(?P<path>[/?]\S*)? "
    rb"HTTP/1\.\d\r\n",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(rb"^Proxy-Authorization[ \t]*:[ \t]*Basic (\S+)", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^Content-Length[ \t]*:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE | re.MULTILINE)
_UNAUTHORIZED = (
    b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="x"\r\n'
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
_HOP = re.compile(
    rb"^(?:Proxy-Connection|Proxy-Authorization|Connection)[ \t]*:.*\r\n", re.IGNORECASE | re.MULTILINE
)


class GuardedProxy:
    """`async with GuardedProxy(resolver, guard) as proxy:` serves a browser at `proxy.url` with `user` and `password`.

    Other clients are refused, because the guard may allow addresses that other users of this machine must not reach.
    A connection to a forbidden address is closed and counted in `refused`.
    """

    def __init__(
        self, resolver: Resolver, guard: AddressGuard, local_addresses: LocalAddresses | None = None
    ) -> None:
        self._resolver = resolver
        self._local_addresses = local_addresses or LocalAddresses()
        self._guard = guard
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        self.url = ""
        self.user, self.password = "browser", secrets.token_urlsafe()
        self._expected = base64.b64encode(f"{self.user}:{self.password}".encode())

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (AddressRefused, NameNotResolved):
            self.refused += 1
        except (OSError, EOFError, ValueError, asyncio.CancelledError, TimeoutError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        credentials = _CREDENTIALS.search(head)
        if credentials is None or not secrets.compare_digest(credentials[1], self._expected):
            writer.write(_UNAUTHORIZED)
            return
        length = math.inf
        if match := _TUNNEL.match(head):
            up_reader, up_writer = await self._connect(match["host"], int(match["port"]))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        elif match := _PLAIN.match(head):
            up_reader, up_writer = await self._connect(match["host"], int(match["port"] or 80))
            path = match["path"] or b"/"
            line = match["method"] + b" " + (b"/" if path.startswith(b"?") else b"") + path + b" HTTP/1.1\r\n"
            # one request per connection, because the next request of the browser may be for another host
            length = int(length_header[1]) if (length_header := _LENGTH.search(head)) else 0
            up_writer.write(line + b"Connection: close\r\n" + _HOP.sub(b"", head[match.end() :]))
        else:
            return
        try:
            await _relay(reader, writer, up_reader, up_writer, length)
        finally:
            up_writer.close()

    async def _connect(self, host: bytes, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the first address of a host that accepts; raises AddressRefused if an address is forbidden."""
        name = host.decode("ascii").strip("[]")
        answer = await self._resolver.resolve(name)
        self._guard.check_all(answer.addresses, hostname=name, port=port)
        *first, last = to_try(answer.addresses)
        for address in first:
            with suppress(OSError):
                return await self._open(name, address, port)
        return await self._open(name, last, port)

    async def _open(
        self, name: str, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        local = self._local_addresses.of(name, address)
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await asyncio.open_connection(address, port, local_addr=local)


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    up_reader: asyncio.StreamReader,
    up_writer: asyncio.StreamWriter,
    length: float,
) -> None:
    """Copies both directions until either side ends, or the browser sends more than `length` bytes."""
    up = asyncio.create_task(_copy(reader, up_writer, length))
    down = asyncio.create_task(_copy(up_reader, writer))
    try:
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        if up.done() and not up.exception() and up.result():
            await down  # the browser has sent everything and still receives
    finally:
        up.cancel()
        down.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: float = math.inf) -> bool:
    """Copies all bytes; returns False if there were more than `most`."""
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            most -= len(data)
            if most < 0:
                return False
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    return True
