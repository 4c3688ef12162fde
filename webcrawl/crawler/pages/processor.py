"""Scrapy's item pipelines, with less around one that returns at once."""

from __future__ import annotations

from typing import Any

from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name


class ItemProcessor(ItemPipelineManager):
    """`ITEM_PROCESSOR = "webcrawl.crawler.pages.processor.ItemProcessor"`.

    Most pipelines are for other pages than this one and give back what they were given; Scrapy makes a coroutine of
    each, which takes 0.02 ms a page.
    """

    async def process_item_async(self, item: Any) -> Any:
        for method in self.methods["process_item"]:
            assert method is not None
            wants_spider = method in self._mw_methods_requiring_spider
            result = method(item, self._spider) if wants_spider else method(item)
            if result is not item:
                result = await ensure_awaitable(result, _warn=global_object_name(method))
            item = result
        return item
