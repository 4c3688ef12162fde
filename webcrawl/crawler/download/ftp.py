"""FTP by aioftp: anonymous and passive, with data connections to the address of the control connection only.

A file is a page of its own type. A folder becomes an HTML page of links to its entries. The path of a URL is sent byte
for byte. Reply codes do not show whether a path is missing or forbidden; the command and the text of the reply do.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import format_datetime
from urllib.parse import unquote_to_bytes

import aioftp
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from webcrawl.crawler.download.ftp_client import BUSY, ENCODING, FAILURES, FTPClient, code_of, message_of
from webcrawl.crawler.download.ftp_listing import index_page
from webcrawl.crawler.download.ftp_sessions import FTPSessions
from webcrawl.crawler.download.protocol import Answer, Protocol
from webcrawl.crawler.session import Session
from webcrawl.errors import BrokenTransfer
from webcrawl.urls.canonical import port, split

_TYPE = re.compile(r";type=[aid]$", re.IGNORECASE)
_MISSING = ("550", "553", "501")
_DENIED = re.compile(r"denied|permi(?:ssion|tted)|not allowed|forbidden|prohibited", re.IGNORECASE)
_ABSENT = re.compile(r"no such|not found|not exist|n't exist", re.IGNORECASE)
_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_HTML = {"Content-Type": "text/html; charset=utf-8"}


class FTPDownloadHandler(Protocol):
    """`DOWNLOAD_HANDLERS = {"ftp": "webcrawl.crawler.download.ftp.FTPDownloadHandler"}`.

    It logs in as FTP_USER with FTP_PASSWORD.
    """

    default_port = 21

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._user = str(self.settings.get("FTP_USER"))
        self._password = str(self.settings.get("FTP_PASSWORD"))
        self._sessions = FTPSessions()

    async def close(self) -> None:
        await self._sessions.close()

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        path = unquote_to_bytes(_TYPE.sub("", split(url)[1])[1:]).decode(ENCODING)
        if "\r" in path or "\n" in path or "\0" in path:
            raise IgnoreRequest(f"{url}: an FTP path cannot contain a line break or a NUL byte.")
        async with self._sessions.borrow(addresses, port(url)) as client:
            try:
                answer = await self._answer(client, url, path)
            except FAILURES as error:
                raise BrokenTransfer(message_of(error)) from error
            yield answer

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
