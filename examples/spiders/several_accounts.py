"""Crawls a site with several logins, each in a session of its own; each page is fetched once, by one of them."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import FormRequest, Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor


class SeveralAccountsSpider(Spider):
    """`scrapy crawl several_accounts -a login=https://example.org/login -a accounts=accounts.txt`

    The file has a name and a password on each line, separated by a space. The site logs in by the form of the page
    `login`. Links to the host of that page are followed.
    """

    name = "several_accounts"

    def __init__(self, login: str, accounts: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        lines = Path(accounts).read_text().splitlines()
        self.accounts = [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]
        self.login = login
        self.links = LinkExtractor(deny=r"/log(in|out)$")

    async def start(self) -> AsyncIterator[Request]:
        for number in range(len(self.accounts)):
            meta = {"cookiejar": number}
            yield Request(self.login, self.fill_in, meta=meta, priority=10, dont_filter=True)

    def fill_in(self, response: TextResponse) -> Request:
        user, password = self.accounts[response.meta["cookiejar"]]
        return FormRequest.from_response(
            response,
            formdata={"user": user, "password": password},
            meta={"cookiejar": response.meta["cookiejar"]},
            callback=self.enter,
            priority=20,
            dont_filter=True,
        )

    def enter(self, response: Response) -> Iterator[Any]:
        if response.status >= 400:
            raise CloseSpider("login_failed")
        # the forms of the other accounts have a higher priority than these links
        yield from self.parse(response)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, "account": response.meta["cookiejar"]}
        for link in self.links.extract_links(response):
            account = zlib.crc32(link.url.encode()) % len(self.accounts)
            yield response.follow(link, meta={"cookiejar": account})
