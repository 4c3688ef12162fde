"""Logs in by a form, then stores every page and follows every link as that user; logs in again when a session ends."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from scrapy import FormRequest, Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response, TextResponse

from webcrawl import BroadSpider

_MOST_TRIES = 3


class MembersSpider(BroadSpider):
    """`scrapy crawl members -a seeds=... -a login=https://example.org/login -a user=... -a password=...`

    The site redirects to the page `login` when a session has ended.
    """

    name = "members"
    # every link is followed with the cookies of the login
    custom_settings = {"COOKIES_ENABLED": True}

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, login: str, **kwargs: Any) -> Self:
        # links to these pages are not followed, and redirects to them reach `parse`
        crawler.settings.set("URL_DENY", ["/logout", re.escape(login)], priority="spider")
        return super().from_crawler(crawler, *args, login=login, **kwargs)

    def __init__(self, login: str, user: str, password: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.login, self.user, self.password = login, user, password
        self.logins = 0

    async def start(self) -> AsyncIterator[Request]:
        self.first = [request async for request in super().start()]
        yield self.log_in([])

    def parse(self, response: Response, tries: int = 1, **kwargs: Any) -> Iterator[Any]:
        if self.refuses(response) and tries < _MOST_TRIES:
            yield self.log_in([response.url], tries + 1)
        else:
            yield from super().parse(response, **kwargs)

    def refuses(self, response: Response) -> bool:
        """Whether a response sends the user to the login page."""
        target = response.headers.get("Location", b"").decode(errors="replace")
        return response.status in (302, 303, 307) and response.urljoin(target).startswith(self.login)

    def log_in(self, urls: list[str], tries: int = 1) -> Request:
        """The request for the form, which goes before all pages; `urls` are fetched after the login."""
        data = {"urls": urls, "tries": tries, "logins": self.logins}
        return Request(self.login, self.fill_in, cb_kwargs=data, priority=20, dont_filter=True)

    def fill_in(self, response: TextResponse, urls: list[str], tries: int, logins: int) -> Iterator[Request]:
        data = {"urls": urls, "tries": tries}
        if logins != self.logins or not response.css("form input[type=password]"):
            # another page has led to a login meanwhile, or the session has outlived the last run
            yield from self.go_on(urls, tries)
            return
        fields = {"user": self.user, "password": self.password}
        # before further requests for the form, which then need not be filled in; hidden fields are sent, too
        yield FormRequest.from_response(
            response, formdata=fields, callback=self.enter, cb_kwargs=data, priority=30, dont_filter=True
        )

    def enter(self, response: Response, urls: list[str], tries: int) -> Iterator[Any]:
        if response.status >= 400 or self.refuses(response):
            raise CloseSpider("login_failed")
        self.logins += 1
        yield from self.parse(response)
        yield from self.go_on(urls, tries)

    def go_on(self, urls: list[str], tries: int) -> Iterator[Request]:
        """The requests for pages that waited for a login, at first the seeds."""
        first, self.first = self.first, []
        yield from first
        for url in urls:
            yield Request(url, cb_kwargs={"tries": tries}, dont_filter=True)
