"""Single pages are logged only at level DEBUG."""

from __future__ import annotations

import logging

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from tests.cases import cases
from webcrawl.crawler.report.logs import QuietLogFormatter


@cases(
    ("level", "shown"),
    [("DEBUG", True), ("INFO", False), ("WARNING", False), (logging.DEBUG, True), (logging.INFO, False)],
)
def test_pages_are_logged_only_at_level_debug(level: int | str, shown: bool) -> None:
    crawler = get_crawler(settings_dict={"LOG_LEVEL": level})
    formatter = QuietLogFormatter.from_crawler(crawler)
    request, spider = Request("http://example.org/"), Spider("pages")
    response = Response(request.url, request=request)
    assert bool(formatter.crawled(request, response, spider)) is shown
    assert bool(formatter.scraped({}, response, spider)) is shown
