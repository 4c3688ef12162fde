"""A page's tree is in memory only as long as somebody will read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings

from middlewares.outlinks import OutlinksMiddleware
from pipelines.html import HtmlPipeline
from spiders.broad import Broad
from webcrawl.crawler.pages.from_response import document_of, page_of
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.page import Page

URL = "http://example.com/"


@pytest.fixture
def crawler() -> Crawler:
    settings = Settings()
    settings.setmodule("settings.base")
    return Crawler(Broad, settings)


def answered() -> Response:
    return HtmlResponse(URL, body=b"<title>A</title>", encoding="utf-8", request=Request(URL))


def made(document: Document) -> bool:
    """Whether its tree is there."""
    return document._html is not None


def seen_by_spider(crawler: Crawler, response: Response) -> Page:
    """What the middleware lets through of a spider that has looked at the tree."""

    async def output() -> AsyncIterator[Page]:
        page = page_of(response)
        assert page.document is not None and page.document.html is not None
        yield page

    async def run() -> list[Page]:
        middleware = OutlinksMiddleware.from_crawler(crawler)
        return [one async for one in middleware.process_spider_output(response, output())]

    (page,) = asyncio.run(run())
    return page


def test_without_a_pipeline_for_it_the_tree_goes_with_the_spider(crawler: Crawler) -> None:
    page = seen_by_spider(crawler, answered())
    assert page.document is not None
    assert not made(page.document)
    assert page.document.html.css_first("title").text() == "A"  # for who asks all the same


def test_the_tree_stays_for_the_pipeline_that_reads_it(crawler: Crawler) -> None:
    pipeline = HtmlPipeline.from_crawler(crawler)
    Session.of(crawler).components.collect_reads(Broad(), [pipeline])
    page = seen_by_spider(crawler, answered())
    assert page.document is not None
    assert made(page.document)
    assert pipeline.process_item(page).title == "A"


def test_what_was_parsed_elsewhere_is_kept(crawler: Crawler) -> None:
    """It would take too long to make it again on the event loop."""
    response = answered()
    document = document_of(response)
    document.take(document.parsed())
    page = seen_by_spider(crawler, response)
    assert page.document is document
    assert made(document)
