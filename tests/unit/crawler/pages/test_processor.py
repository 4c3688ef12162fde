"""The chain of item pipelines has the semantics of Scrapy's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.test import get_crawler

from tests.cases import cases
from webcrawl.crawler.pages.processor import ItemProcessor


class Pipeline:
    """Applies `made` to an item, in a coroutine if `waits`."""

    def __init__(self, made: Callable[[Any], Any], *, waits: bool = False) -> None:
        self.made, self.waits = made, waits

    def process_item(self, item: Any) -> Any:
        async def wait() -> Any:
            await asyncio.sleep(0)
            return self.made(item)

        return wait() if self.waits else self.made(item)


class Older:
    """A pipeline in the style of Scrapy before 2.14."""

    def process_item(self, item: Any, spider: Any) -> Any:
        return [*item, spider.name]


def drop(item: Any) -> Any:
    raise DropItem("no more")


def processed(manager: type[ItemPipelineManager], *pipelines: Any) -> Any:
    crawler = get_crawler()
    crawler.spider = crawler._create_spider("mine")
    crawler.engine = SimpleNamespace(scheduler=None)  # another scheduler: there are no totals

    async def process() -> Any:
        return await manager(*pipelines, crawler=crawler).process_item_async(["item"])

    return asyncio.run(process())


@cases("waits", [False, True])
@cases(
    "made",
    [lambda item: item, lambda item: [*item, "more"], lambda item: None, lambda item: {"other": item}],
)
def test_each_pipeline_receives_the_result_of_the_previous_one(
    made: Callable[[Any], Any], waits: bool
) -> None:
    received: list[Any] = []
    chain = Pipeline(made, waits=waits), Pipeline(lambda item: received.append(item) or item, waits=not waits)
    assert processed(ItemProcessor, *chain) == processed(ItemPipelineManager, *chain) == made(["item"])
    assert received == 2 * [made(["item"])]


@pytest.mark.parametrize("waits", [False, True])
def test_dropped_item_goes_no_further(waits: bool) -> None:
    received: list[Any] = []
    with pytest.raises(DropItem, match="no more"):
        processed(ItemProcessor, Pipeline(drop, waits=waits), Pipeline(received.append))
    assert not received


def test_pipelines_with_a_spider_argument_receive_it() -> None:
    with pytest.warns(match="requires a spider argument"):
        assert processed(ItemProcessor, Older()) == ["item", "mine"]
