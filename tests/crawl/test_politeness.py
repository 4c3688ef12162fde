"""Politeness measured by each server's log, in which robots.txt counts where a site asks for a longer delay."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from redis import Redis

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, until
from tests.stamped import HANDLERS, SLOWLY, STAMP_SECONDS, gaps_of, sent_at
from tests.web import Hit, LocalWeb, Reply, generated_web

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER, THIRD, FOURTH = "127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4"


def put_pages(web: LocalWeb, label: str, number: int, robots: str = "", delay: float = 0.0) -> str:
    """Publishes a home page that links to `number` others; returns its URL."""
    links = "".join(f"<a href=/page{n}>{n}</a>" for n in range(number))
    for n in range(number):
        web.put(label, f"/page{n}", Reply(f"{label} page {n}", delay=delay))
    if robots:
        web.put(label, "/robots.txt", Reply(robots, headers={"Content-Type": "text/plain"}))
    return web.put(label, "/", Reply(links, delay=delay))


@contextmanager
def closed_port() -> Iterator[int]:
    """Reserves a port of 127.0.1.9 that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.1.9", 0))
        yield bound.getsockname()[1]


def test_two_workers_keep_the_delay_of_every_host(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER, THIRD)
    seeds = [put_pages(web, label, 9, delay=0.03) for label in (SITE, OTHER, THIRD)]
    result = crawl(seeds, workers=2, DOWNLOAD_DELAY=0.2)
    assert len(web.urls()) == 30
    for label in (SITE, OTHER, THIRD):
        assert web.max_concurrency(label) == 1
        assert 0.2 <= web.min_gap(label) < 0.4
    assert result.summary["pages"] == 30
    started = [[hit.started for hit in web.log(label)] for label in (SITE, OTHER, THIRD)]
    assert max(map(min, started)) < min(map(max, started)), "the hosts must be crawled in parallel"


def test_crawl_delay_and_disallow_rules_are_obeyed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    rules = "User-agent: *\nCrawl-delay: 0.5\nDisallow: /private/\nAllow: /private/open\n"
    slow = put_pages(web, SITE, 2, rules)
    paths = ("/private/a", "/private/open", "/private/%61/c", "/x/../private/d")
    links = "".join(f"<a href={path}>x</a>" for path in paths)
    web.put(SITE, "/page0", links)
    web.put(SITE, "/private/open", "open")
    quick = put_pages(web, OTHER, 20)
    result = crawl([slow, quick], DOWNLOAD_DELAY=0.05)
    asked = web.paths(SITE)
    assert [path for path in asked if path.startswith("/private")] == ["/private/open"]
    assert 0.5 <= web.min_gap(SITE, robots=True) < 0.9
    assert 0.05 <= web.min_gap(OTHER) < 0.2
    assert result.summary["robots_denied"] == 3
    denied = [row for row in result.rows() if row["error"]]
    assert len(denied) == 3
    assert all("robots.txt" in row["error"] and row["status"] is None for row in denied)


def test_an_unavailable_robots_txt_blocks_its_host(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER, THIRD)
    home = put_pages(web, SITE, 3)
    web.put(SITE, "/robots.txt", Reply("down", status=500))
    quick = put_pages(web, OTHER, 3)
    later = put_pages(web, THIRD, 3)
    robots = iter([503, 502, 200, 200])
    web.put(THIRD, "/robots.txt", lambda hit: Reply("User-agent: *\nDisallow: /page1", status=next(robots)))
    result = crawl([home, quick, later], POLITENESS_BACKOFF=0.1, FRONTIER_RETRY_DELAY=0.1)
    assert set(web.paths(SITE)) == {"/robots.txt"}
    assert 2 <= len(web.paths(SITE)) <= 5
    assert web.min_gap(SITE) >= 0.1
    assert len(web.pages(OTHER)) == 4
    assert [hit.path for hit in web.pages(THIRD)] == ["/", "/page0", "/page2"]
    assert result.summary["dead_letters"] == 1
    assert (result.summary["queued"], result.summary["leased"]) == (0, 0)


def test_redirected_and_huge_robots_txt_are_obeyed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER, THIRD, FOURTH)
    home = put_pages(web, SITE, 3)
    web.put(SITE, "/robots.txt", Reply(status=301, headers={"Location": "/r"}))
    web.put(SITE, "/r", Reply(status=302, headers={"Location": "/rules.txt"}))
    web.put(SITE, "/rules.txt", "User-agent: *\nDisallow:\n\nUser-agent: ourbot\nDisallow: /page1\n")
    huge = "User-agent: *\nDisallow: /page1\n" + "# nothing\n" * 60_000 + "Disallow: /page2\n"
    second = put_pages(web, OTHER, 3, huge)
    third = put_pages(web, THIRD, 3)
    web.put(THIRD, "/robots.txt", lambda hit: Reply(status=302, headers={"Location": "/robots.txt?again"}))
    patterns = "".join(f"Disallow: /*{number}*x\n" for number in range(23_000))
    fourth = put_pages(web, FOURTH, 3, f"User-agent: *\nCrawl-delay: 0.3\n{patterns}Disallow: /*age1$\n")
    agent = "ourbot/2.0 (+https://example.org/)"
    result = crawl([home, second, third, fourth], DOWNLOAD_DELAY=0.05, USER_AGENT=agent)
    assert {hit.headers["User-Agent"] for hit in web.log()} == {agent}
    assert web.paths(SITE)[:3] == ["/robots.txt", "/r", "/rules.txt"]
    assert {hit.path for hit in web.pages(SITE)} == {"/r", "/rules.txt", "/", "/page0", "/page2"}
    assert {hit.path for hit in web.pages(OTHER)} == {"/", "/page0", "/page2"}
    assert {"/", "/page0", "/page1", "/page2"} <= set(web.paths(THIRD))
    assert len([path for path in web.paths(THIRD) if path.startswith("/robots.txt")]) <= 6
    assert {hit.path for hit in web.pages(FOURTH)} == {"/", "/page0", "/page2"}
    assert web.min_gap(FOURTH) >= 0.3
    for label in (SITE, OTHER, THIRD):
        assert web.min_gap(label) >= 0.05
        assert web.max_concurrency(label) == 1
    assert result.summary["robots_denied"] == 3


def test_429_with_retry_after_blocks_only_that_host(
    local_web: StartWeb, crawl: RunCrawl, redis_url: str, valkey: Redis
) -> None:
    web = local_web(SITE, OTHER)
    home = put_pages(web, SITE, 6)

    def busy_once(hit: Hit) -> Reply:
        first = web.paths(SITE).count("/page2") == 1
        return Reply("too many", status=429, headers={"Retry-After": "3"}) if first else Reply("at last")

    web.put(SITE, "/page2", busy_once)
    told: list[bool] = []

    def meanwhile(hit: Hit) -> Reply:
        records = valkey.scan_iter("wc:{s*}:*127.0.1.*", _type="hash")
        told.append(any(valkey.hexists(key, "asked") for key in records))
        return Reply(f"{OTHER} {hit.path}")

    other = put_pages(web, OTHER, 34)
    web.put(OTHER, "/page9", meanwhile)
    web.put(OTHER, "/page14", meanwhile)
    web.put(OTHER, "/page19", meanwhile)
    result = crawl([home, other], DOWNLOAD_DELAY=0.1, REDIS_URL=redis_url)
    assert any(told), "the engine knows that the host asked for its pause"
    log = web.log(SITE)
    refused = next(hit for hit in log if hit.status == 429)
    after = [hit.started for hit in log if hit.started > refused.started]
    assert 3.0 <= min(after) - refused.finished < 4.5
    during = [hit for hit in web.log(OTHER) if refused.finished < hit.started < refused.finished + 3.0]
    assert len(during) > 10
    assert [hit.status for hit in log if hit.path == "/page2"] == [429, 200]
    rows = {row["url"]: row["status"] for row in result.rows()}
    assert rows[web.url(SITE, "/page2")] == 200
    assert result.summary["pages"] == 42


def test_503_without_retry_after_backs_off_exponentially(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    home = put_pages(web, SITE, 3)
    statuses = iter([503, 503, 200])
    web.put(SITE, "/page0", lambda hit: Reply("busy", status=next(statuses)))
    result = crawl([home], DOWNLOAD_DELAY=0.1, POLITENESS_BACKOFF=1, FRONTIER_RETRY_DELAY=0.1)
    gaps = [
        after.started - before.finished for before, after in pairwise(web.log(SITE)) if before.status == 503
    ]
    assert len(gaps) == 2
    assert 1.0 <= gaps[0] < 1.9
    assert gaps[1] >= 1.0
    assert result.summary["pages"] == 4
    assert result.summary["responses"]["503"] == 2


def test_unreachable_hosts_are_abandoned_and_others_crawled(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    home = put_pages(web, SITE, 10)
    web.put(OTHER, "*", Reply("too late", delay=2.0))
    options = {"POLITENESS_BACKOFF": 0.6, "FRONTIER_RETRY_DELAY": 0.1, "DOWNLOAD_TIMEOUT": 0.3}
    with closed_port() as port:
        dead = [f"{host}/{n}" for host in (f"http://127.0.1.9:{port}", web.host(OTHER)) for n in range(30)]
        result = crawl([home, *dead], timeout=60, **options)
    assert result.summary["finish_reason"] == "finished"
    assert len(web.pages(SITE)) == 11
    assert result.summary["dead_letters"] == 60
    assert (result.summary["queued"], result.summary["leased"]) == (0, 0)
    assert 2 <= len(web.log(OTHER)) <= 4, "POLITENESS_MAX_FAILURES"
    assert "Traceback" not in result.stderr


def test_a_closed_keep_alive_connection_is_not_a_failure_of_the_host(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    home = put_pages(web, SITE, 5)
    hits: Counter[int] = Counter()

    def second_is_closed(hit: Hit) -> Reply:
        hits[hit.connection] += 1
        return Reply(f"page {hit.path}", abort=hits[hit.connection] == 2)

    for n in range(5):
        web.put(SITE, f"/page{n}", second_is_closed)
    never = {"FRONTIER_RETRY_DELAY": 3600, "POLITENESS_BACKOFF": 21600}
    result = crawl([home], timeout=60, DOWNLOAD_DELAY=0.1, **never)
    assert result.summary["finish_reason"] == "finished"
    assert result.summary["pages"] == 6
    assert result.summary["retried"] == len(web.pages(SITE)) - 6 > 0
    assert web.min_start_gap(SITE) >= 0.1


def test_a_host_gets_as_many_connections_as_allowed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    seeds = [put_pages(web, label, 20, delay=0.1) for label in (SITE, OTHER)]
    result = crawl(seeds, workers=2, CONCURRENT_REQUESTS_PER_DOMAIN=3)
    for label in (SITE, OTHER):
        assert web.max_concurrency(label) == 3
    assert result.summary["pages"] == 42


def test_total_concurrency_is_limited_when_many_delays_end_together(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    labels = [f"127.0.2.{n}" for n in range(1, 31)]
    web = local_web(*labels)
    rules = "User-agent: *\nCrawl-delay: 1\n"
    seeds = [put_pages(web, label, 1, rules, delay=0.2) for label in labels]
    result = crawl(seeds, CONCURRENT_REQUESTS=4)
    assert len(web.urls()) == 60
    assert web.max_concurrency() == 4
    assert min(web.min_gap(label) for label in labels) >= 1
    assert result.summary["pages"] == 60


def test_a_request_waiting_for_robots_txt_does_not_occupy_the_only_connection(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE, OTHER)
    seeds = [put_pages(web, label, 1) for label in (SITE, OTHER)]
    for label in (SITE, OTHER):
        web.put(label, "/robots.txt", Reply(status=301, headers={"Location": "/r"}))
        web.put(label, "/r", Reply(status=301, headers={"Location": "/rules.txt"}))
    result = crawl(seeds, CONCURRENT_REQUESTS=1, DOWNLOAD_DELAY=1)
    for label in (SITE, OTHER):
        assert web.paths(label) == ["/robots.txt", "/r", "/rules.txt", "/", "/page0"]
    assert max(web.log(label)[0].started for label in (SITE, OTHER)) < web.log()[2].started
    assert web.max_concurrency() == 1
    assert result.summary["pages"] == 4


def test_ctrl_c_does_not_wait_for_a_long_crawl_delay(local_web: StartWeb, start_crawl: StartCrawl) -> None:
    web = local_web(SITE, OTHER)
    rules = "User-agent: *\nCrawl-delay: 8\n"
    seeds = [put_pages(web, label, 3, rules) for label in (SITE, OTHER)]
    web.put(OTHER, "/robots.txt", Reply(rules, delay=1.0))
    crawl = start_crawl("broad", seeds)
    until(lambda: len(web.hits) == 2 and time.monotonic() > web.log(SITE)[0].finished + 0.3, crawl)
    crawl.interrupt()
    result = crawl.wait()
    assert (web.paths(SITE), web.paths(OTHER)) == (["/robots.txt"], ["/robots.txt"])
    assert not any(word in result.stderr for word in ("Traceback", "ERROR", "WARNING")), result.stderr
    assert (result.summary["queued"], result.summary["leased"], result.summary["dead_letters"]) == (2, 0, 0)
    # one attempt fails; a second would be the last if the interrupt had counted as an attempt
    home, failures = web.sites[SITE]["/"], iter([Reply("broken", status=500)])
    web.put(SITE, "/", lambda hit: next(failures, home))
    options = {"FRONTIER_MAX_ATTEMPTS": 2, "FRONTIER_RETRY_DELAY": 0.1, "POLITENESS_MAX_CRAWL_DELAY": 0}
    again = start_crawl("broad", seeds, **options).wait()
    assert web.paths(SITE)[:3] == ["/robots.txt", "/", "/"]
    assert web.paths(OTHER)[:2] == ["/robots.txt", "/"], "the robots.txt in flight must be finished"
    assert (len(set(web.urls())), len(web.urls())) == (8, 9)
    assert (again.summary["pages"], again.summary["dead_letters"]) == (8, 0)


DOWNLOADS_IN_CALLBACK = """
from scrapy import Request, Spider

class ByItself(Spider):
    name = "by_itself"

    async def start(self):
        yield Request(self.home)

    async def parse(self, response):
        for path in ("/page0", "/page1"):
            part = await self.crawler.engine.download_async(Request(self.other + path))
        yield {"last": part.url}
"""


def test_a_callback_may_finish_its_downloads_after_ctrl_c(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl, tmp_path: Path
) -> None:
    project.add_spider("by_itself", DOWNLOADS_IN_CALLBACK)
    web = local_web(SITE, OTHER)
    home, items = put_pages(web, SITE, 0), tmp_path / "items.jsonl"
    put_pages(web, OTHER, 2)
    crawl = start_crawl(
        "by_itself",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={"home": home, "other": web.host(OTHER)},
        ALLOWED_NETWORKS="127.0.0.0/8",
        DOWNLOAD_DELAY=1,
    )
    until(lambda: "/page0" in web.paths(OTHER), crawl)
    crawl.interrupt()
    result = crawl.wait()
    assert result.summary["finish_reason"] == "shutdown"
    assert web.paths(OTHER) == ["/robots.txt", "/page0", "/page1"]
    assert json.loads(items.read_text()) == {"last": web.url(OTHER, "/page1")}
    assert "Traceback" not in result.stderr
    assert (result.summary["queued"], result.summary["dead_letters"]) == (0, 0)


CANCELS_DOWNLOADS = """
import asyncio

from scrapy import Request, Spider, signals

class Cancelling(Spider):
    name = "cancelling"

    async def start(self):
        yield Request(self.home)

    async def parse(self, response):
        for path, moment in (("/begun", signals.request_reached_downloader), ("/cut", signals.headers_received)):
            url = self.other + path
            download = asyncio.ensure_future(self.crawler.engine.download_async(Request(url)))

            def cancel(request, download=download, url=url):
                if request.url == url:
                    asyncio.get_running_loop().call_soon(download.cancel)

            self.crawler.signals.connect(cancel, moment)
            await asyncio.wait([download])
            assert download.cancelled()
        last = await self.crawler.engine.download_async(Request(self.other + "/whole"))
        yield {"last": last.url}
"""


def test_a_cancelled_download_gives_back_the_turn_of_its_host(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl, tmp_path: Path
) -> None:
    project.add_spider("cancelling", CANCELS_DOWNLOADS)
    web = local_web(SITE, OTHER)
    home, items = put_pages(web, SITE, 0), tmp_path / "items.jsonl"
    for path in ("/begun", "/cut", "/whole"):
        web.put(OTHER, path, "a page")
    result = start_crawl(
        "cancelling",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={"home": home, "other": web.host(OTHER)},
        ALLOWED_NETWORKS="127.0.0.0/8",
        CONCURRENT_REQUESTS=2,
        DOWNLOAD_DELAY=0.1,
    ).wait()
    assert json.loads(items.read_text()) == {"last": web.url(OTHER, "/whole")}
    assert "Traceback" not in result.stderr


def test_requests_keep_the_delay_with_several_connections(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    home = put_pages(web, SITE, 8, delay=1.2)
    crawl([home], CONCURRENT_REQUESTS_PER_DOMAIN=4, DOWNLOAD_DELAY=0.15, DOWNLOAD_HANDLERS=HANDLERS)
    assert web.max_concurrency(SITE) == 4
    assert min(gaps_of(web.log(SITE))) >= 0.15 - STAMP_SECONDS


@pytest.mark.parametrize("settings", [{}, {"POLITENESS_ADDRESS_DELAY": 0.05}], ids=["host", "address"])
def test_requests_keep_the_delay_while_others_connect(
    local_web: StartWeb, crawl: RunCrawl, settings: dict[str, float]
) -> None:
    web = local_web(SITE)
    home = put_pages(web, SITE, 16, delay=0.25)
    settings |= {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "DOWNLOAD_DELAY": 0.15}
    result = crawl([home], DOWNLOAD_HANDLERS=SLOWLY, **settings)
    assert result.summary["pages"] == 17
    assert len({hit.connection for hit in web.log(SITE)}) > 1
    assert min(gaps_of(web.log(SITE))) >= 0.15 - STAMP_SECONDS


def test_a_host_is_left_alone_by_requests_that_connect_when_it_asks_for_it(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    home = put_pages(web, SITE, 8)
    # the first page comes over the kept connection, while others connect
    answers = iter([Reply("", status=503, headers={"Retry-After": "3"}, delay=0.25)])
    for n in range(8):
        web.put(SITE, f"/page{n}", lambda hit: next(answers, Reply(f"page {hit.path}", delay=0.05)))
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "DOWNLOAD_DELAY": 0.1}
    result = crawl([home], DOWNLOAD_HANDLERS=SLOWLY, **settings)
    assert (result.summary["pages"], result.summary["dead_letters"]) == (9, 0)
    (asked,) = [hit.finished for hit in web.log(SITE) if hit.status == 503]
    # the worker reads the answer a moment after the server wrote it
    later = [sent - asked for sent in sent_at(web.log(SITE)) if sent > asked + 0.05]
    assert later and min(later) >= 3 - STAMP_SECONDS


def test_crawls_of_different_names_share_a_hosts_delay(
    local_web: StartWeb, start_crawl: StartCrawl, redis_url: str
) -> None:
    web = local_web(SITE)
    generated_web(5, web, pages=10)
    crawls = [
        start_crawl(
            "broad",
            web.url(SITE),
            REDIS_URL=redis_url,
            CRAWL_ID=name,
            DOWNLOAD_DELAY=0.1,
            tuned={"lease_urls": 5},
        )
        for name in ("one", "two")
    ]
    for one in crawls:
        assert one.wait().returncode == 0
    assert len(web.urls()) == 2 * len(set(web.urls()))
    assert web.max_concurrency(SITE) == 1
    assert web.min_gap(SITE) >= 0.1
