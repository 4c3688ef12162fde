"""The sessions of an FTP handler, and how replies become answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import format_datetime
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import aioftp
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawler.download.ftp_client import BUSY, ENCODING, FAILURES, FTPClient, code_of, message_of
from webcrawl.crawler.download.ftp_listing import index_page
from webcrawl.crawler.download.protocol import Answer
from webcrawl.errors import BrokenTransfer
from webcrawl.hosts.dns import to_try
from webcrawl.hosts.local_addresses import LocalAddresses
from webcrawl.urls.canonical import hostname, port, split

_TYPE = re.compile(r";type=[aid]$", re.IGNORECASE)
_MISSING = ("550", "553", "501")
_DENIED = re.compile(r"denied|permi(?:ssion|tted)|not allowed|forbidden|prohibited", re.IGNORECASE)
_ABSENT = re.compile(r"no such|not found|not exist|n't exist", re.IGNORECASE)
_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_HTML = {"Content-Type": "text/html; charset=utf-8"}
_MAX_KEPT = 16
_KEPT_SECONDS = 30.0


class _Server(NamedTuple):
    """The address and port of a server, and those of this machine; None if the system chooses."""

    address: str
    port: int
    local: tuple[str, int] | None


class FTPSessions:
    """Keeps up to 16 sessions, one for each address and port, at both ends, for 30 seconds."""

    def __init__(self, user: str, password: str, local_addresses: LocalAddresses | None = None) -> None:
        self._user, self._password = user, password
        self._local_addresses = local_addresses or LocalAddresses()
        self._kept: dict[_Server, tuple[FTPClient, asyncio.TimerHandle]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        """Yields the answer for a URL, whose body may be read meanwhile."""
        path = unquote_to_bytes(_TYPE.sub("", split(url)[1])[1:]).decode(ENCODING)
        if "\r" in path or "\n" in path or "\0" in path:
            raise IgnoreRequest(f"{url}: an FTP path cannot contain a line break or a NUL byte.")
        async with self.borrow(hostname(url), addresses, port(url)) as client:
            try:
                answer = await self._answer(client, url, path)
            except FAILURES as error:
                raise BrokenTransfer(message_of(error)) from error
            yield answer

    @asynccontextmanager
    async def borrow(self, host: str, addresses: list[str], port: int) -> AsyncIterator[FTPClient]:
        """Lends a session at one of the addresses of a host: a kept one, or a new connection that is not logged in."""
        servers = [
            _Server(address, port, self._local_addresses.of(host, address))
            for address in self._local_addresses.together(addresses)
        ]
        client = await self._resumed(servers) or await _connected(servers)
        client.idle = False
        try:
            yield client
        finally:
            if client.idle and client.home is not None:
                self._keep(client, port)
            else:
                await client.leave()

    async def close(self) -> None:
        """Ends all kept sessions."""
        for server in list(self._kept):
            self._end(server)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _answer(self, client: FTPClient, url: str, path: str) -> Answer:
        try:
            await client.start_session(self._user, self._password)
        except aioftp.StatusCodeError as error:
            return _unavailable(error, client.peer, "login refused: ")
        folder = path.rstrip("/")
        try:
            if path == folder and path and not await client.enter_folder(path):
                return await self._file(client, path)
            if path != folder:
                await client.command(f"CWD {folder or '/'}", "2xx")
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, exists=False)
        return await self._folder(client, url)

    async def _file(self, client: FTPClient, path: str) -> Answer:
        modified = await client.modified_at(path)
        try:
            stream = await client.get_stream(f"RETR {path}", "1xx")
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, exists=modified is not None)
        headers = {"Last-Modified": format_datetime(modified, usegmt=True)} if modified else {}
        return Answer(client.content(stream), 200, headers, client.peer)

    async def _folder(self, client: FTPClient, url: str) -> Answer:
        try:
            listing = await client.listing()
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, exists=True)
        page = _once(index_page(url, sorted(listing.entries)))
        # the server is still sending a listing that was cut off
        truncated = None if client.idle else "length"
        return Answer(page, 200, _HTML, client.peer, truncated, listing.problem)

    async def _resumed(self, servers: list[_Server]) -> FTPClient | None:
        for server in servers:
            if server in self._kept:
                client = self._take(server)
                try:
                    await client.resume()
                except (*FAILURES, BrokenTransfer, OSError, EOFError):
                    await client.leave()
                except asyncio.CancelledError:
                    await client.leave()
                    raise
                else:
                    return client
        return None

    def _keep(self, client: FTPClient, port: int) -> None:
        client.close_data()
        server = _Server(client.peer, port, client.local)
        if server in self._kept:
            self._end(server)
        elif len(self._kept) == _MAX_KEPT:
            self._end(next(iter(self._kept)))
        timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._end, server)
        self._kept[server] = client, timer

    def _take(self, server: _Server) -> FTPClient:
        client, timer = self._kept.pop(server)
        timer.cancel()
        return client

    def _end(self, server: _Server) -> None:
        leaving = asyncio.ensure_future(self._take(server).leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def _connected(servers: list[_Server]) -> FTPClient:
    """Returns a client at the first address that accepts the connection."""
    tried = to_try([server.address for server in servers])
    for server in [server for server in servers if server.address in tried]:
        client = FTPClient(server.local)
        try:
            await client.connect(server.address, server.port)
            return client
        except FAILURES as error:
            await client.leave()
            raise BrokenTransfer(message_of(error)) from error
        except asyncio.CancelledError:
            await client.leave()
            raise
        except OSError:
            if server.address == tried[-1]:
                raise
    raise BrokenTransfer("the host has no address")


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _refusal(error: aioftp.StatusCodeError, client: FTPClient, *, exists: bool) -> Answer:
    """Returns 403 or 404 for a path that the server refuses; `exists`: an earlier reply showed that the path exists."""
    code, message = code_of(error), message_of(error)
    client.idle = code in _MISSING
    if code not in _MISSING:
        return _unavailable(error, client.peer)
    denied = exists or (_DENIED.search(message) and not _ABSENT.search(message))
    return Answer(_once(message.encode()), 403 if denied else 404, _PLAIN, client.peer)


def _unavailable(error: aioftp.StatusCodeError, peer: str, prefix: str = "") -> Answer:
    """Returns 503 for a server that is busy; raises BrokenTransfer for any other refusal."""
    message = prefix + message_of(error)
    if code_of(error) not in BUSY:
        raise BrokenTransfer(message) from error
    return Answer(_once(message.encode()), 503, _PLAIN, peer)
