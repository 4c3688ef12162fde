"""A spider's requests to a host are sent by their priorities, as in Scrapy."""

from __future__ import annotations

from collections.abc import Callable

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
PRIORITIES = [0, 5, 7, -100, 1000, 6, -4, -5, 4, 3, 2**40]

RANKED = f"""
from scrapy import Request, Spider


class Ranked(Spider):
    name = "ranked"

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        for priority in {PRIORITIES}:
            yield Request(self.home + f"/{{priority}}", priority=priority, callback=self.leaf)

    def leaf(self, response):
        if response.url.endswith("/7"):
            yield Request(self.home + "/late", priority=8, callback=self.leaf)
"""


def test_requests_to_a_host_are_sent_by_priority(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("ranked", RANKED)
    web = local_web(SITE)
    for path in ("/", "/late", *(f"/{priority}" for priority in PRIORITIES)):
        web.put(SITE, path, path)
    options = {"project": project.folder, "arguments": {"home": web.host(SITE)}, "timeout": 30}
    result = run_crawl("ranked", DOWNLOAD_DELAY=0.3, **options)
    assert result.returncode == 0, result.stderr
    order = web.paths(SITE)[2:]
    late = order.index("/late")
    del order[late]
    assert order == [f"/{priority}" for priority in sorted(PRIORITIES, reverse=True)]
    assert order.index("/7") < late <= order.index("/7") + 3, "it waits for requests that started before"
