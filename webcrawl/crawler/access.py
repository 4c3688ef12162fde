"""How components find the tasks of their crawl, and what they pass to each other with requests."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import normalize, split

ROBOTS = "robots_txt"
"""Request.meta key that marks a fetch of robots.txt, which is no page."""

UNKNOWN_PATH = "unknown_path"
"""Request.meta key that marks a request for a path that cannot exist, which is no page either."""


def tasks_of(crawler: Crawler) -> Tasks:
    """The tasks of a running crawl; raises ConfigurationError when its scheduler is not ours."""
    scheduler: Any = crawler.engine.scheduler
    try:
        tasks: Tasks = scheduler.tasks
    except AttributeError:
        raise ConfigurationError(
            'the middlewares and pipelines need SCHEDULER = "webcrawl.scheduler.FrontierScheduler"'
        ) from None
    return tasks


def host_of(request: Request) -> str:
    """The host key of a request, however its URL is written; raises InvalidURL."""
    return split(normalize(request.url))[0]


def is_robots(request: Request) -> bool:
    """Whether a request fetches robots.txt."""
    return ROBOTS in request.meta


def is_question(request: Request) -> bool:
    """Whether a request only asks for robots.txt or a path that cannot exist, and counts in no figure."""
    return ROBOTS in request.meta or UNKNOWN_PATH in request.meta
