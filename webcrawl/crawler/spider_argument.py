"""Supports components for Scrapy before 2.14, whose methods require the spider as an argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.deprecate import argument_is_required


def fill_spider(method: Callable[..., Any], crawler: Crawler) -> Callable[..., Any]:
    """Returns the method, or a function that passes the spider to a method with this deprecated argument."""
    if not argument_is_required(method, "spider"):
        return method

    @wraps(method)
    def with_spider(*arguments: Any, **named: Any) -> Any:
        return method(*arguments, **named, spider=crawler.spider)

    return with_spider
