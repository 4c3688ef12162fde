"""A plain spider whose items have schemas; it yields no pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import scrapy
from scrapy.http import Response, TextResponse


@dataclass
class Product:
    name: str
    price: float


class Shop(scrapy.Spider):
    name = "shop"
    item_schemas = {
        "Product": Product,
        "dict": {"type": "object", "properties": {"next": {"type": "string"}}, "required": ["next"]},
    }

    def __init__(self, seeds: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [seeds]

    def parse(self, response: Response) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        for link in response.css("a"):
            name, price = link.css("::text").get(""), link.attrib["price"]
            value: Any = price if price == "?" else float(price)
            yield Product(name, value)
            yield {"next": link.attrib["href"]}
            if name == "odd":
                yield {"next": link.attrib["href"], "surprise": 1}
            yield response.follow(link)
