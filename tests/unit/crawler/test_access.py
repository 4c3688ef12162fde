"""What components find through their crawler, and the error that names a missing setting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.access import ROBOTS, host_of, is_robots, tasks_of
from webcrawl.errors import ConfigurationError


def test_another_scheduler_is_named_in_the_error() -> None:
    crawler = cast("Crawler", SimpleNamespace(engine=SimpleNamespace(scheduler=object())))
    with pytest.raises(ConfigurationError, match=r'SCHEDULER = "webcrawl\.scheduler\.FrontierScheduler"'):
        tasks_of(crawler)


def test_a_host_is_found_however_its_url_is_written() -> None:
    assert host_of(Request("HTTP://Example.org:80/a#b")) == "http://example.org"


def test_a_fetch_of_robots_txt_is_marked() -> None:
    assert is_robots(Request("http://example.org/robots.txt", meta={ROBOTS: True}))
    assert not is_robots(Request("http://example.org/robots.txt"))
