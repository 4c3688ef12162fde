"""Several workers of one crawl: who does what must make no difference to what is crawled."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.crawls import Crawl, CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = [f"127.0.1.{n}" for n in range(1, 9)]
PATHS = ["/", *(f"/{n}" for n in range(9))]


def put_site(web: LocalWeb, label: str, home: str = "/") -> None:
    """A home page with nine links."""
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
        arguments={"scope": "host"},
        DOWNLOAD_DELAY=0.05,
        FRONTIER_LEASE_HOSTS=2,
        timeout=25,
    )
    assert result.returncode == 0, result.stderr
    assert result.summary["pages"] == 80
    assert len(web.urls()) == len(set(web.urls())) == 80
    assert len(list((result.data_dir / "logs").glob("worker-*.log"))) == 2
    files = {row["warc_file"] for row in result.rows() if row["warc_file"]}
    assert len(files) >= 2, "more than one worker had something to do"


def test_a_worker_takes_over_what_another_was_told(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """Its seeds, their addresses and their scope are the crawl's."""
    web = local_web(*SITES)
    for label in SITES:
        put_site(web, label)
    options = {"arguments": {"scope": "host"}, "DOWNLOAD_DELAY": 0.05, "FRONTIER_LEASE_HOSTS": 1}
    first = start_crawl("broad", [web.url(SITES[0])], **options)
    deadline = time.monotonic() + 10
    while not web.hits and time.monotonic() < deadline:
        time.sleep(0.01)
    second = start_crawl("broad", [web.url(label) for label in SITES[1:]], **options)
    for crawl in (first, second):
        assert crawl.wait(25).returncode == 0, crawl.stderr
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
        command=("workers", "2"),
        arguments={"scope": "host"},
        DOWNLOAD_DELAY=0.05,
        FRONTIER_LEASE_HOSTS=1,
        ALLOWED_NETWORKS="127.0.0.0/8",
        timeout=25,
    )
    assert result.returncode == 0, result.stderr
    assert {label: len(set(web.paths(label))) for label in SITES[4:]} == dict.fromkeys(SITES[4:], 11)
    assert len(web.urls()) == len(result.rows()) == 44
