"""Asks for the pages of one site in several sessions, and replaces a session that the site has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

_MOST_RENEWALS = 3


class SessionPoolSpider(Spider):
    """`scrapy crawl session_pool -a entry=https://example.org/ -a pages=https://example.org/list?page={} -a count=100`

    The site sets its session cookie on the page `entry`, and answers 403 when a session has ended.
    """

    name = "session_pool"
    handle_httpstatus_list = [403]

    def __init__(self, entry: str, pages: str, count: str, sessions: str = "3", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.entry, self.pages, self.count, self.sessions = entry, pages, int(count), int(sessions)

    async def start(self) -> AsyncIterator[Request]:
        for number in range(self.sessions):
            yield self.open((number, 0), self.share, {"number": number})

    def open(self, session: tuple[int, int], callback: Any, data: dict[str, Any]) -> Request:
        """The request that begins a session: its jar is named by the session's number and its renewals."""
        meta = {"cookiejar": session}
        return Request(self.entry, callback, meta=meta, cb_kwargs=data, dont_filter=True)

    def share(self, response: Response, number: int) -> Iterator[Request]:
        for page in range(number, self.count, self.sessions):
            yield self.page_of(self.pages.format(page), response)

    def page_of(self, url: str, response: Response) -> Request:
        """The request for a page, in the session of a response."""
        meta = {"cookiejar": response.meta["cookiejar"]}
        return Request(url, self.read, meta=meta, dont_filter=True)

    def read(self, response: Response) -> Iterator[Any]:
        number, renewals = response.meta["cookiejar"]
        if response.status != 403:
            yield {"url": response.url, "session": number, "renewals": renewals}
        elif renewals < _MOST_RENEWALS:
            yield self.open((number, renewals + 1), self.repeat, {"url": response.url})

    def repeat(self, response: Response, url: str) -> Iterator[Request]:
        yield self.page_of(url, response)
