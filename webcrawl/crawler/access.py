"""How a component finds the frontier's scheduler, and what components tell each other through requests."""

from __future__ import annotations

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.errors import ConfigurationError
from webcrawl.scheduler import FrontierScheduler
from webcrawl.urls.canonical import normalize, split

ROBOTS = "robots_txt"
"""Request.meta key of a fetch of robots.txt: it is no page."""


def frontier_scheduler(crawler: Crawler) -> FrontierScheduler:
    """The scheduler of a running crawl; raises ConfigurationError when it is another one than ours."""
    scheduler = crawler.engine.scheduler
    if not isinstance(scheduler, FrontierScheduler):
        raise ConfigurationError('the middlewares need SCHEDULER = "webcrawl.scheduler.FrontierScheduler"')
    return scheduler


def host_of(request: Request) -> str:
    """The host key of a request, however its URL is written; raises InvalidURL."""
    return split(normalize(request.url))[0]


def is_robots(request: Request) -> bool:
    """Whether a request fetches robots.txt for us."""
    return ROBOTS in request.meta
