"""Counts the links and requests that spiders yield, without following them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.pages.from_response import forget_tree, outline_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.reparse.scheduler import scheduler_of


class LinksMiddleware(SessionComponent):
    """Replaces `OutlinksMiddleware`: removes links and requests from the output of a spider.

    The spider's `start` does not run.
    """

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        # `start` is not iterated, so it never begins
        no_requests: tuple[Any, ...] = ()
        for request in no_requests:
            yield request

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        count = scheduler_of(self._crawler).tasks.count
        async for output in result:
            if isinstance(output, Request):
                count("requests")
            elif isinstance(output, PageLinks):
                count("links", len(output.links))
            elif not isinstance(output, PageResources):
                yield output
        # otherwise each page that waits for the pipelines would keep a tree in memory
        if outline_of(response) or not self._session.components.keep_trees:
            forget_tree(response)
