"""HTML parsing in a child process: same results as in the worker, and a crash costs at most one page."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply

StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]

SITE = "127.0.1.1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
RUN_SPECIFIC = {
    *(
        "fetched_at",
        "first_fetched_at",
        "tried_at",
        "latency",
        "attempts",
        "queued_at",
        "referrer",
        "duplicate_of",
    ),
    *("warc_file", "warc_offset", "warc_length", "importance"),
}


def prose(seed: int, count: int = 900) -> str:
    """Returns text that is long enough to be parsed in the child process."""
    dice = random.Random(seed)
    return " ".join(f"w{dice.getrandbits(16)}" for _ in range(count))


def fill(web: LocalWeb) -> str:
    """Publishes one page of each kind that the parser treats differently; returns the home page."""
    near = prose(5)
    copy = f"<title>copy</title><p>{prose(6)}</p><a href=from-copy>x</a><a href=/below/copy-2>x</a>"
    pages: dict[str, str | Reply] = {
        "/small": "<title>small</title><a href=/from-small>x</a>",
        "/from-small": f"<title>from small</title><p>{prose(1)}</p>",
        "/text": Reply(
            f"<title>\xe9</title><main>{prose(2)}</main>".encode("latin-1"),
            headers={"Content-Type": "text/html"},
        ),
        "/x": Reply(
            f"<html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head><body><p>{prose(3)}</p>"
            "<a href='/from-x'/></body></html>",
            headers={"Content-Type": "application/xhtml+xml"},
        ),
        "/from-x": f"<p>{prose(4)}</p>",
        # the second of two is found in the first, which is stored before the second arrives
        "/near-1": f"<title>near</title><p>{near}</p><a href=/near-2>x</a>",
        "/near-2": Reply(f"<title>near</title><p>{near} more</p>", headers=HTML, delay=0.5),
        "/copy-1": copy,
        "/below/copy-2": Reply(copy, headers=HTML, delay=0.5),
        "/from-copy": "1",
        "/below/from-copy": "2",
        "/noindex": f"<title>no</title><meta name=robots content=noindex><p>{prose(7)}</p><a href=/from-noindex>x</a>",
        "/from-noindex": "3",
        "/nofollow": f"<title>no</title><meta name=robots content=nofollow><p>{prose(8)}</p><a href=/lost>x</a>",
        "/frames": f"<title>frames</title><!--{prose(9)}--><frameset><frame src=/frame></frameset>",
        "/frame": f"<title>frame</title><p>{prose(10)}</p><a href=/from-frame>x</a>",
        "/from-frame": "4",
        "/gone": Reply(f"<title>gone</title><p>{prose(11)}</p>", status=404, headers=HTML),
        **{
            f"/gone-{number}": Reply(f"<title>alike</title><p>{prose(15)}</p>", status=404, headers=HTML)
            for number in (1, 2)
        },
        "/moved": Reply(
            f"<title>moved</title><p>{prose(12)}</p>", status=301, headers=HTML | {"Location": "/target"}
        ),
        "/target": f"<title>target</title><p>{prose(13)}</p>",
        "/said": "<html lang=de><title>said</title><meta name=author content=Ada><link rel=canonical href=/other>"
        f"<meta property=og:image content=/i.png><h1>Head</h1><p>{prose(14)}</p>",
    }
    found = ("/frame", "/target", "/near-2", "/below/copy-2")
    linked = [path for path in pages if "from" not in path and path not in found]
    for path, page in pages.items():
        web.put(SITE, path, page if isinstance(page, Reply) else Reply(page, headers=HTML))
    return web.put(SITE, "/", Reply("".join(f"<a href={path}>x</a>" for path in linked), headers=HTML))


def comparable_rows(result: CrawlResult) -> dict[str, dict[str, Any]]:
    return {
        row["url"]: {name: value for name, value in row.items() if name not in RUN_SPECIFIC}
        for row in result.rows()
    }


@pytest.mark.parametrize("stitched", [False, True])
def test_results_are_equal_with_and_without_the_parsing_process(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path, stitched: bool
) -> None:
    web = local_web(SITE)
    seed = fill(web)
    runs = [
        crawl([seed], HTML_PROCESS=process, FRAMES_STITCHED=stitched, data_dir=tmp_path / str(process))
        for process in (True, False)
    ]
    beside, within = map(comparable_rows, runs)
    assert beside == within
    paths = {url.removeprefix(web.host(SITE)) for url in beside}
    assert paths >= {"/from-x", "/from-copy", "/below/from-copy", "/from-noindex", "/from-frame", "/target"}
    assert "/lost" not in paths
    rows = {url.removeprefix(web.host(SITE)): row for url, row in beside.items()}
    assert rows["/said"]["title"] == "said" and rows["/said"]["author"] == "Ada"
    assert rows["/gone-1"]["title"] == rows["/gone-2"]["title"] == "alike"
    assert rows["/noindex"]["title"] is None
    assert {rows["/near-2"]["duplicate_kind"], rows["/below/copy-2"]["duplicate_kind"]} == {"near", "exact"}
    assert (rows["/frames"]["simhash"] is not None) is stitched


def children(crawl: Crawl) -> Iterator[int]:
    """Yields the pids of the processes that parse HTML for a crawl."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_text() + (entry / "comm").read_text()
            except OSError:
                continue
            if parent == crawl.process.pid and "outline_child" in words:
                yield int(entry.name)


def test_a_killed_parsing_process_costs_no_page(
    local_web: StartWeb, start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    count = 60
    for number in range(count):
        page = f"<title>{number}</title><p>{prose(number)}</p><a href=/{number + 1}>next</a>"
        web.put(SITE, f"/{number}", Reply(page, headers=HTML, delay=0.02))
    web.put(SITE, f"/{count}", "the last one")
    crawl = start_crawl("broad", [web.url(SITE, "/0")])
    killed: set[int] = set()
    for least in (5, 20, 40):
        until(lambda least=least: len(web.paths(SITE)) > least and bool(set(children(crawl)) - killed), crawl)
        for pid in set(children(crawl)) - killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
    result = crawl.wait()
    assert len(killed) == 3
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert {path: (row["title"], row["processing_error"]) for path, row in rows.items()} == {
        **{f"/{number}": (str(number), None) for number in range(count)},
        f"/{count}": (None, None),
    }


def test_a_page_that_crashes_the_parser_is_stored_with_the_error(
    local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    for number in range(20):
        word = {7: "crash", 13: "fault"}.get(number, "fine")
        page = f"<title>{number}</title><!--{word}--><p>{prose(number)}</p>"
        web.put(SITE, f"/{number}", Reply(page, headers=HTML))
    seed = web.put(SITE, "/", "".join(f"<a href=/{number}>x</a>" for number in range(20)))
    result = run_crawl(
        "breaking",
        [seed],
        SPIDER_MODULES="tests.crawl.breaking_spider",
        timeout=60,
    )
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    errors = {path: row["processing_error"] for path, row in rows.items() if row["processing_error"]}
    assert errors == {
        "/7": "text/html crashed its reader process with SIGSEGV (out of memory, or a library's bug)",
        "/13": "text/html KeyError: 'ours'",
    }
    assert len(rows) == 21 and all(row["warc_file"] for row in rows.values())
    assert result.summary["types"]["text/html"]["errors"] == 2
    assert rows["/8"]["title"] == "8" and rows["/7"]["title"] is None
