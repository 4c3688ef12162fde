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


def test_host_of_a_request_is_normalized() -> None:
    assert host_of(Request("HTTP://Example.org:80/a#b")) == "http://example.org"


def test_robots_txt_request_is_recognized_by_its_meta() -> None:
    assert is_robots(Request("http://example.org/robots.txt", meta={ROBOTS: True}))
    assert not is_robots(Request("http://example.org/robots.txt"))
