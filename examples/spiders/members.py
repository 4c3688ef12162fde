"""Logs in by a form, then stores every page and follows every link as that user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import FormRequest, Request
from scrapy.exceptions import CloseSpider
from scrapy.http import Response, TextResponse

from webcrawl.spiders.base import BroadSpider


class MembersSpider(BroadSpider):
    """`scrapy crawl members -a seeds=... -a login=https://example.org/login -a user=... -a password=...`"""

    name = "members"
    # every link is followed with the cookies of the login, except the one that ends the session
    custom_settings = {"COOKIES_ENABLED": True, "URL_DENY": ["/logout"]}

    def __init__(self, login: str, user: str, password: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.login, self.user, self.password = login, user, password

    async def start(self) -> AsyncIterator[Request]:
        self.first = [request async for request in super().start()]
        yield Request(self.login, self.fill_in, dont_filter=True)

    def fill_in(self, response: TextResponse) -> Iterator[Request]:
        fields = {"user": self.user, "password": self.password}
        # hidden fields of the form are sent, too
        yield FormRequest.from_response(response, formdata=fields, callback=self.enter, dont_filter=True)

    def enter(self, response: Response) -> Iterator[Any]:
        if response.status >= 400:
            raise CloseSpider("login_failed")
        yield from self.parse(response)
        yield from self.first
