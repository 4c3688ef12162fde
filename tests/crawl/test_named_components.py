"""A setting that names a wrong component ends `scrapy crawl` in one line, wherever it is set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult

ODD = """
from webcrawl.spiders.base import BroadSpider


class Odd(BroadSpider):
    name = "odd"
    custom_settings = {"SPIDER_MIDDLEWARES": {"no.such.Thing": 5}}
"""
RunCrawl = Callable[..., CrawlResult]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("ITEM_PIPELINES", "[1]", "ITEM_PIPELINES must be a dict, not '[1]'"),
        ("DOWNLOAD_HANDLERS", "7", "DOWNLOAD_HANDLERS must be a dict, not '7'"),
        ("DEFAULT_REQUEST_HEADERS", "{", "DEFAULT_REQUEST_HEADERS must be a dict, not '{'"),
        ("FEEDS", "[" * 99_999, f"FEEDS must be a dict, not '{'[' * 496}..."),
        ("ADDONS", "no.such.Thing", "ADDONS must be a dict, not 'no.such.Thing'"),
        ("ADDONS", '{"no.such.Thing": 5}', "ADDONS: cannot import 'no.such.Thing' (No module named 'no')"),
        ("SPIDER_MODULES", "spiders,none", "SPIDER_MODULES: there is no module 'none'"),
        (
            "EXTENSIONS",
            '{"scrapy.Spider": "x"}',
            "the place of 'scrapy.Spider' must be a number or None, not 'x'",
        ),
        (
            "DOWNLOADER_MIDDLEWARES",
            '{"no.such.Thing": 5}',
            "DOWNLOADER_MIDDLEWARES: cannot import 'no.such.Thing'",
        ),
        ("DOWNLOAD_HANDLERS", '{"http": "no.Such"}', "DOWNLOAD_HANDLERS: cannot import 'no.Such' of 'http'"),
        ("FEED_EXPORTERS", '{"odd": 5}', "FEED_EXPORTERS: cannot import 5 of 'odd'"),
        ("FEEDS", '{"pages.json": 5}', "FEEDS: the options of 'pages.json' must be a dict, not 5"),
        ("SCHEDULER", "7", "SCHEDULER: cannot import '7'"),
    ],
)
def test_a_wrong_component_is_named_in_one_line(
    run_crawl: RunCrawl, setting: str, value: str, said: str
) -> None:
    result = run_crawl("broad", ["http://127.0.0.1:1/"], **{setting: value}, status=2)

    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_wrong_component_of_a_spider_is_named_in_one_line(project: Project) -> None:
    """Its settings come between those of the project and what the add-on makes of both."""
    project.add_spider("odd", ODD)

    said = project.scrapy("crawl", "odd", "-a", "seeds=http://127.0.0.1:1/", code=2)

    assert said == "scrapy crawl: SPIDER_MIDDLEWARES: cannot import 'no.such.Thing' (No module named 'no')\n"
