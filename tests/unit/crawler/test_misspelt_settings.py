"""Misspelt names of settings get a warning with the right name; settings of a user's own get none."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import scrapy
import scrapy_playwright
import scrapy_redis
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings, default_settings

from tests.cases import cases
from webcrawl.config import DECLARED
from webcrawl.crawler.misspelt_settings import WITHOUT_DEFAULTS, meant

_READ = re.compile(r"""settings(?:\.(?:get\w*|pop|setdefault)\(|\[)\s*['"]([A-Z][A-Z0-9_]+)['"]""")


@cases(
    ("name", "known"),
    [
        ("DOWNLOAD_DELY", "DOWNLOAD_DELAY"),
        ("DOWNLAOD_DELAY", "DOWNLOAD_DELAY"),
        ("DOWNLOADDELAY", "DOWNLOAD_DELAY"),
        ("download_delay", "DOWNLOAD_DELAY"),
        ("CONCURRENT_REQUEST_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_DOMAIN"),
        ("ITEM_PIPELINE", "ITEM_PIPELINES"),
        ("ROBOTSTXT_OBAY", "ROBOTSTXT_OBEY"),
        ("DATA_DRI", "DATA_DIR"),
        ("REDIS_START_URL_KEY", "REDIS_START_URLS_KEY"),
        ("PLAYWRIGHT_LAUNCH_OPTION", "PLAYWRIGHT_LAUNCH_OPTIONS"),
    ],
)
def test_a_near_miss_is_known(name: str, known: str) -> None:
    assert meant(name) == known


@cases(
    "name",
    [
        "MY_THING",
        "MINE",
        "MY_USER_AGENT",
        "USER_AGENTS",
        "ROTATING_PROXY_LIST",
        "ZYTE_API_KEY",
        "SPIDER_DELAY",
    ],
)
def test_a_setting_of_the_users_own_is_none(name: str) -> None:
    assert meant(name) is None


def test_all_settings_that_the_libraries_read_are_known() -> None:
    known = {name for name in vars(default_settings) if name.isupper()} | WITHOUT_DEFAULTS | set(DECLARED)
    for library in (scrapy, scrapy_redis, scrapy_playwright):
        sources = Path(str(library.__file__)).parent.rglob("*.py")
        read = {name for source in sources for name in _READ.findall(source.read_text())}
        assert len(read) > 5 and read <= known, library.__name__
    assert [name for name in known if meant(name)] == []


def warned(caplog: pytest.LogCaptureFixture, setter: str, **given: Any) -> list[str]:
    """The warnings at the start of a crawl with these settings, set by a project, a spider or the command line."""
    caplog.clear()
    settings = Settings({"ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}})
    if setter != "spider":
        settings.setdict(given, priority=setter)
    spider = type(
        "Asking", (Spider,), {"name": "asking", "custom_settings": given if setter == "spider" else {}}
    )
    crawler = Crawler(spider, settings)
    crawler.crawling = True
    with caplog.at_level(logging.WARNING, "webcrawl"):
        crawler.addons.load_settings(crawler.settings)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("setter", ["project", "spider", "cmdline"])
def test_a_crawl_warns_once(setter: str, caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, setter, DOWNLOAD_DELY="3", MY_THING="1") == [
        "DOWNLOAD_DELY is not a setting; did you mean DOWNLOAD_DELAY?"
    ]


def test_defaults_give_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, "project") == []
