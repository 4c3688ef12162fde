"""Marks soft 404s: error pages with status 200, and redirects of unknown paths."""

from __future__ import annotations

import logging
import secrets
import string
from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.crawler.access import UNKNOWN_PATH, tasks_of
from webcrawl.crawler.components import Reads
from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.pages.from_response import page_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.page import HEAD_ONLY, Page
from webcrawl.errors import EngineUnavailable, InvalidURL, StoreUnavailable
from webcrawl.pipelines.html import HtmlPipeline
from webcrawl.pipelines.near_duplicates import simhash_of
from webcrawl.policies.soft_404 import (
    Print,
    UnknownPathAnswer,
    impossible,
    may_be_error,
    payload_print,
    text_print,
)
from webcrawl.urls.canonical import resolve_location

logger = logging.getLogger(__name__)

_LETTERS = 24
"""The number of random letters in a path that cannot exist: 112 bits."""
_MOST_BYTES = 256 * 1024
"""The longest page that may wait in memory for the answer of its host. For a longer page, the host is not asked."""


class Soft404Pipeline(SessionComponent):
    """Requests a path that cannot exist from a host, and marks pages that look like the answer; see `Soft404s`."""

    reads = Reads.SIMHASH
    needs = "SOFT_404"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._html = HtmlPipeline(session)

    def process_item(self, item: Any) -> Any | Awaitable[Any]:
        if not isinstance(item, Page) or item.status is None:
            return item
        if 300 <= item.status < 400:
            return self._judge_redirect(item)
        if HEAD_ONLY in item.archived.remarks:
            return item
        if item.status != 200 or not is_html(item.mime_type) or not self._session.soft_404s.is_open(item):
            return item
        return self._judge(item)

    async def _judge(self, page: Page) -> Page:
        assert page.document is not None
        ask = self._ask if len(page.document) <= _MOST_BYTES else None
        look = _look(page)
        try:
            # while the page waits for an answer, pages of other hosts can be fetched
            with self._session.readers.unused(page.document):
                is_error = await self._session.soft_404s.judge(page, look, ask)
        except EngineUnavailable:
            return page  # the page cannot be acknowledged either, and is fetched again
        return self._mark(page, is_error=is_error)

    async def _judge_redirect(self, page: Page) -> Page:
        return self._mark(page, is_error=await self._session.soft_404s.is_error_redirect(page))

    def _mark(self, page: Page, *, is_error: bool) -> Page:
        if is_error and may_be_error(page.url):
            page.soft_404 = True
            tasks_of(self._crawler).count("soft_404")
        return page

    async def _ask(self, page: Page) -> UnknownPathAnswer | None:
        """Requests a path that cannot exist from the host of a page; returns None if the crawl ends first."""
        word = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_LETTERS))
        url = impossible(page.final_url, word)
        try:
            response = await self._crawler.engine.download_async(_request(url))
        except (Postponed, EngineUnavailable, StoreUnavailable):
            return None
        except Exception as error:  # robots.txt disallows it, or the host does not answer
            logger.info("%s, which should not exist: %s", url, error)
            return UnknownPathAnswer()
        target = _target(response)
        answer = UnknownPathAnswer(
            response.status, await self._shown(response), "" if word in target else target
        )
        logger.info("%s, which should not exist: %s", url, answer.about())
        return answer

    async def _shown(self, response: Response) -> Print | None:
        if response.status != 200:
            return None
        page = page_of(response)
        if isawaitable(reading := self._html.process_item(page)):
            await reading
        return _look(page)


def _request(url: str) -> Request:
    return Request(
        url,
        meta={UNKNOWN_PATH: True, "dont_redirect": True, "allow_offsite": True, "dont_merge_cookies": True},
    )


def _target(response: Response) -> str:
    """Returns the target of a redirect; "" for other responses."""
    location = response.headers.get("Location")
    if not 300 <= response.status < 400 or location is None:
        return ""
    try:
        return resolve_location(location, response.url) or ""
    except InvalidURL:
        return ""


def _look(page: Page) -> Print:
    """Returns the fingerprint of a page. A copy that was not read has only the digest of its payload."""
    payload = payload_print(page.digest)
    if page.reading.text_hash is None:
        if not (text := page.main_text or page.text):
            return Print(payload)
        page.reading.text_hash = simhash_of(page)
        if page.reading.text_hash is None:
            return Print(payload, text=text_print(text, page.final_url))
    return Print(payload, simhash=page.reading.text_hash)
