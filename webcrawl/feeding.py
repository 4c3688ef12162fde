"""Start URLs for a scrapy-redis spider, taken from its list while it works and not only when it is idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.engine import AWAY
from webcrawl.session import Session

logger = logging.getLogger(__name__)

_FEED_SECONDS = 0.5


def is_fed(spider: Any) -> bool:
    """Whether a spider takes its start URLs from a list, as scrapy-redis's RedisSpider does."""
    return hasattr(spider, "redis_key") and hasattr(spider, "next_requests")


async def feed(
    crawler: Crawler, session: Session, may_take: Callable[[], bool], ending: asyncio.Event
) -> None:
    """Crawl what is pushed to the spider's list, looking twice a second while `may_take` says so.

    It returns soon after `ending` is set, and is not to be cancelled: what was taken from the list is nowhere else.
    """
    spider: Any = crawler.spider
    make = spider.make_request_from_data

    def admitted(data: Any) -> Any:
        """What one entry of the list asks for; one that is no good must not take the others with it."""
        try:
            made = make(data)
            requests = [made] if isinstance(made, Request) else list(made or ())
            for request in requests:
                session.allow_seed(request.url)
        except Exception as error:
            logger.error("Start URL left out: %r: %s", data, error)
            crawler.stats.inc_value("frontier/bad_start_urls")
            return []
        return requests

    # the spider's own idle handler takes them this way too
    spider.make_request_from_data = admitted
    while not ending.is_set():
        try:
            if may_take():
                for request in await asyncio.to_thread(lambda: list(spider.next_requests())):
                    crawler.engine.crawl(request)
        except AWAY as error:
            logger.info("No start URLs just now: %s", error)
        except Exception:
            logger.exception("No start URLs can be read from %s", spider.redis_key)
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), _FEED_SECONDS)
