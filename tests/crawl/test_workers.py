"""Crawls with several workers give the same results as with one."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgpack
import pytest
from redis import Redis

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply
from webcrawl.engine.keys import Keys

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = [f"127.0.1.{n}" for n in range(1, 9)]
PATHS = ["/", *(f"/{n}" for n in range(9))]


def put_site(web: LocalWeb, label: str, home: str = "/") -> None:
    """Publishes a home page with nine links, and their targets."""
    for path in PATHS:
        web.put(label, path, Reply(f"{label} {path}", delay=0.02))
    web.put(label, home, Reply("".join(f"<a href={path}>{path}</a>" for path in PATHS[1:]), delay=0.02))


def test_workers_share_the_work(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(*SITES)
    for label in SITES:
        put_site(web, label)
    result = run_crawl(
        "broad",
        [web.url(label) for label in SITES],
        command=("workers", "3"),
        DOWNLOAD_DELAY=0.05,
        tuned={"lease_hosts": 2, "most_lease_hosts": 0},
        timeout=60,
    )
    assert result.summary["pages"] == 80
    assert len(web.urls()) == len(set(web.urls())) == 80
    assert len(list((result.data_dir / "logs").glob("worker-*.log"))) == 2
    files = {row["warc_file"] for row in result.rows() if row["warc_file"]}
    assert len(files) >= 2, "at least two workers must have stored pages"


def test_seeds_and_scope_of_one_worker_apply_to_all(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """Seeds, their addresses and their scope belong to the crawl."""
    web = local_web(*SITES)
    for label in SITES:
        put_site(web, label)
    options = {
        "DOWNLOAD_DELAY": 0.05,
        "tuned": {"lease_hosts": 1, "most_lease_hosts": 0},
    }
    first = start_crawl("broad", [web.url(SITES[0])], **options)
    deadline = time.monotonic() + 60
    while not web.hits and time.monotonic() < deadline:
        time.sleep(0.01)
    second = start_crawl("broad", [web.url(label) for label in SITES[1:]], **options)
    for crawl in (first, second):
        assert crawl.wait().returncode == 0, crawl.stderr
    result = second.wait()
    assert {label: len(set(web.paths(label))) for label in SITES} == dict.fromkeys(SITES, 11)
    assert len(web.urls()) == len(result.rows()) == 80
    assert result.summary["addresses_refused"] == 0


def test_all_workers_follow_a_redirected_seed(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(*SITES)
    for old, new in zip(SITES[:4], SITES[4:], strict=True):
        web.put(old, "/", Reply(status=301, headers={"Location": web.url(new, "/home")}))
        put_site(web, new, "/home")
    result = run_crawl(
        "broad",
        [web.url(label) for label in SITES[:4]],
        workers=2,
        DOWNLOAD_DELAY=0.05,
        tuned={"lease_hosts": 1, "most_lease_hosts": 0},
        ALLOWED_NETWORKS="127.0.0.0/8",
        timeout=60,
    )
    assert {label: len(set(web.paths(label))) for label in SITES[4:]} == dict.fromkeys(SITES[4:], 11)
    assert len(web.urls()) == len(result.rows()) == 44


NAMELESS = """
from scrapy import Request, Spider


class Nameless(Spider):
    name = "nameless"

    async def start(self):
        for home in self.homes.split():
            yield Request(home + "/", callback=lambda response: self.more(response))

    def more(self, response):
        for number in range(6):
            yield response.follow(f"/plain{number}", callback=self.plain)
        yield response.follow("/secret", callback=lambda response: None)

    def plain(self, response):
        pass
"""


def test_a_request_held_by_one_worker_is_crawled_while_others_lease_its_host(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    """Each worker starts with the same requests, whose lambdas only it can call; all are crawled."""
    project.add_spider("nameless", NAMELESS)
    web = local_web(*SITES)
    for label in SITES:
        for path in ("/", "/secret", *(f"/plain{n}" for n in range(6))):
            web.put(label, path, path)
    result = run_crawl(
        "nameless",
        project=project.folder,
        workers=3,
        arguments={"homes": " ".join(web.host(label) for label in SITES)},
        DOWNLOAD_DELAY=0.05,
        ALLOWED_NETWORKS="127.0.0.0/8",
        tuned={"lease_hosts": 2, "most_lease_hosts": 0},
        timeout=60,
    )
    for label in SITES:
        paths = web.paths(label)
        assert {"/", "/secret", *(f"/plain{n}" for n in range(6))} <= set(paths)
        assert paths.count("/secret") == 1
    assert (result.summary["queued"], result.summary["dead_letters"]) == (0, 0)


def test_a_request_held_by_a_dead_worker_becomes_a_dead_letter(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl, run_crawl: RunCrawl
) -> None:
    project.add_spider("nameless", NAMELESS)
    site = SITES[0]
    web = local_web(site)
    for path in ("/", "/secret", *(f"/plain{n}" for n in range(6))):
        web.put(site, path, Reply(path, delay=0.3))
    options = {"project": project.folder, "arguments": {"homes": web.host(site)}}
    first = start_crawl("nameless", ALLOWED_NETWORKS="127.0.0.0/8", **options)
    deadline = time.monotonic() + 60
    while "/plain0" not in web.paths(site) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.kill()
    again = start_crawl(
        "broad", [web.url(site, "/other")], CRAWL_ID="nameless", data_dir=first.data_dir, **options
    )
    again.wait(20, status=1)
    assert "/secret" not in web.paths(site)
    result = run_crawl("nameless", command=("stuck",), data_dir=first.data_dir)
    assert "held by a worker that ended" in result.stdout


@pytest.mark.slow
def test_a_worker_that_joins_takes_its_share_of_the_hosts(
    local_web: StartWeb, start_crawl: StartCrawl, redis_url: str
) -> None:
    sites = [f"127.0.3.{n}" for n in range(1, 41)]
    web = local_web(*sites)
    for label in sites:
        web.put(label, "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(200)))
        web.put(label, "*", "a page")
    seeds = [web.url(label) for label in sites]
    options = {"REDIS_URL": redis_url, "DOWNLOAD_DELAY": 1, "FRONTIER_SHARDS": 32}
    first = start_crawl("broad", seeds, USER_AGENT="first", **options)
    until(lambda: len(web.urls()) > len(sites), first)
    with Redis.from_url(redis_url) as engine:
        own = Keys("broad", 32).own
        second = start_crawl("broad", seeds, USER_AGENT="second", **options)
        until(lambda: engine.zcard(own("workers")) == 2, second)
        # by number and by load of the shards
        until(lambda: min(_shares(engine.get(own("shares")))) >= 12, second, 30)
    asked = len(web.hits)

    def share() -> set[str]:
        return {hit.host for hit in web.hits[asked:] if hit.headers["User-Agent"] == "second"}

    until(lambda: len(share()) >= len(sites) / 4, second, 30, look_every=0.1)
    for crawl in (first, second):
        crawl.kill()
    assert all(web.max_concurrency(label) == 1 for label in sites)
    assert min(web.min_gap(label) for label in sites) >= 0.998


def _shares(packed: bytes) -> list[int]:
    shares = [len(shards) for shards in msgpack.unpackb(packed).values()]
    return shares if len(shares) == 2 else [0]
