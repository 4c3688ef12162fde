"""The language of pages that do not say it themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from webcrawl.mime.language import detected, model
from webcrawl.page import Page


class LanguagePipeline:
    """Takes it from the header Content-Language, or tells it from the text; `language_source` says which.

    Of a page whose `language` is known it only notes that it was declared.
    """

    def __init__(self) -> None:
        self._loading: asyncio.Task[Any] | None = None

    def process_item(self, item: Any) -> Any | Awaitable[Any]:
        if not isinstance(item, Page) or item.noindex:
            return item
        if item.language is None:
            item.language = item.content_language
        if item.language is not None:
            item.language_source = "declared"
        elif text := item.main_text or item.text:
            return self._detect(item, text)
        return item

    async def _detect(self, page: Page, text: str) -> Page:
        if self._loading is None:
            # not on the event loop: it takes half a second
            self._loading = asyncio.create_task(asyncio.to_thread(model))
        await asyncio.shield(self._loading)
        page.language = detected(text)
        page.language_source = "detected" if page.language else None
        return page
