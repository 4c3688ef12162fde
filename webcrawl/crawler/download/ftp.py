"""FTP by aioftp: anonymous and passive, data connections to the address of the control connection alone.

A session that is logged in is kept for the next URL of its server, for half a minute.

A file is what it is; a folder becomes an HTML page that links to what it holds. Paths of URLs are sent byte by byte.
Codes do not say whether something is missing or refused: the command that they answer and their text do.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Literal
from urllib.parse import quote, unquote_to_bytes

import aioftp
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawler.download.ftp_listing import Entry, Listing
from webcrawl.crawler.download.protocol import Answer, Protocol
from webcrawl.crawler.session import Session
from webcrawl.errors import BrokenTransfer
from webcrawl.urls.canonical import hostname, port, split

_READ_BYTES = 64 * 1024
_MOST_LINES = 1000
_MOST_ANSWERED = 256 * 1024
_MOST_ENTRIES = 100_000
_MOST_LISTED = 8 * 1024 * 1024
"""Bytes that are read of a folder's listing; what comes behind them is left out."""
_MOST_KEPT = 16
_KEPT_SECONDS = 30.0
_STALE_SECONDS = 5.0
"""In which a session that was kept has to answer."""
_TYPE = re.compile(r";type=[aid]$", re.IGNORECASE)
_QUOTED = re.compile(r'"(/(?:[^"]|"")*)"')
_MISSING = ("550", "553", "501")
_BUSY = ("421", "530", "425")
_DENIED = re.compile(r"denied|permi(?:ssion|tted)|not allowed|forbidden|prohibited", re.IGNORECASE)
_ABSENT = re.compile(r"no such|not found|not exist|n't exist", re.IGNORECASE)
# What the library raises at answers that are none.
_GARBAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_BYTES = "latin-1"
"""How bytes travel through the library's strings unchanged."""


class FTPDownloadHandler(Protocol):
    """`DOWNLOAD_HANDLERS = {"ftp": "webcrawl.crawler.download.ftp.FTPDownloadHandler"}`; logs in as FTP_USER
    with FTP_PASSWORD."""

    default_port = 21

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._user = str(self.settings.get("FTP_USER"))
        self._password = str(self.settings.get("FTP_PASSWORD"))
        self._sessions = _Sessions()

    async def close(self) -> None:
        await self._sessions.close()

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        path = unquote_to_bytes(_TYPE.sub("", split(url)[1])[1:]).decode(_BYTES)
        if "\r" in path or "\n" in path or "\0" in path:
            raise IgnoreRequest(f"{url}: a line end in a path of FTP")
        async with self._sessions.one(addresses, port(url)) as client:
            try:
                answer = await self._answer(client, url, path)
            except (aioftp.AIOFTPException, *_GARBAGE) as error:
                raise BrokenTransfer(_said(error)) from error
            yield answer

    async def _answer(self, client: _Client, url: str, path: str) -> Answer:
        try:
            if client.home is None:
                await client.login(self._user, self._password)
                await client.command("TYPE I", "200")
                await client.find_home()
        except aioftp.StatusCodeError as error:
            return _busy(error, client.peer, "login refused: ")
        folder = path.rstrip("/")
        try:
            if path == folder and path and not await client.has_folder(path):
                return await self._file(client, path)
            if path != folder:
                await client.command(f"CWD {folder or '/'}", "2xx")
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, there=False)
        return await self._folder(client, url)

    async def _file(self, client: _Client, path: str) -> Answer:
        changed = await client.changed(path)
        try:
            stream = await client.get_stream(f"RETR {path}", "1xx")
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, there=changed is not None)
        headers = {"Last-Modified": format_datetime(changed, usegmt=True)} if changed else {}
        return Answer(_content(client, stream), 200, headers, client.peer)

    async def _folder(self, client: _Client, url: str) -> Answer:
        try:
            listing = await client.listing()
        except aioftp.StatusCodeError as error:
            return _refusal(error, client, there=True)
        page = _once(_page(url, sorted(listing.entries)))
        # where the listing ended before its time, the server is still sending
        truncated = None if client.idle else "length"
        return Answer(page, 200, _HTML, client.peer, truncated, listing.problem)


_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_HTML = {"Content-Type": "text/html; charset=utf-8"}


class _Client(aioftp.Client):
    """One control connection to one address; nothing that the server says leads elsewhere or takes much memory."""

    peer: str
    home: str | None = None
    """The folder in which a session begins, once it is logged in; None where the server does not say."""
    idle = False
    """Whether nothing of the last URL is still to come, so that another may be asked for."""

    def __init__(self) -> None:
        super().__init__(encoding=_BYTES)
        self._lines = 0
        self._answered = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def _open_connection(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._writers and host != self.peer:
            raise BrokenTransfer(f"the server leads to {host}")
        self.peer = host
        reader, writer = await asyncio.open_connection(host, port)
        self._writers.append(writer)
        return reader, writer

    async def find_home(self) -> None:
        """Ask where the session begins."""
        code, lines = await self.command("PWD", ("257", "5xx"))
        if code.matches("257") and (quoted := _QUOTED.search(lines[-1])):
            self.home = quoted[1].replace('""', '"')

    async def begin_again(self) -> None:
        """As after logging in; raises what a connection raises that the server has closed, or left."""
        self._lines = self._answered = 0
        async with asyncio.timeout(_STALE_SECONDS):
            await self.command(f"CWD {self.home}", "2xx")

    def rest(self) -> None:
        """Close what was opened for data."""
        while len(self._writers) > 1:
            self._writers.pop().close()

    async def leave(self) -> None:
        """Say so, and close all connections."""
        with suppress(OSError):
            await self.command("QUIT")
        for writer in self._writers:
            writer.close()

    async def parse_line(self) -> tuple[aioftp.Code, str]:
        self._lines += 1
        if self._lines > _MOST_LINES:
            raise BrokenTransfer(f"more than {_MOST_LINES} lines of answers")
        code, rest = await super().parse_line()
        self._answered += len(rest)
        if self._answered > _MOST_ANSWERED:
            raise BrokenTransfer(f"more than {_MOST_ANSWERED} bytes of answers")
        return code, rest

    async def has_folder(self, path: str) -> bool:
        """Go into a folder, if there is one."""
        code, _ = await self.command(f"CWD {path}", ("2xx", "5xx"))
        return bool(code.matches("2xx"))

    async def changed(self, path: str) -> datetime | None:
        """When a file was changed, where the server says that."""
        code, lines = await self.command(f"MDTM {path}", ("213", "5xx"))
        digits = re.fullmatch(r"\s*(\d{14})(?:\.\d+)?\s*", lines[-1]) if code.matches("213") else None
        try:
            return datetime.strptime(digits[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC) if digits else None
        except ValueError:
            return None

    async def get_passive_connection(
        self, conn_type: Literal["I", "A", "E", "L"] = "I", commands: Sequence[str] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await super().get_passive_connection(conn_type, commands)
        except aioftp.StatusCodeError as error:
            if _code(error) in _BUSY:
                raise
            raise BrokenTransfer(f"data connection refused: {_said(error)}") from error

    async def listing(self) -> Listing:
        """What is in the folder where the session is."""
        code, features = await self.command("FEAT", ("211", "5xx"))
        listing = Listing(code.matches("211") and any("MLST" in line.upper() for line in features))
        stream = await self.get_stream("MLSD" if listing.exact else "LIST", "1xx")
        size, self.idle = 0, False
        while line := await stream.readline():
            size += len(line)
            if listing.lines == _MOST_ENTRIES or size > _MOST_LISTED:
                return listing
            listing.add(line)
        await stream.finish()
        self.idle = True
        return listing


class _Sessions:
    """One session a server is kept for the next URL, for a short while; a crawl asks a host one URL after the other."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[_Client, asyncio.TimerHandle]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def one(self, addresses: list[str], number: int) -> AsyncIterator[_Client]:
        """A session at one of these addresses: one that is kept, or a connection that is not logged in yet."""
        client = await self._again(addresses, number) or await _connected(addresses, number)
        client.idle = False
        try:
            yield client
        finally:
            if client.idle and client.home is not None:
                self._keep(client, number)
            else:
                await client.leave()

    async def close(self) -> None:
        """End all that are kept."""
        for place in list(self._kept):
            self._end(place)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _again(self, addresses: list[str], number: int) -> _Client | None:
        for place in [(address, number) for address in addresses]:
            if place in self._kept:
                client = self._taken(place)
                try:
                    await client.begin_again()
                except (aioftp.AIOFTPException, BrokenTransfer, OSError, EOFError, *_GARBAGE):
                    await client.leave()
                except asyncio.CancelledError:
                    await client.leave()
                    raise
                else:
                    return client
        return None

    def _keep(self, client: _Client, number: int) -> None:
        client.rest()
        place = client.peer, number
        if place in self._kept:
            self._end(place)
        elif len(self._kept) == _MOST_KEPT:
            self._end(next(iter(self._kept)))
        timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._end, place)
        self._kept[place] = client, timer

    def _taken(self, place: tuple[str, int]) -> _Client:
        client, timer = self._kept.pop(place)
        timer.cancel()
        return client

    def _end(self, place: tuple[str, int]) -> None:
        leaving = asyncio.ensure_future(self._taken(place).leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def _connected(addresses: list[str], number: int) -> _Client:
    """A client at the first address that takes the connection."""
    client = _Client()
    for address in addresses:
        try:
            await client.connect(address, number)
            return client
        except (aioftp.AIOFTPException, *_GARBAGE) as error:
            await client.leave()
            raise BrokenTransfer(_said(error)) from error
        except asyncio.CancelledError:
            await client.leave()
            raise
        except OSError:
            if address == addresses[-1]:
                raise
    raise BrokenTransfer("the host has no address")


async def _content(client: _Client, stream: Any) -> AsyncIterator[bytes]:
    try:
        while chunk := await stream.read(_READ_BYTES):
            yield chunk
        await stream.finish()
        client.idle = True
    except (aioftp.AIOFTPException, OSError, EOFError, *_GARBAGE) as error:
        raise BrokenTransfer(_said(error)) from error


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _refusal(error: aioftp.StatusCodeError, client: _Client, *, there: bool) -> Answer:
    """What a server's no to a path means; `there`: that the path exists is known otherwise."""
    code, said = _code(error), _said(error)
    client.idle = code in _MISSING
    if code not in _MISSING:
        return _busy(error, client.peer)
    denied = there or (_DENIED.search(said) and not _ABSENT.search(said))
    return Answer(_once(said.encode()), 403 if denied else 404, _PLAIN, client.peer)


def _busy(error: aioftp.StatusCodeError, peer: str, what: str = "") -> Answer:
    """What a server's no to anybody means; raises BrokenTransfer where it does not say that it is for now."""
    said = what + _said(error)
    if _code(error) not in _BUSY:
        raise BrokenTransfer(said) from error
    return Answer(_once(said.encode()), 503, _PLAIN, peer)


def _code(error: aioftp.StatusCodeError) -> str:
    return str(error.received_codes[-1])


def _said(error: Exception) -> str:
    if isinstance(error, aioftp.StatusCodeError):
        return f"{_code(error)} {' '.join(error.info).strip()}"
    return f"no FTP: {error}" if isinstance(error, _GARBAGE) else str(error)


def _page(url: str, entries: list[Entry]) -> bytes:
    """A page with a link to each entry; names that are no UTF-8 are shown as windows-1252."""
    path = split(url)[1].rstrip("/") + "/"
    base = html.escape(path)
    rows = []
    for name, folder, size in entries:
        href = base + quote(name) + ("/" if folder else "")
        rows.append(f'<li><a href="{href}">{_shown(name)}</a> {html.escape(size)}')
    title = f"Index of {html.escape(hostname(url))}{_shown(unquote_to_bytes(path))}"
    lines = ["<!DOCTYPE html>", '<meta charset="utf-8">', f"<title>{title}</title>"]
    lines += [f'<link rel="canonical" href="{base}">', f"<h1>{title}</h1>", "<ul>", *rows, "</ul>", ""]
    return "\n".join(lines).encode()


def _shown(name: bytes) -> str:
    try:
        return html.escape(name.decode())
    except UnicodeDecodeError:
        return html.escape(name.decode("cp1252", "replace"))
