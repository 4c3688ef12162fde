"""Notifications of real crawls, received by a real mail server."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, scrapy, until
from tests.mailserver import MailServer
from tests.web import LocalWeb, Reply
from webcrawl import frontier
from webcrawl.alarms.judging import LOST_SECONDS
from webcrawl.alarms.watcher import LOOK_SECONDS, WATCHER_SECONDS
from webcrawl.documents.values import shown_time

Web = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]

SITE = "127.0.1.1"


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def small_web(local_web: Web) -> str:
    web = local_web(SITE)
    web.put(SITE, "/", '<a href="/two">two</a>')
    web.put(SITE, "/two", "two")
    return web.url(SITE, "/")


def listed(name: str, data_dir: Path, *options: str) -> list[dict[str, Any]]:
    """What `scrapy NAME --json` lists."""
    done = scrapy(name, "--json", *options, "-s", f"DATA_DIR={data_dir}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_end_of_a_crawl_is_told_with_its_summary(
    local_web: Web, mail: MailServer, run_crawl: RunCrawl
) -> None:
    seed = small_web(local_web)
    dashboard = "https://crawls.example.com/"
    result = run_crawl("broad", [seed], NOTIFY=mail.url, DASHBOARD_URL=dashboard, LOG_LEVEL="INFO")
    assert mail.subjects == ["broad: crawl finished with 2 pages"]
    (letter,) = mail.letters
    assert "  pages       2 from 1 host" in letter.text
    assert f"{dashboard}crawls/broad" in letter.text
    (row,) = result.rows("notices")
    assert row["sent"] and row["kind"] == "FINISHED"
    assert str(mail.port) not in result.stdout + result.stderr, "the URL may hold secrets"


def test_what_the_server_did_not_take_is_sent_once_it_is_back(
    local_web: Web, mail: MailServer, run_crawl: RunCrawl
) -> None:
    mail.stop()
    result = run_crawl("broad", [small_web(local_web)], NOTIFY=mail.url)
    assert "A notification could not be sent, and is tried again later: mailto://127.0.0.1" in result.stderr
    (waiting,) = listed("alarms", result.data_dir, "--unsent")
    assert waiting["attempts"] >= 1 and waiting["sent"] is None and "mailto://127.0.0.1: " in waiting["error"]
    options = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"NOTIFY={mail.url}")
    created = shown_time(datetime.fromisoformat(waiting["created"]))
    assert scrapy("alarms", *options).stdout.startswith(f"{created}  FINISHED")
    failed = scrapy("alarms", "--test", *options, status=1)
    assert failed.returncode == 1 and ": failed: mailto://127.0.0.1: " in failed.stdout

    mail.start()
    for _ in range(2):
        sent = scrapy("alarms", "--send", *options)
        assert (sent.returncode, sent.stdout) == (0, "All notifications are sent.\n")
        assert mail.subjects == ["broad: crawl finished with 2 pages"]
    tested = scrapy("alarms", "--test", *options)
    assert tested.returncode == 0 and tested.stdout.endswith(": sent\n")
    assert mail.subjects[1:] == ["webcrawl: a test"]


def test_a_wrong_url_is_refused_before_the_crawl_begins(run_crawl: RunCrawl) -> None:
    urls = "json://127.0.0.1,slak://tokenA/tokenB"
    result = run_crawl("broad", ["http://127.0.1.1:9/"], NOTIFY=urls, status=2)
    assert "NOTIFY, entry 2 (slak://...): Apprise cannot use it" in result.stderr
    assert "token" not in result.stdout + result.stderr


def test_a_disk_that_is_nearly_full_is_told_once(
    local_web: Web, mail: MailServer, start_crawl: Callable[..., Crawl], small_disk: Path
) -> None:
    """While the crawl goes on: two workers and a second run tell nothing more."""
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f'<a href="/{number}">{number}</a>' for number in range(6)))
    (small_disk / "warc").mkdir()
    (small_disk / "ballast").write_bytes(b"x" * 600_000)
    options = {"STORE_URI": (small_disk / "warc").as_uri(), "STORE_MIN_FREE_BYTES": 100_000}
    options |= {"NOTIFY": mail.url, "DOWNLOAD_DELAY": 1}
    for _ in range(2):
        workers = [start_crawl("broad", [web.url(SITE, "/")], **options) for _ in range(2)]
        mail.wait(lambda: bool(mail.letters), 60)
        for worker in workers:
            assert worker.wait(60).returncode == 0
    told = [letter for letter in mail.letters if "nearly full" in letter.subject]
    assert [letter.subject for letter in told] == [
        f"broad: the disk of {small_disk}/warc is nearly full on {socket.gethostname()}"
    ]
    assert "Below 100.0 kB (STORE_MIN_FREE_BYTES), workers pause." in told[0].text


WATCHED = """
from webcrawl.alarms import judging, watcher
from webcrawl.spiders.broad import Broad

judging.LOST_SECONDS, watcher.WATCHER_SECONDS, watcher.LOOK_SECONDS = 2.0, 3.0, 0.5


class Watched(Broad):
    name = "watched"
"""


def test_killed_workers_are_told(
    local_web: Web, mail: MailServer, start_crawl: Callable[..., Crawl], project: Project
) -> None:
    """The first worker watches; another one takes over when it is killed."""
    project.add_spider("watched", WATCHED)
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f'<a href="/{number}">{number}</a>' for number in range(300)))
    for number in range(300):
        web.put(SITE, f"/{number}", "page")
    options = {"NOTIFY": mail.url, "DOWNLOAD_DELAY": 0.5, "project": project.folder}
    first = start_crawl("watched", [web.url(SITE, "/")], **options)
    until(lambda: len(web.hits) > 3, first)
    second = start_crawl("watched", [web.url(SITE, "/")], **options)
    until(lambda: "Metadata" in second.stderr or len(web.hits) > 12, second)
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait(60)
    mail.wait(lambda: bool(mail.letters), 90)
    assert mail.subjects == ["watched: 1 worker lost"]
    assert f":{first.process.pid}:" in mail.letters[0].text
    second.interrupt()
    second.wait()
    assert mail.subjects[1:] == [mail.subjects[-1]] and "stopped (shutdown)" in mail.subjects[-1]


def test_killed_workers_are_told_within_a_minute() -> None:
    """A worker counts as alive, then another one watches, and the period of its death and the next one pass."""
    (alive,) = (field.default for field in fields(frontier.Crawl) if field.name == "worker_seconds")
    assert alive + WATCHER_SECONDS + 2 * LOST_SECONDS + 2 * LOOK_SECONDS < 60


def test_pages_that_get_stuck_are_kept_and_told(
    local_web: Web, mail: MailServer, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", '<a href="/a" price="1">good</a><a href="/b" price="?">bad</a>')
    web.put(SITE, "/a", '<a href="/broken.html" price="2">odd</a>')
    web.put(SITE, "/b", "nothing")
    web.put(SITE, "/broken.html", Reply("%PDF-1.4 broken", headers={"Content-Type": "application/pdf"}))
    feed = tmp_path / "items.jsonl"
    result = run_crawl(
        "shop",
        web.url(SITE, "/"),
        NOTIFY=mail.url,
        SPIDER_MODULES="tests.crawl.schema_spider",
        FEEDS=json.dumps({str(feed): {"format": "jsonlines"}}),
    )
    assert result.summary["items"] == {"Product": 2, "dict": 3}
    assert len(feed.read_text().splitlines()) == 5, "the archived pages are no items"
    stuck = {row["url"].removeprefix(web.host(SITE)): row for row in listed("stuck", result.data_dir, "shop")}
    assert {path: (row["kind"], row["reason"]) for path, row in stuck.items()} == {
        "/": ("SCHEMA", "Product.price: float expected, str found ('?')"),
        "/a": (
            "SCHEMA",
            "dict: Additional properties are not allowed ('surprise' was unexpected)",
        ),
    }
    assert all(row["notified"] and row["warc_length"] for row in stuck.values())
    (letter,) = mail.letters
    assert letter.subject == "shop: crawl finished with 4 pages"
    assert f"{web.url(SITE, '/')}: Product.price: float expected" in letter.text
    body = scrapy("page", "--body", web.url(SITE, "/a"), "-s", f"DATA_DIR={result.data_dir}")
    assert "odd" in body.stdout
    forgotten = scrapy("stuck", "--forget", "shop", "-s", f"DATA_DIR={result.data_dir}")
    assert forgotten.stdout == "2 pages forgotten.\n"


def test_documents_that_cannot_be_read_are_stuck(local_web: Web, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", '<a href="/broken.pdf">broken</a><a href="/gone">gone</a>')
    web.put(SITE, "/broken.pdf", Reply("%PDF-1.4 broken", headers={"Content-Type": "application/pdf"}))
    web.put(SITE, "/gone", Reply(abort=True))
    result = run_crawl("broad", [web.url(SITE, "/")], FRONTIER_MAX_ATTEMPTS=1)
    rows = sorted(listed("stuck", result.data_dir), key=lambda row: str(row["url"]))
    assert [(row["url"], row["kind"]) for row in rows] == [
        (web.url(SITE, "/broken.pdf"), "DOCUMENT"),
        (web.url(SITE, "/gone"), "DEAD_LETTER"),
    ]
    assert rows[0]["reason"].startswith("application/pdf ") and rows[0]["warc_file"]
    assert "disconnected" in rows[1]["reason"]
