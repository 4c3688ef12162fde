"""A spider's requests to a host are sent by their priorities, as in Scrapy; of links, low levels have a share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
MOVED, AFTER_REDIRECT, AFTER_RETRY = 900, 2, -1
PRIORITIES = [0, 5, 7, -100, 1000, 6, -4, -5, 4, 3, 2**40]

RANKED = f"""
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request


class Ranked(Spider):
    name = "ranked"
    custom_settings = {{
        "REDIRECT_PRIORITY_ADJUST": {AFTER_REDIRECT - MOVED},
        "RETRY_PRIORITY_ADJUST": {AFTER_RETRY - 6},
    }}

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        for priority in {PRIORITIES}:
            yield Request(self.home + f"/{{priority}}", priority=priority, callback=self.leaf)
        yield Request(self.home + "/moved", priority={MOVED}, callback=self.leaf)

    def leaf(self, response):
        if response.url.endswith("/7"):
            yield Request(self.home + "/late", priority=8, callback=self.leaf)
        if response.url.endswith("/6"):
            yield get_retry_request(response.request, spider=self, reason="empty", max_retry_times=1)
"""


def test_requests_to_a_host_are_sent_by_priority(local_web: StartWeb, run_spider: RunCrawl) -> None:
    web = local_web(SITE)
    for path in ("/", "/late", *(f"/{priority}" for priority in PRIORITIES)):
        web.put(SITE, path, path)
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": f"/{AFTER_REDIRECT}"}))
    web.put(SITE, f"/{AFTER_REDIRECT}", "the target")
    run_spider(RANKED, web.host(SITE), DOWNLOAD_DELAY=0.3)
    order = web.paths(SITE)[2:]
    late = order.index("/late")
    del order[late]
    order[order.index("/moved")] = f"/{MOVED}"
    assert order.count("/6") == 2
    order[len(order) - 1 - order[::-1].index("/6")] = f"/{AFTER_RETRY}"
    expected = sorted([*PRIORITIES, MOVED, AFTER_REDIRECT, AFTER_RETRY], reverse=True)
    assert order == [f"/{priority}" for priority in expected]
    assert order.index("/7") < late <= order.index("/7") + 3, "it waits for requests that started before"


def test_links_of_a_low_level_have_a_share_of_their_host(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    low, high = [f"/low/{number}" for number in range(40)], [f"/high/{number}" for number in range(600)]
    web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in (*low, *high)))
    for path in (*low, *high):
        web.put(SITE, path, f"the text of {path}")
    crawl([web.url(SITE)], URL_LEVELS='[["/low/", 7]]', CRAWL_MAX_PAGES=300, DOWNLOAD_DELAY=0.01)
    order = web.paths(SITE)[2:]
    positions = [number for number, path in enumerate(order) if path in low]
    assert 20 <= len(positions) <= 35, positions
    assert max(after - before for before, after in pairwise([0, *positions])) <= 30, positions
