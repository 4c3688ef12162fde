"""Adds the text of frames to their frameset, which has no text itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from itertools import islice
from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.pages.from_response import document_of
from webcrawl.crawler.pages.response_links import frames_of
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.links import PageLinks
from webcrawl.documents.page import Page
from webcrawl.errors import EngineUnavailable
from webcrawl.urls.canonical import normalize, split

logger = logging.getLogger(__name__)

MOST_FRAMES = 20
MOST_BYTES = 256 * 1024
"""The most bytes of a frameset or frame that is stitched: this process parses them, and waits for up to 20 frames."""


class FramesMiddleware(SessionComponent):
    """With FRAMES_STITCHED, fetches the frames of a frameset together with the page instead of following them later.

    Each frame has its own row and archive record, and its links are followed. Its text is added to the frameset. Only
    frames that would be followed are fetched: frames within scope and filters, unless the page says nofollow. They must
    be on the page's host, whose lease this worker holds. If a frameset has more than MOST_BYTES, its frames are
    followed like other links. The text of a frame of more than MOST_BYTES is not added.
    """

    needs = "FRAMES_STITCHED"

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        spider: Any = self._crawler.spider
        is_stitched = hasattr(spider, "links") and _is_small(document_of(response))
        addresses = frames_of(response) if is_stitched else []
        if not addresses:
            async for output in result:
                yield output
            return
        outputs = [output async for output in result]
        followed = {url for output in outputs if isinstance(output, PageLinks) for url in output.links}
        frames = await self._fetch(response, [url for url in addresses if url in followed])
        for output in outputs:
            if isinstance(output, Page) and output.document is document_of(response):
                output.reading.frames = tuple(filter(_is_small, map(document_of, frames.values())))
            elif isinstance(output, PageLinks):
                output = _without(output, frames)
            yield output
        for frame in frames.values():
            page: Page = spider.page(frame)
            page.reading.is_frame = _is_small(document_of(frame))
            yield page
            yield _without(spider.links(frame), frames)

    async def _fetch(self, response: Response, urls: list[str]) -> dict[str, Response]:
        """Returns the responses of the frames that could be fetched and are HTML, by URL."""
        host = split(normalize(response.url))[0]
        own = (url for url in urls if split(url)[0] == host)
        allowed = (url for url in own if self._session.scope.filters.apply(url) is not None)
        fetched = await asyncio.gather(
            *(self._fetch_frame(response, url) for url in islice(allowed, MOST_FRAMES))
        )
        return {url: frame for url, frame in fetched if frame is not None}

    async def _fetch_frame(self, response: Response, url: str) -> tuple[str, Response | None]:
        meta = {
            "depth": response.meta.get("depth", 0) + 1,
            "referrer": response.url,
            "dont_redirect": True,
        }
        request = Request(url, meta=meta)
        try:
            frame = await self._crawler.engine.download_async(request)
        except (Postponed, EngineUnavailable):
            raise
        except Exception as error:  # the frame is followed like any other link, and fails as one
            logger.info("Cannot fetch frame %s of %s: %s", url, response.url, error)
            return url, None
        is_good = 200 <= frame.status < 300 and is_html(document_of(frame).mime_type)
        return url, frame if is_good else None


def _is_small(document: Document) -> bool:
    return len(document) <= MOST_BYTES


def _without(links: PageLinks, frames: Collection[str]) -> PageLinks:
    return replace(links, links=[url for url in links.links if url not in frames])
