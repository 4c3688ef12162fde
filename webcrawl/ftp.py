"""FTP by aioftp: anonymous and passive, data connections to the address of the control connection alone.

A file is what it is; a folder becomes an HTML page that links to what it holds. Paths of URLs are sent byte by byte.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import aioftp
from scrapy.crawler import Crawler

from webcrawl.http import RequestRefused
from webcrawl.protocol import Answer, Broken, Protocol
from webcrawl.session import Session
from webcrawl.urls import hostname, port, split

_READ_BYTES = 64 * 1024
_MOST_LINES = 1000
_MOST_ANSWERED = 256 * 1024
_MOST_ENTRIES = 100_000
_MOST_LISTED = 8 * 1024 * 1024
"""Bytes that are read of a folder's listing; what comes behind them is left out."""
_TYPE = re.compile(r";type=[aid]$", re.IGNORECASE)
_MISSING = ("550", "553", "501")
_BUSY = ("421", "530", "425")
# What the library raises at answers that are none.
_GARBAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_BYTES = "latin-1"
"""How bytes travel through the library's strings unchanged."""


class FTPDownloadHandler(Protocol):
    """`DOWNLOAD_HANDLERS = {"ftp": "webcrawl.ftp.FTPDownloadHandler"}`; logs in as FTP_USER with FTP_PASSWORD."""

    default_port = 21

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._user = str(self.settings.get("FTP_USER"))
        self._password = str(self.settings.get("FTP_PASSWORD"))

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        path = unquote_to_bytes(_TYPE.sub("", split(url)[1])[1:]).decode(_BYTES)
        if "\r" in path or "\n" in path or "\0" in path:
            raise RequestRefused(f"{url}: a line end in a path of FTP")
        async with _connection(addresses, port(url)) as client:
            try:
                answer = await self._answer(client, url, path)
            except (aioftp.AIOFTPException, *_GARBAGE) as error:
                raise Broken(_said(error)) from error
            yield answer

    async def _answer(self, client: _Client, url: str, path: str) -> Answer:
        try:
            await client.login(self._user, self._password)
            await client.command("TYPE I", "200")
        except aioftp.StatusCodeError as error:
            return _refusal(error, client.peer)
        folder = path.rstrip("/")
        try:
            if path == folder and path and not await client.has_folder(path):
                return await self._file(client, path)
            if path != folder and not await client.has_folder(folder or "/"):
                return Answer(_once(b"no such folder"), 404, _PLAIN, client.peer)
            return await self._folder(client, url)
        except aioftp.StatusCodeError as error:
            return _refusal(error, client.peer)

    async def _file(self, client: _Client, path: str) -> Answer:
        headers = {}
        if changed := await client.changed(path):
            headers["Last-Modified"] = format_datetime(changed, usegmt=True)
        stream = await client.get_stream(f"RETR {path}", "1xx")
        return Answer(_content(stream), 200, headers, client.peer)

    async def _folder(self, client: _Client, url: str) -> Answer:
        entries = sorted([entry async for entry in client.entries()])
        return Answer(
            _once(_listing(url, entries)), 200, {"Content-Type": "text/html; charset=utf-8"}, client.peer
        )


_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
Entry = tuple[str, bool, str]
"""Name, whether it is a folder, size in bytes as the server says it."""


class _Client(aioftp.Client):
    """One control connection to one address; nothing that the server says leads elsewhere or takes much memory."""

    peer: str

    def __init__(self) -> None:
        super().__init__(encoding=_BYTES)
        self._lines = 0
        self._answered = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def _open_connection(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._writers and host != self.peer:
            raise Broken(f"the server leads to {host}")
        self.peer = host
        reader, writer = await asyncio.open_connection(host, port)
        self._writers.append(writer)
        return reader, writer

    async def leave(self) -> None:
        """Say so, and close all connections."""
        with suppress(OSError):
            await self.command("QUIT")
        for writer in self._writers:
            writer.close()

    async def parse_line(self) -> tuple[aioftp.Code, str]:
        self._lines += 1
        if self._lines > _MOST_LINES:
            raise Broken(f"more than {_MOST_LINES} lines of answers")
        code, rest = await super().parse_line()
        self._answered += len(rest)
        if self._answered > _MOST_ANSWERED:
            raise Broken(f"more than {_MOST_ANSWERED} bytes of answers")
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

    async def entries(self) -> AsyncIterator[Entry]:
        """What is in the folder where the session is."""
        code, features = await self.command("FEAT", ("211", "5xx"))
        exact = code.matches("211") and any("MLST" in line.upper() for line in features)
        stream = await self.get_stream("MLSD" if exact else "LIST", "1xx")
        read = self.parse_mlsx_line if exact else self.parse_list_line
        entries, size = 0, 0
        while line := await stream.readline():
            entries, size = entries + 1, size + len(line)
            if entries > _MOST_ENTRIES or size > _MOST_LISTED:
                return
            try:
                name, facts = read(line.rstrip(b"\r\n"))
            except (ValueError, KeyError):  # "total 12", or what no parser knows
                continue
            kind, text = facts.get("type"), str(name)
            if kind in ("file", "dir", "link") and text not in (".", "..", "") and "/" not in text:
                yield text, kind == "dir", str(facts.get("size", ""))
        await stream.finish()


@asynccontextmanager
async def _connection(addresses: list[str], number: int) -> AsyncIterator[_Client]:
    """A client at the first address that takes the connection."""
    client = _Client()
    for address in addresses:
        try:
            await client.connect(address, number)
            break
        except (aioftp.AIOFTPException, *_GARBAGE) as error:
            await client.leave()
            raise Broken(_said(error)) from error
        except OSError:
            if address == addresses[-1]:
                raise
    try:
        yield client
    finally:
        await client.leave()


async def _content(stream: Any) -> AsyncIterator[bytes]:
    try:
        while chunk := await stream.read(_READ_BYTES):
            yield chunk
        await stream.finish()
    except (aioftp.AIOFTPException, OSError, EOFError, *_GARBAGE) as error:
        raise Broken(_said(error)) from error


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _refusal(error: aioftp.StatusCodeError, peer: str) -> Answer:
    """What a server's no means."""
    code = str(error.received_codes[-1])
    if code not in (*_MISSING, *_BUSY):
        raise Broken(_said(error)) from error
    return Answer(_once(_said(error).encode()), 404 if code in _MISSING else 503, _PLAIN, peer)


def _said(error: Exception) -> str:
    if isinstance(error, aioftp.StatusCodeError):
        return f"{error.received_codes[-1]} {' '.join(error.info).strip()}"
    return f"no FTP: {error}" if isinstance(error, _GARBAGE) else str(error)


def _listing(url: str, entries: list[Entry]) -> bytes:
    """A page with a link to each entry; names that are no UTF-8 are shown as windows-1252."""
    path = split(url)[1].rstrip("/") + "/"
    base = html.escape(path)
    rows = []
    for name, folder, size in entries:
        href = base + quote(name.encode(_BYTES)) + ("/" if folder else "")
        rows.append(f'<li><a href="{href}">{_shown(name)}</a> {html.escape(size)}')
    title = f"Index of {html.escape(hostname(url))}{_shown(unquote_to_bytes(path).decode(_BYTES))}"
    lines = ["<!DOCTYPE html>", '<meta charset="utf-8">', f"<title>{title}</title>"]
    lines += [f'<link rel="canonical" href="{base}">', f"<h1>{title}</h1>", "<ul>", *rows, "</ul>", ""]
    return "\n".join(lines).encode()


def _shown(name: str) -> str:
    octets = name.encode(_BYTES)
    try:
        return html.escape(octets.decode())
    except UnicodeDecodeError:
        return html.escape(octets.decode("cp1252", "replace"))
