"""One FTP session: aioftp's client with bounds on what the server sends and on where it can lead."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import aioftp

from webcrawl.crawler.download.ftp_listing import FolderListing
from webcrawl.errors import BrokenTransfer, brief

ENCODING = "latin-1"
"""Carries bytes through the strings of aioftp unchanged."""
BUSY = ("421", "530", "425")
"""Codes of a server that accepts no session or transfer for now."""
# What aioftp raises for replies that are not FTP.
_GARBAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
FAILURES = (aioftp.AIOFTPException, *_GARBAGE)
"""What a command raises when the server refuses it or does not speak FTP."""

_READ_BYTES = 64 * 1024
_MAX_REPLY_LINES = 1000
_MAX_REPLY_BYTES = 256 * 1024
_MAX_ENTRIES = 100_000
_MAX_LISTING_BYTES = 8 * 1024 * 1024
_STALE_SECONDS = 5.0
"""Seconds that a kept session may take to answer."""
_QUOTED = re.compile(r'"(/(?:[^"]|"")*)"')


def _in_brief(record: logging.LogRecord) -> bool:
    """Makes a line of aioftp's log printable: it has a server's reply, or a command with a path from a page."""
    record.msg, record.args = brief(record.getMessage()), ()
    return True


logging.getLogger("aioftp.client").addFilter(_in_brief)


class FTPClient(aioftp.Client):
    """A control connection to one address. Replies and listings are bounded; data comes from that address alone."""

    peer: str
    home: str | None = None
    """The folder in which a session starts, known after login; None if the server does not name it."""
    idle = False
    """Whether the last transfer is complete, so that the session can serve another URL."""

    def __init__(self, local: tuple[str, int] | None = None) -> None:
        """`local`: the address and port of this machine for all connections; None lets the system choose."""
        super().__init__(encoding=ENCODING)
        self.local = local
        self._lines = 0
        self._reply_bytes = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def _open_connection(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._writers and host != self.peer:
            raise BrokenTransfer(f"the server sends its data from another host, {host}")
        self.peer = host
        reader, writer = await asyncio.open_connection(host, port, local_addr=self.local)
        self._writers.append(writer)
        return reader, writer

    async def start_session(self, user: str, password: str) -> None:
        """Logs in, unless the session is kept from an earlier URL; raises StatusCodeError."""
        if self.home is None:
            await self.login(user, password)
            await self.command("TYPE I", "200")
            code, lines = await self.command("PWD", ("257", "5xx"))
            if code.matches("257") and (quoted := _QUOTED.search(lines[-1])):
                self.home = quoted[1].replace('""', '"')

    async def resume(self) -> None:
        """Returns to the folder where the session started; raises an error if the server has closed the session."""
        self._lines = self._reply_bytes = 0
        async with asyncio.timeout(_STALE_SECONDS):
            await self.command(f"CWD {self.home}", "2xx")

    def close_data(self) -> None:
        """Closes all connections but the control connection."""
        while len(self._writers) > 1:
            self._writers.pop().close()

    async def leave(self) -> None:
        """Sends QUIT and closes all connections."""
        with suppress(OSError):
            await self.command("QUIT")
        for writer in self._writers:
            writer.close()

    async def parse_line(self) -> tuple[aioftp.Code, str]:
        self._lines += 1
        if self._lines > _MAX_REPLY_LINES:
            raise BrokenTransfer(f"more than {_MAX_REPLY_LINES} lines of replies")
        code, rest = await super().parse_line()
        self._reply_bytes += len(rest)
        if self._reply_bytes > _MAX_REPLY_BYTES:
            raise BrokenTransfer(f"more than {_MAX_REPLY_BYTES} bytes of replies")
        return code, rest

    async def enter_folder(self, path: str) -> bool:
        """Changes to a folder; returns False if the folder does not exist."""
        code, _ = await self.command(f"CWD {path}", ("2xx", "5xx"))
        return bool(code.matches("2xx"))

    async def modified_at(self, path: str) -> datetime | None:
        """Returns when a file was modified, or None if the server does not say so."""
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
            if code_of(error) in BUSY:
                raise
            raise BrokenTransfer(f"data connection refused: {message_of(error)}") from error

    async def content(self, stream: Any) -> AsyncIterator[bytes]:
        """Yields the bytes of a transfer; raises BrokenTransfer if it breaks off."""
        try:
            while chunk := await stream.read(_READ_BYTES):
                yield chunk
            await stream.finish()
            self.idle = True
        except (*FAILURES, OSError, EOFError) as error:
            raise BrokenTransfer(message_of(error)) from error

    async def listing(self) -> FolderListing:
        """Returns the entries of the current folder, up to 100,000 of them and 8 MiB; `idle` is False if cut off."""
        code, features = await self.command("FEAT", ("211", "5xx"))
        listing = FolderListing(code.matches("211") and any("MLST" in line.upper() for line in features))
        stream = await self.get_stream("MLSD" if listing.exact else "LIST", "1xx")
        size, self.idle = 0, False
        while line := await stream.readline():
            size += len(line)
            if listing.lines == _MAX_ENTRIES or size > _MAX_LISTING_BYTES:
                return listing
            listing.add(line)
        await stream.finish()
        self.idle = True
        return listing


def code_of(error: aioftp.StatusCodeError) -> str:
    """Returns the three digits of a refusal."""
    return str(error.received_codes[-1])


def message_of(error: Exception) -> str:
    """Returns the reply of the server, or the error in its reply, in one line."""
    if isinstance(error, aioftp.StatusCodeError):
        return f"{code_of(error)} {' '.join(error.info).strip()}"
    return f"not FTP: {error}" if isinstance(error, _GARBAGE) else str(error)
