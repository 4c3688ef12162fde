"""The chain of item pipelines keeps what Scrapy's own promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.test import get_crawler

from webcrawl.crawler.pages.processor import ItemProcessor


class Pipeline:
    """Makes something else of an item, at once or after a while."""

    def __init__(self, made: Callable[[Any], Any], *, waits: bool = False) -> None:
        self.made, self.waits = made, waits

    def process_item(self, item: Any) -> Any:
        async def wait() -> Any:
            await asyncio.sleep(0)
            return self.made(item)

        return wait() if self.waits else self.made(item)


class Older:
    """A pipeline as they were written for Scrapy before 2.14."""

    def process_item(self, item: Any, spider: Any) -> Any:
        return [*item, spider.name]


def drop(item: Any) -> Any:
    raise DropItem("no more")


def processed(manager: type[ItemPipelineManager], *pipelines: Any) -> Any:
    crawler = get_crawler()
    crawler.spider = crawler._create_spider("mine")

    async def process() -> Any:
        return await manager(*pipelines, crawler=crawler).process_item_async(["item"])

    return asyncio.run(process())


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    "made",
    [lambda item: item, lambda item: [*item, "more"], lambda item: None, lambda item: {"other": item}],
)
def test_each_gets_what_the_one_before_it_made(made: Callable[[Any], Any], waits: bool) -> None:
    met: list[Any] = []
    chain = Pipeline(made, waits=waits), Pipeline(lambda item: met.append(item) or item, waits=not waits)
    assert processed(ItemProcessor, *chain) == processed(ItemPipelineManager, *chain) == made(["item"])
    assert met == 2 * [made(["item"])]


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_dropped_goes_no_further(waits: bool) -> None:
    met: list[Any] = []
    with pytest.raises(DropItem, match="no more"):
        processed(ItemProcessor, Pipeline(drop, waits=waits), Pipeline(met.append))
    assert not met


def test_pipelines_that_want_the_spider_get_it() -> None:
    with pytest.warns(match="requires a spider argument"):
        assert processed(ItemProcessor, Older()) == ["item", "mine"]
