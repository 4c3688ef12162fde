"""The progress display: the panel at every width, its exact text, and a restored terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scrapy.settings import Settings

from tests.cases import cases
from tests.crawls import CHECKOUT, NO_NAMES, Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply
from webcrawl.config import StoreConfig
from webcrawl.crawler.report.displays import plain_line
from webcrawl.crawler.report.live_panel import panel
from webcrawl.crawler.report.summary_text import (
    iteration_reason,
    result_commands,
    result_locations,
    summary_text,
)
from webcrawl.crawler.report.waiting import duration, host_line, retry_line
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.frontier.gauges import NextHost, NextRetry

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
FIGURES = CrawlFigures(
    pages=1_234_567,
    resources=0,
    archived=1,
    stored=1,
    items={},
    feeds={},
    lost_requests={},
    responses={"200": 1_234_567, "301": 70, "404": 5, "500": 3},
    bytes=10**10,
    types={"text/html": {"pages": 9, "bytes": 9, "errors": 0}},
    hosts=12_345,
    unreachable=27,
    seconds=100.0,
    pages_per_second=12_345.67,
    robots_denied=21,
    ai_denied=0,
    resources_denied=0,
    addresses_refused=22,
    names_not_resolved=0,
    failed=23,
    retried=24,
    exact_duplicates=20,
    near_duplicates=5,
    soft_404=0,
    repaired=0,
    remarks={},
    noindex=0,
    noarchive=0,
    nofollow=0,
    rewritten=0,
    truncated=0,
    fetched_again=0,
    unchanged=0,
    fetches={},
    traffic={},
    revisits={},
    late=0,
    late_seconds=0.0,
    freshness=None,
    failed_start_urls={},
    unread={},
    extracted={},
    missing_fields={},
    looked_up=123_456_789,
    cache_hit_ratio=0.7575,
    seen_urls=12_345_678,
    queued=1_234_568,
    retrying=0,
    spilled=1_000_000,
    lost_segments=0,
    leased=256,
    dead_letters=26,
    dropped=0,
    workers=12,
    paused=False,
    holding={},
    parked=0,
)
SHOWN = {
    "pages": "1,234,567",
    "pages/s": "12.3",
    "received": "10.0 GB",
    "hosts": "12,345",
    "unreachable": "27",
    "duplicates": "25",
    "queued": "1,234,568",
    "leased": "256",
    "seen URLs": "12,345,678",
    "retries": "24",
    "workers": "12",
    "HTTP errors": "8",
    "soft 404": "0",
    "failed": "23",
    "dead letters": "26",
    "robots.txt": "21",
    "refused": "22",
    "cache hits": "75.8%",
}


@cases("width", [40, 55, 69, 80, 200])
def test_the_panel_fits_every_width(width: int) -> None:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(panel(console, "broad", FIGURES, 12.34))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "crawl broad" in lines[0]
    assert " Ctrl-C stops" in lines[-1]
    assert lines[-1].endswith("─╯")
    words = [part.strip() for line in lines[1:-1] for part in line.strip("│").split("  ") if part.strip()]
    assert dict(zip(words[::2], words[1::2], strict=True)) == SHOWN


@pytest.mark.parametrize("width", [40, 100])
def test_the_panel_says_what_the_crawl_waits_for(width: int) -> None:
    console = Console(width=width)
    waits = ["1 URL waits 3 min 50 s for its 4th try (https://example.org/a/long/path)"]
    held = replace(FIGURES, paused=True, holding={"one": "the disk is full"})
    with console.capture() as capture:
        console.print(panel(console, "broad", held, 1.0, waits))
    lines = capture.get().splitlines()
    assert {len(line) for line in lines} == {width}
    assert "crawl broad (paused)" in lines[0]
    assert "paused: `scrapy resume`" in lines[-4]
    assert "1 of 12 workers hold: the disk is" in lines[-3]
    assert "1 URL waits 3 min 50 s for its" in lines[-2]
    assert ("https://example.org/a/long/path" in lines[-2]) == (width == 100)


@cases(("seconds", "words"), [(0.2, "0 s"), (59.4, "59 s"), (230, "3 min 50 s"), (7500, "2 h 5 min")])
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@cases(
    ("number", "seconds", "line"),
    [
        (1, 230, "1 URL waits 3 min 50 s for its 4th try (http://h/)"),
        (1, 0.2, "1 URL is due for its 4th try (http://h/)"),
        (4488, 5, "4,488 URLs wait for another try, the next one 5 s for its 4th (http://h/)"),
        (4488, 0, "4,488 URLs wait for another try, the next one is due for its 4th (http://h/)"),
    ],
)
def test_urls_that_wait_for_a_retry_or_are_due(number: int, seconds: float, line: str) -> None:
    assert retry_line(number, NextRetry("http://h/", 4, seconds)) == line


@pytest.mark.parametrize(
    ("queued", "host", "line"),
    [
        (
            1,
            NextHost("http://h", 1, 40),
            "1 queued URL waits until a host may be asked: http://h in 40 s after a failure",
        ),
        (12, NextHost("http://h", 0, 0.3), "12 queued URLs wait for a worker: http://h is due"),
    ],
)
def test_urls_that_wait_for_a_host(queued: int, host: NextHost, line: str) -> None:
    assert host_line(queued, host) == line


def test_plain_lines_say_what_the_crawl_waits_for(local_web: StartWeb, start_crawl: StartCrawl) -> None:
    slow, broken = "127.0.1.2", "127.0.1.3"
    web = local_web(SITE, slow, broken)
    dead = "".join(f"<a href=http://h{number}.test/>dead</a>" for number in range(3))
    web.put(SITE, "/", f"<a href={web.url(slow)}>slow</a><a href={web.url(broken)}>broken</a>{dead}")
    web.put(slow, "/", Reply("slow", delay=40))
    web.put(broken, "/", Reply("broken", status=500))
    crawl = start_crawl(
        "broad",
        [web.url(label) for label in (SITE, slow, broken)],
        arguments={"scope": "web"},
        PROGRESS="plain",
        PROGRESS_INTERVAL=0.2,
        FRONTIER_RETRY_DELAY=230,
        DNS_TIMEOUT=0.2,
    )
    until(lambda: "; a response takes 3 s (at most " in crawl.stderr, crawl)
    until(lambda: "4 retries, 3 unreachable hosts; " in crawl.stderr, crawl)
    until(lambda: "; waits for: network 100%; " in crawl.stderr, crawl)
    assert re.search(
        r"4 URLs wait for another try, the next one [0-9mins ]+ for its 2nd \(http", crawl.stderr
    )
    crawl.interrupt()
    until(lambda: "; stopping: 1 request left; a response takes " in crawl.stderr, crawl)


def test_error_responses_are_counted_apart_from_failed_fetches() -> None:
    soft = replace(FIGURES, soft_404=6)
    assert "8 HTTP errors, 23 failed, 25 duplicates" in plain_line(FIGURES, 1.0)
    assert "8 HTTP errors, 6 soft 404, 23 failed, 25 duplicates" in plain_line(soft, 1.0)
    assert "8 HTTP errors, 6 soft 404, 23 failed, 24 retries" in summary_text(soft, "finished", "data")


def test_pages_that_were_checked_again_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "checked" not in plain_line(FIGURES, 1.0) + summary_text(FIGURES, "finished", "data")
    visits = {"unchanged": 3_156, "changed": 21, "gone": 3}
    now = replace(FIGURES, revisits=visits, late=12, late_seconds=90.0, freshness=0.94)
    assert "3,180 checked again (44.0/s), 21 changed, 12 late, " in plain_line(now, 1.0, 44.0)
    summary = summary_text(now, "stopped", "data")
    assert re.search(
        r"again +3,180 checked \(.*/s\): 21 changed, 3 gone, 3,156 unchanged; 12 late; 94% fresh", summary
    )
    console = Console(width=120)
    console.print(panel(console, "news", now, 1.0, checks=44.0))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("checked again", "3,180", "44.0", "3,156", "94%"))


def test_pages_that_answered_304_count_as_checked(capsys: pytest.CaptureFixture[str]) -> None:
    now = replace(FIGURES, unchanged=4_420)
    assert "pages (1.9/s), 4,420 checked again (44.0/s), " in plain_line(now, 1.9, 44.0)
    assert re.search(
        r"again +4,420 checked \(44\.2/s\): 4,420 unchanged\n", summary_text(now, "stopped", "data")
    )
    console = Console(width=120)
    console.print(panel(console, "news", now, 1.9, checks=44.0))
    shown = capsys.readouterr().out
    assert "checked again" in shown and "4,420" in shown and "44.0" in shown


def test_a_crawl_that_leaves_parked_urls_is_finished() -> None:
    parked = replace(FIGURES, queued=5, leased=0, parked=5)
    assert "Crawl finished: what is left cannot be fetched now.\n" in summary_text(parked, "finished", "data")
    assert "Crawl finished: there is nothing left to crawl.\n" in summary_text(
        replace(parked, queued=0), "finished", "data"
    )


def test_shares_of_fetches_are_shown_if_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert "coverage" not in summary_text(replace(FIGURES, fetches={"coverage-get": 9}), "finished", "data")
    now = replace(FIGURES, fetches={"coverage-get": 300, "update-chk": 700})
    assert "fetches     70.0% update-chk, 30.0% coverage-get" in summary_text(now, "stopped", "data")
    console = Console(width=120)
    console.print(panel(console, "news", now, 1.0))
    shown = capsys.readouterr().out
    assert "update-chk" in shown and "70.0%" in shown
    now = replace(now, traffic={"coverage-get": 0.5, "coverage-chk": 0.5})
    line = "fetches     70.0% update-chk of 0%, 30.0% coverage-get of 50%, 0.0% coverage-chk of 50%"
    assert line in summary_text(now, "stopped", "data")


@cases(
    ("state", "expected"),
    [
        ({}, "Run the same command to continue."),
        ({"parked": 1_234_568, "leased": 0}, "blocked or at their limit: see `scrapy host`."),
        ({"parked": 3}, "Run the same command to continue."),
        ({"parked": 1_234_568, "leased": 0, "paused": True}, "It is paused: `scrapy resume` continues it."),
    ],
)
def test_the_summary_says_how_to_continue(state: dict[str, Any], expected: str) -> None:
    assert summary_text(replace(FIGURES, **state), "shutdown", "data").splitlines()[-1].endswith(expected)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("shutdown", "The next scheduler goes on with it, unless "),
        ("max_pages", "For more, set a higher CRAWL_MAX_PAGES in the settings of the job, "),
        ("stopped", "A new iteration begins with the seeds: "),
    ],
)
def test_the_summary_of_an_iteration_names_the_command_of_its_job(reason: str, expected: str) -> None:
    line = summary_text(FIGURES, reason, "data", job="news").splitlines()[-1]
    assert line.startswith(expected) and line.endswith(": scrapy jobs run news")


@pytest.mark.parametrize(("queued", "promised"), [(5, False), (6, True)])
def test_the_summary_promises_nothing_for_requests_that_are_lost(queued: int, promised: bool) -> None:
    now = replace(FIGURES, queued=queued, leased=0, parked=0)
    shown = summary_text(now, "shutdown", "data", lost={"parse_item": 3, "<lambda>": 2})
    assert "requests that cannot be stored (3 for parse_item, 2 for <lambda>)" in shown
    assert ("Run the same command" in shown) == promised


def test_the_summary_names_the_stores_without_passwords() -> None:
    def places(now: CrawlFigures = FIGURES, **settings: str) -> str:
        return result_locations(StoreConfig.from_settings(Settings({"DATA_DIR": "data", **settings})), now)

    assert places() == "data: summary.json, warc/, metadata.db"
    assert places(STORE_URI="s3://b/p") == "data: summary.json, metadata.db; s3://b/p"
    database = "postgresql+psycopg://me:secret@db/crawl"
    assert places(METADATA_URI=database) == "data: summary.json, warc/; postgresql+psycopg://me:***@db/crawl"
    hidden = "postgresql://db/crawl?user=me&password=secret"
    assert places(METADATA_URI=hidden).endswith("; postgresql://db/crawl?password=...&user=me")
    nothing = replace(FIGURES, archived=0, stored=0)
    assert places(nothing) == "data: summary.json"
    assert places(nothing, STORE_URI="s3://b/p", METADATA_URI=database) == "data: summary.json"


@cases(
    ("reason", "state", "words"),
    [
        (None, "RUNNING", ""),
        ("finished", "FINISHED", ""),
        ("max_pages", "FINISHED", "stopped at CRAWL_MAX_PAGES"),
        ("another iteration waited already", "SKIPPED", "another iteration waited already"),
    ],
)
def test_an_iteration_tells_in_words_why_it_ended(reason: str | None, state: str, words: str) -> None:
    assert iteration_reason(reason, state) == words


def commands(now: CrawlFigures = FIGURES, priority: str = "cmdline", **settings: object) -> str:
    given = Settings({"DATA_DIR": "elsewhere"} | settings, priority=priority)
    return "\n".join(result_commands(StoreConfig.from_settings(given), now, given))


def test_the_summary_says_how_to_look_at_what_is_stored() -> None:
    assert commands(priority="project", LINKS=True).splitlines() == [
        "  look with   scrapy page URL          a page as Markdown; --row: what is stored about it",
        "              scrapy pages             all rows; --duplicates any: copies and near-duplicates",
        "              scrapy status            what is queued, and which hosts are over their budgets",
        "              scrapy stuck             what was given up, and why",
        "              scrapy export -o FOLDER  all rows as Parquet",
        "              scrapy dashboard         the crawl in a browser",
        "              scrapy search WORDS      pages with these words in their text",
        "              scrapy links URL         the links on a page; with --in those to it",
    ]
    own = Settings({"DATA_DIR": "elsewhere"}, priority="project")
    several = result_commands(StoreConfig.from_settings(own), FIGURES, own, "second")
    assert [line.split()[:4] for line in several[2:4]] == [
        ["scrapy", command, "--crawl", "second"] for command in ("status", "stuck")
    ]
    assert "\n".join(several).count("--crawl") == 2, "the other commands read no engine"
    shown = commands(DATA_DIR="a folder", METADATA_URI="postgresql://me:secret@db/crawl")
    assert shown.endswith("each with: -d 'a folder' -s METADATA_URI=...")
    shown = commands(DATA_DIR="data", REDIS_URL="redis://:secret@a", METADATA_URI="sqlite:///a:secret@b")
    assert shown.endswith("each with: -d data -s METADATA_URI=... -s REDIS_URL=...")
    assert "scrapy links" not in shown and "secret" not in shown
    assert "scrapy search" not in commands(replace(FIGURES, archived=0))
    assert "scrapy stuck" not in commands(replace(FIGURES, dead_letters=0))
    assert commands(replace(FIGURES, stored=0)) == ""


def test_commands_without_their_libraries_follow_with_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webcrawl.crawler.report.summary_text.is_installed", lambda extra: False)
    *shown, more = commands(priority="project").splitlines()
    assert "scrapy export -o FOLDER  all rows as JSON Lines" in "\n".join(shown)
    assert not [line for line in shown if "scrapy search" in line or "dashboard" in line]
    assert more.startswith(
        f"  more        scrapy dashboard, scrapy search WORDS: {sys.executable} -m pip install "
    )
    assert "tantivy" in more and "uvicorn" in more


def test_a_run_without_pending_urls_is_reported(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "one page")
    first, second = (crawl([web.url(SITE)]).stderr for _ in range(2))
    assert "Crawl finished: there is nothing left" in first
    assert "1 from 1 host in " in first
    assert "\n  look with   scrapy page URL " in first and "\n              each with: -d /" in first
    assert "Nothing was left to crawl. To start over" in second
    assert "Crawl finished" not in second
    assert "1 from 1 host\n" in second, "the time must be that of this run"


def read_until(terminal: int, word: str, seconds: float) -> str:
    """Reads a terminal until a word appears or the writer exits."""
    deadline, written = time.monotonic() + seconds, ""
    os.set_blocking(terminal, False)
    while word not in written and time.monotonic() < deadline:
        try:
            written += os.read(terminal, 65536).decode(errors="replace")
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:  # the writer has closed the terminal
            break
    return written


def countdown(terminal: int, words: str, seconds: float) -> str:
    """Reads a terminal until two different numbers have followed `words`."""
    deadline, written = time.monotonic() + seconds, ""
    while len(set(re.findall(f"{words}(\\d+) s", written))) < 2:
        assert time.monotonic() < deadline, written[-2000:]
        written += read_until(terminal, words, 1)
    return written


def test_a_second_interrupt_restores_the_terminal(local_web: StartWeb, tmp_path: Path) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", Reply("slow", delay=30))
    words = ["-a", f"seeds={web.url(SITE)}", "-s", f"DATA_DIR={tmp_path}", "-s", f"DNS_SERVERS={NO_NAMES}"]
    ours, theirs = pty.openpty()
    crawl = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "broad", *words],
        cwd=CHECKOUT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        written = read_until(ours, "Ctrl-C stops", 60)
        assert HIDE in written
        deadline = time.monotonic() + 60
        while "/" not in web.paths(SITE) and time.monotonic() < deadline:
            time.sleep(0.05)
        crawl.send_signal(signal.SIGINT)
        written += countdown(ours, "a response takes ", 60)
        assert "stopping: 1 request left" in written and f"more): {web.url(SITE)}" in written
        assert crawl.poll() is None, "the first interrupt must wait for the page"
        crawl.send_signal(signal.SIGINT)
        written += read_until(ours, "no such word", 60)
        assert crawl.wait(60) is not None
    finally:
        crawl.kill()
        crawl.wait(60)
        os.close(ours)
    after = written.rpartition(SHOW)[2]
    assert SHOW in written
    assert HIDE not in after
    assert "Ctrl-C stops" not in after
