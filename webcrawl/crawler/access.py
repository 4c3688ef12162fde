"""The tasks of a crawl, for its components, and the keys of Request.meta that they share."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import normalize, split

ROBOTS = "robots_txt"
"""Request.meta key that marks a fetch of robots.txt, which is not a page. True: for pages of the host that is asked."""

UNKNOWN_PATH = "unknown_path"
"""Request.meta key that marks a request for a path that cannot exist, which is not a page either."""


def tasks_of(crawler: Crawler) -> Tasks:
    """Returns the tasks of a running crawl; raises ConfigurationError if its scheduler is not ours."""
    scheduler: Any = crawler.engine.scheduler
    try:
        tasks: Tasks = scheduler.tasks
    except AttributeError:
        raise ConfigurationError(
            'the middlewares and pipelines need SCHEDULER = "webcrawl.scheduler.FrontierScheduler"'
        ) from None
    return tasks


def host_of(request: Request) -> str:
    """Returns the host key of a request, however its URL is written; raises InvalidURL."""
    return split(normalize(request.url))[0]


def is_robots(request: Request) -> bool:
    """Whether a request fetches robots.txt."""
    return ROBOTS in request.meta


def is_question(request: Request) -> bool:
    """Whether a request only asks for robots.txt or for a path that cannot exist, and so counts in no figure."""
    return ROBOTS in request.meta or UNKNOWN_PATH in request.meta
