"""FTP by aioftp: anonymous and passive, with data connections to the address of the control connection only.

A file is a page of its own type. A folder becomes an HTML page of links to its entries. The path of a URL is sent byte
for byte. Reply codes do not show whether a path is missing or forbidden; the command and the text of the reply do.
A session is kept for the next URL of its server, because a crawl fetches the URLs of a host in turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scrapy.crawler import Crawler

from webcrawl.crawler.download.protocol import Answer, Protocol
from webcrawl.crawler.session import Session


class FTPDownloadHandler(Protocol):
    """`DOWNLOAD_HANDLERS = {"ftp": "webcrawl.crawler.download.ftp.FTPDownloadHandler"}`.

    It logs in as FTP_USER with FTP_PASSWORD.
    """

    default_port = 21

    def __init__(self, crawler: Crawler, session: Session) -> None:
        # Scrapy imports this module in each crawl, but makes the handler for the first URL only; aioftp takes memory
        from webcrawl.crawler.download.ftp_sessions import FTPSessions

        super().__init__(crawler, session)
        user, password = str(self.settings.get("FTP_USER")), str(self.settings.get("FTP_PASSWORD"))
        self._sessions = FTPSessions(user, password, session.local_addresses)

    async def close(self) -> None:
        await self._sessions.close()

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        async with self._sessions.fetch(url, addresses) as answer:
            yield answer
