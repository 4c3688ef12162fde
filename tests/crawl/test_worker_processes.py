"""The command `scrapy workers`: options passed to workers, refused options, and its own death."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import cases
from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult
from tests.ports import free_ports
from tests.preloaded import OWN_WORKERS
from tests.scraped import scraped_when
from tests.web import LocalWeb, Reply
from webcrawl.crawler.crawl_options import own_name

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
HERE = Project(CHECKOUT)

TITLED = """
from dataclasses import dataclass

from webcrawl.spiders.base import BroadSpider


@dataclass
class Title:
    url: str


class Titled(BroadSpider):
    name = "titled"
    custom_settings = {"FEEDS": {"titles.jsonl": {"format": "jsonlines", "item_classes": [Title]}}}

    def parse(self, response):
        yield Title(response.url)
        yield from super().parse(response)
"""


def put_sites(web: LocalWeb, pages: int) -> list[str]:
    """Publishes home pages with `pages` links each; returns their URLs."""
    for label in SITES:
        links = "".join(f"<a href=/{number}>{number}</a>" for number in range(pages))
        web.put(label, "/", Reply(links))
        for number in range(pages):
            web.put(label, f"/{number}", f"{label} {number}")
    return [web.url(label) for label in SITES]


def urls_of(*feeds: Path) -> list[str]:
    return sorted(json.loads(line)["url"] for feed in feeds for line in feed.read_text().splitlines())


@cases(
    ("name", "own"),
    [
        ("items.jsonl", "items-2.jsonl"),
        ("items.jsonl.gz", "items.jsonl-2.gz"),
        ("items:json", "items-2:json"),
        ("items.out:json", "items-2.out:json"),
        ("a.b/items", "a.b/items-2"),
        ("s3://bucket.name/items/%(name)s.csv", "s3://bucket.name/items/%(name)s-2.csv"),
        ("file:///tmp/items", "file:///tmp/items-2"),
    ],
)
def test_the_file_name_of_a_worker_contains_its_number(name: str, own: str) -> None:
    assert own_name(name, 2) == own


def test_each_worker_has_its_own_feed_and_log(
    local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(*SITES)
    seeds = put_sites(web, pages=8)
    feed, log = tmp_path / "items.jsonl", tmp_path / "crawl.log"
    options = ("-O", str(feed), "--loglevel", "INFO", "--logfile", str(log))
    result = run_crawl(
        "broad",
        seeds,
        command=("workers", "2", *options),
        DOWNLOAD_DELAY=0.02,
        tuned={"lease_hosts": 1, "most_lease_hosts": 0},
        timeout=60,
    )
    feeds = [tmp_path / f"items-{place}.jsonl" for place in range(2)]
    assert urls_of(*feeds) == sorted(row["url"] for row in result.rows())
    assert result.summary["feeds"] == {str(feed): len(urls_of(feed)) for feed in feeds}
    for place in range(2):
        assert "Spider opened" in (tmp_path / f"crawl-{place}.log").read_text()
    assert not feed.exists()
    assert not log.exists()


def test_each_worker_has_its_own_file_for_a_spiders_feeds(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("titled", TITLED)
    web = local_web(*SITES)
    seeds = put_sites(web, pages=3)
    options = {"project": project.folder}
    run_crawl("titled", seeds, command=("workers", "2", "--nolog"), timeout=60, **options)
    feeds = [project.folder / f"titles-{place}.jsonl" for place in range(2)]
    assert urls_of(*(feed for feed in feeds if feed.exists())) == sorted(web.urls())
    assert not (project.folder / "titles.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--pdb"], "--pdb"),
        (["--profile", "/nowhere/profile"], "--profile"),
        (["-o", "-:json"], "stdout"),
        (["-s", "SEEN_SET=bloom"], "SEEN_SET"),
        (["-s", "FRONTIER_SHARDS=none"], "FRONTIER_SHARDS"),
    ],
)
def test_unsupported_options_are_refused_before_a_worker_starts(
    options: list[str], named: str, tmp_path: Path
) -> None:
    output = HERE.scrapy("workers", "2", "broad", *options, "-s", f"DATA_DIR={tmp_path / 'data'}", code=2)
    assert named in output.splitlines()[-1]
    assert "Traceback" not in output
    assert not (tmp_path / "data").exists()


def test_a_port_that_is_taken_stops_all_workers_before_they_start(tmp_path: Path) -> None:
    (port,) = free_ports(1, following=1)
    with socket.create_server(("127.0.0.1", port + 1)):
        options = (
            "-a",
            "seeds=http://127.0.1.1/",
            "-s",
            f"METRICS_PORT={port}",
            "-s",
            f"DATA_DIR={tmp_path / 'data'}",
        )
        output = HERE.scrapy("workers", "2", "broad", *options, code=2)
    said = f"scrapy workers: METRICS_PORT: cannot serve metrics at 127.0.0.1 port {port + 1}: Address already in use"
    assert said in output
    assert not (tmp_path / "data").exists()


def test_an_unknown_spider_is_named_once() -> None:
    assert HERE.scrapy("workers", "2", "nosuch", code=2).count("nosuch") == 1


def children(process: int) -> list[int]:
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    rows = [tuple(map(int, line.split())) for line in table.stdout.splitlines()]
    return [pid for pid, parent in rows if parent == process]


def is_running(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True)
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.05)
    return met


def test_workers_serve_metrics_and_stop_gracefully_when_the_command_is_killed(
    local_web: StartWeb, start_crawl: StartCrawl
) -> None:
    web = local_web(*SITES)
    seeds = put_sites(web, pages=400)
    (port,) = free_ports(1, following=1)
    options = {
        "DOWNLOAD_DELAY": 0.1,
        "METRICS_PORT": port,
        "LOG_LEVEL": "INFO",
        "tuned": {"lease_hosts": 1, "most_lease_hosts": 0},
        "env": OWN_WORKERS,
    }
    crawl = start_crawl("broad", seeds, command=("workers", "2"), **options)
    workers: list[int] = []
    try:
        assert wait_until(lambda: len({hit.host for hit in web.log()}) > 1, 60), crawl.stderr
        workers = children(crawl.process.pid)
        assert len(workers) == 2
        for place in range(2):
            scraped_when(port + place, crawl, lambda now: now.get("webcrawl_worker_engine_up") == 1)
            log = (crawl.data_dir / "logs" / f"worker-{place}.log").read_text() if place else crawl.stderr
            assert f"Serving metrics at http://127.0.0.1:{port + place}/metrics" in log
        os.kill(crawl.process.pid, signal.SIGKILL)
        assert wait_until(lambda: not any(map(is_running, workers)), 60)
    finally:
        for worker in filter(is_running, workers):
            os.kill(worker, signal.SIGKILL)
    result = crawl.wait(status=None)
    assert (result.summary["finish_reason"], result.summary["leased"]) == ("shutdown", 0)
    assert result.summary["queued"] > 0
