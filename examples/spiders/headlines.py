"""Stores every page, follows every link, and writes the headlines to a separate file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scrapy.http import HtmlResponse, Response

from webcrawl import BroadSpider


@dataclass
class Headline:
    """The headline of a page."""

    url: str
    text: str


class HeadlinesSpider(BroadSpider):
    """`scrapy crawl headlines -a seeds=https://example.org/`"""

    name = "headlines"
    custom_settings = {
        "FEEDS": {"headlines.jsonl": {"format": "jsonlines", "item_classes": [Headline]}},
    }

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield self.page(response)
        yield self.links(response)
        if isinstance(response, HtmlResponse) and (text := response.css("h1::text").get()):
            yield Headline(response.url, text.strip())
