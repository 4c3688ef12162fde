"""scrapy-redis spiders, which read their start URLs from a list in Redis."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, items_of, until
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

FED = """
from scrapy_redis.spiders import RedisSpider


class Fed(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield {"url": response.url, "told": response.meta.get("told")}
"""


def test_a_redis_spider_is_fed_through_its_list(
    project: Project,
    local_web: StartWeb,
    run_crawl: RunCrawl,
    valkey: redis.Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    project.add_spider("fed", FED)
    web = local_web(SITE)
    valkey.lpush("fed:start_urls", web.put(SITE, "/a", "a"))
    valkey.lpush("fed:start_urls", json.dumps({"url": web.put(SITE, "/b", "b"), "meta": {"told": "so"}}))
    items = tmp_path / "items.jsonl"
    run_crawl(
        "fed",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        REDIS_URL=redis_url,
        CLOSESPIDER_ITEMCOUNT=2,
        ALLOWED_NETWORKS="127.0.1.0/24",
        timeout=60,
    )
    told = {item["url"].removeprefix(web.host(SITE)): item["told"] for item in items_of(items)}
    assert told == {"/a": None, "/b": "so"}
    assert valkey.llen("fed:start_urls") == 0


HANGING = """
import time
from pathlib import Path
from scrapy_redis.spiders import RedisSpider


class Hanging(RedisSpider):
    name = "hanging"

    def make_request_from_data(self, data):
        while Path("hang").exists():
            time.sleep(0.05)
        return super().make_request_from_data(data)

    def parse(self, response):
        yield {"url": response.url}
"""


def test_start_urls_read_by_a_killed_worker_are_crawled_by_the_next(
    project: Project, local_web: StartWeb, start_crawl: Any, valkey: redis.Redis, redis_url: str
) -> None:
    project.add_spider("hanging", HANGING)
    hang = project.folder / "hang"
    hang.touch()
    web = local_web(SITE)
    urls = [web.put(SITE, f"/{number}", str(number)) for number in range(5)]
    key = "hanging:start_urls"
    valkey.rpush(key, *urls)

    def start() -> Crawl:
        crawl: Crawl = start_crawl(
            "hanging",
            project=project.folder,
            REDIS_URL=redis_url,
            ALLOWED_NETWORKS="127.0.1.0/24",
            FRONTIER_LEASE_SECONDS=1.5,
        )
        return crawl

    killed = start()
    until(lambda: not valkey.exists(key), killed)
    killed.kill()
    hang.unlink()
    crawl = start()
    until(lambda: {*web.urls()} == {*urls} and not valkey.keys("*claimed*"), crawl)
    crawl.interrupt()
    assert crawl.wait(60).returncode == 0
    assert "Put 5 start URLs of dead workers back" in crawl.stderr
    assert (valkey.exists(key), valkey.keys("*claimed*")) == (0, [])
