"""Start URLs for a scrapy-redis spider, taken from its list while it works and not only when it is idle."""

from __future__ import annotations

import asyncio
import logging
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


async def feed(crawler: Crawler, session: Session) -> None:
    """Until cancelled: crawl what is pushed to the spider's list, looking twice a second."""
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
    while True:
        try:
            for request in await asyncio.to_thread(lambda: list(spider.next_requests())):
                crawler.engine.crawl(request)
        except AWAY as error:
            logger.info("No start URLs just now: %s", error)
        except Exception:
            logger.exception("No start URLs can be read from %s", spider.redis_key)
        await asyncio.sleep(_FEED_SECONDS)
