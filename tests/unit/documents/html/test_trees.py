"""A page's tree stays in memory only while a component will read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings

from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.pages.from_response import document_of, page_of
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.documents.page import Page
from webcrawl.middlewares.outlinks import OutlinksMiddleware
from webcrawl.pipelines.html import HtmlPipeline
from webcrawl.spiders.broad import Broad

URL = "http://example.com/"


@pytest.fixture
def crawler() -> Crawler:
    settings = Settings()
    settings.setmodule("settings.base")
    settings.set("SOFT_404", False)  # what is known of hosts is in the engine
    return Crawler(Broad, completed(settings))


def html_response() -> Response:
    return HtmlResponse(URL, body=b"<title>A</title>", encoding="utf-8", request=Request(URL))


def has_tree(document: Document) -> bool:
    """Whether the tree is in memory."""
    return document._html is not None


def seen_by_spider(crawler: Crawler, response: Response) -> Page:
    """Returns the page that the middleware passes on from a spider that read the tree."""

    async def output() -> AsyncIterator[Page]:
        page = page_of(response)
        assert page.document is not None and page.document.html is not None
        yield page

    async def run() -> list[Page]:
        middleware = OutlinksMiddleware.from_crawler(crawler)
        return [one async for one in middleware.process_spider_output(response, output())]

    (page,) = asyncio.run(run())
    return page


def test_tree_is_freed_after_the_spider_without_a_pipeline_that_reads_it(crawler: Crawler) -> None:
    page = seen_by_spider(crawler, html_response())
    assert page.document is not None
    assert not has_tree(page.document)
    assert page.document.html.css_first("title").text() == "A"  # parsed again on access


def test_tree_is_kept_for_a_pipeline_that_reads_it(crawler: Crawler) -> None:
    pipeline = HtmlPipeline.from_crawler(crawler)
    Session.of(crawler).components.collect_reads(Broad(), [pipeline])
    page = seen_by_spider(crawler, html_response())
    assert page.document is not None
    assert has_tree(page.document)
    assert pipeline.process_item(page).title == "A"


def test_tree_parsed_in_another_thread_is_kept(crawler: Crawler) -> None:
    """Parsing it again would block the event loop for too long."""
    response = html_response()
    document = document_of(response)
    document.take(document.parsed())
    page = seen_by_spider(crawler, response)
    assert page.document is document
    assert has_tree(document)
