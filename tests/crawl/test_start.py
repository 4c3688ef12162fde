"""What `scrapy crawl` checks before its first request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.nameserver import Nameserver, Record
from tests.web import LocalWeb
from webcrawl.config import DEFAULTS

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

FED = """
from scrapy_redis.spiders import RedisSpider


class Fed(RedisSpider):
    name = "fed"
"""


@pytest.mark.parametrize("command", [("crawl",), ("workers", "2")])
def test_a_redis_spider_without_a_server_is_refused(
    project: Project, run_crawl: RunCrawl, command: tuple[str, ...]
) -> None:
    project.add_spider("fed", FED)
    result = run_crawl("fed", project=project.folder, command=command, timeout=60, status=2)
    assert "REDIS_URL" in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert not (result.data_dir / "engine").exists(), "an engine was started"


@pytest.mark.parametrize(
    ("spider", "url", "wrong"),
    [
        ("fed", "redis://127.0.0.1:1,127.0.0.1:2", "scrapy-redis, whose client connects to one server"),
        ("broad", "redis://127.0.0.1:1,127.0.0.1:x", "the port 'x' of 127.0.0.1"),
        ("broad", "redis+sentinel://:secret@127.0.0.1:1", "name the primary that the sentinels watch"),
    ],
)
def test_a_url_of_servers_that_does_not_fit_is_refused(
    project: Project, run_crawl: RunCrawl, spider: str, url: str, wrong: str
) -> None:
    project.add_spider("fed", FED)
    result = run_crawl(spider, project=project.folder, timeout=60, REDIS_URL=url, status=2)
    assert wrong in result.stderr and "REDIS_URL" in result.stderr and "secret" not in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_server_in_redis_params_is_the_engine(
    local_web: StartWeb, crawl: RunCrawl, redis_url: str, valkey: object
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "one page")
    path = redis_url.removeprefix("unix://")
    result = crawl([web.url(SITE)], REDIS_PARAMS=f'{{"unix_socket_path": "{path}"}}')
    assert result.summary["pages"] == 1, result.stderr
    assert not (result.data_dir / "engine").exists(), "an embedded engine was started"


def test_the_default_user_agent_causes_a_warning(local_web: StartWeb, crawl: RunCrawl) -> None:
    name = "shop.example"
    web = local_web(name)
    seeds = [web.put(name, path, path) for path in ("/", "/a", "/b")]
    with Nameserver({name: [Record("A", "127.0.0.1")]}) as nameserver:
        default = DEFAULTS["USER_AGENT"]
        asked = crawl(seeds, DNS_SERVERS=nameserver.address, CRAWL_ID="asked", USER_AGENT=default)
        named = crawl(seeds, DNS_SERVERS=nameserver.address, CRAWL_ID="named", USER_AGENT="bot (+mailto:me)")
    assert asked.stderr.count("USER_AGENT is the default") == 1
    assert "USER_AGENT" not in named.stderr
    assert len(web.urls()) == 6


def test_the_default_user_agent_causes_no_warning_for_local_hosts(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "one page")
    assert "USER_AGENT" not in crawl([web.url(SITE)]).stderr
