"""Answers those who wait for a page of the live lane, once the page is stored."""

from __future__ import annotations

from typing import Any

from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.page import REDIRECTS_TO_ITSELF, WANTS_COOKIES, Page
from webcrawl.errors import EngineUnavailable
from webcrawl.live.answering import Answering
from webcrawl.live.events import FILTERED, REDIRECTS, LiveAnswer
from webcrawl.live.stored import REDIRECT_STATUSES, target_of
from webcrawl.urls.canonical import normalize


class LivePipeline(SessionComponent):
    """The last pipeline of the spider `live`. A URL is acknowledged after its page has passed here."""

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            row, url = item.row(), normalize(item.url)
            try:
                await self._session.connection.retry_until_available(lambda: self._answer(url, row))
            except EngineUnavailable:
                # the page cannot be acknowledged either: the next worker answers
                return item
        return item

    async def _answer(self, url: str, row: dict[str, Any]) -> None:
        spider: Any = self._crawler.spider
        answering: Answering = spider.answering
        if (target := target_of(row)) is not None:
            await answering.move(url, target)
        elif row["status"] in REDIRECT_STATUSES:
            await answering.finish(url, _refused(url, row))
        else:
            await answering.finish(url, LiveAnswer.of_row(row))


def _refused(url: str, row: dict[str, Any]) -> LiveAnswer:
    """Returns the answer for a redirect that is not followed."""
    remarks = (row["details"] or {}).get("remarks") or ()
    if REDIRECTS_TO_ITSELF in remarks:
        return LiveAnswer(url, REDIRECTS, "it redirects to itself", row)
    if WANTS_COOKIES in remarks:
        return LiveAnswer(url, REDIRECTS, "it redirects until it gets its cookie back", row)
    return LiveAnswer(url, FILTERED, "its redirect is not followed", row)
