"""A spider and a pipeline that never end the work on some pages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from scrapy.http import Response

from webcrawl.documents.page import Page
from webcrawl.spiders.base import BroadSpider


class Hanging(BroadSpider):
    """Waits forever in the callback of /callback, once."""

    name = "hanging"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._hung = False

    async def parse(self, response: Response, **kwargs: Any) -> Any:  # type: ignore[override]
        if response.url.endswith("/callback") and not self._hung:
            self._hung = True
            await asyncio.Event().wait()
        for one in super().parse(response):
            yield one


class HangingPipeline:
    """Waits forever for each /pipeline, and ignores it when it is cancelled for /stubborn, and always for /endless."""

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.url.endswith("/pipeline"):
            await asyncio.Event().wait()
        if isinstance(item, Page) and item.url.endswith("/stubborn"):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.2)
        while isinstance(item, Page) and item.url.endswith("/endless"):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return item
