"""Error pages that answer with 200, in whole crawls."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import Crawl, CrawlResult, scrapy, until
from tests.web import ANY, Hit, LocalWeb, Page, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
PAGES = 30
# an error page is the only link of a page, so it would be more important than the pages
IN_ORDER = {"SOFT_404": True, "IMPORTANCE": "off"}
SORRY = "We are sorry, but the page that you are looking for is not here any more. " * 3


def text(number: int) -> str:
    """The text of a page, unlike all others."""
    dice = random.Random(number)
    return " ".join(f"{dice.getrandbits(40):08x}" for _ in range(60))


def publish(web: LocalWeb, others: Page | None, pages: int = PAGES) -> str:
    """Pages that the start page links to, each with a link to a page that is gone; returns the start page."""
    links = "".join(f"<a href=/p{n}>{n}</a>" for n in range(pages))
    for number in range(pages):
        web.put(SITE, f"/p{number}", f"<p>{text(number)}</p><a href=/gone{number}>next</a>")
    if others is not None:
        web.put(SITE, ANY, others)
    web.put(SITE, "/robots.txt", Reply("", status=404))
    return web.put(SITE, "/", f"<p>{text(PAGES)}</p>{links}")


def apology(hit: Hit) -> Reply:
    """An error page that names its path and has a link of its own, which leads to another error page."""
    return Reply(f"<p>{SORRY}</p><p>{hit.path}</p><a href={hit.path}x>more</a>")


def lines_of(path: Path) -> list[bytes]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines()


def asked(web: LocalWeb) -> list[str]:
    """The paths that cannot exist for which the site was asked."""
    return [path for path in web.paths(SITE) if re.fullmatch(r"/[a-z]{24}", path)]


def marked(result: CrawlResult, web: LocalWeb) -> set[str]:
    return {row["url"].removeprefix(web.host(SITE)) for row in result.rows() if row["soft_404"]}


def told(result: CrawlResult, web: LocalWeb) -> Any:
    """What `scrapy host` says of unknown paths."""
    done = scrapy("host", "--json", web.host(SITE), "broad", "-s", f"DATA_DIR={result.data_dir}")
    return json.loads(done.stdout)["unknown_paths"]


GONE = {f"/gone{n}" for n in range(PAGES)}


def test_pages_like_the_answer_are_errors_whose_links_are_not_followed(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    result = crawl([publish(web, apology)], **IN_ORDER, CRAWL_MAX_PAGES=150, DOWNLOAD_DELAY=0.01)
    assert marked(result, web) == GONE
    assert len(asked(web)) == 1
    assert {path for path in web.paths(SITE) if path.startswith("/gone")} == GONE, (
        "an error page was followed"
    )
    assert web.min_gap(SITE) >= 0.01
    summary = result.summary
    assert (summary["soft_404"], summary["pages"], summary["near_duplicates"]) == (PAGES, 2 * PAGES + 1, 0)
    assert sum(summary["responses"].values()) == 2 * PAGES + 1, "the question counts as a response"
    assert f"{PAGES} soft 404" in result.stderr
    assert "pages like this answer" in told(result, web)
    folder = result.data_dir / "export"
    scrapy("export", "-o", str(folder), "--format", "jsonl", "-s", f"DATA_DIR={result.data_dir}")
    rows = [json.loads(line) for path in folder.rglob("*.jsonl*") for line in lines_of(path)]
    assert sum(row["soft_404"] for row in rows) == PAGES


def test_a_start_page_in_answer_to_everything(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    seed = publish(web, None)
    web.put(SITE, ANY, web.sites[SITE]["/"])
    result = crawl([seed], **IN_ORDER, FRONTIER_ORDER="breadth-first")
    assert marked(result, web) == GONE, "the start page is none, although it looks the same"


def test_a_short_text_is_compared_without_the_path(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    result = crawl([publish(web, lambda hit: Reply(f"no page {hit.path}"))], **IN_ORDER)
    assert marked(result, web) == GONE


def test_a_host_with_404_is_asked_once(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    result = crawl([publish(web, None)], **IN_ORDER)
    assert (marked(result, web), len(asked(web)), told(result, web)) == (set(), 1, "status 404")
    assert result.summary["responses"] == {"200": PAGES + 1, "404": PAGES}


def test_redirects_of_unknown_paths_are_errors(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    seed = publish(web, Reply(status=302, headers={"Location": "/"}))
    web.put(SITE, "/gone1", Reply(status=302, headers={"Location": "/p1"}))
    # slow enough for a busy machine to know the answer before it fetches these
    result = crawl([seed], DOWNLOAD_DELAY=0.05, **IN_ORDER)
    assert marked(result, web) == GONE - {"/gone1"}
    assert f"redirects to {seed}" in told(result, web)


def test_a_shell_that_all_pages_show_tells_nothing(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    links = "".join(f"<a href=/p{n}>page</a>" for n in range(PAGES))
    web.put(SITE, ANY, lambda hit: Reply(f"<p>{SORRY}</p><script>{hit.path}</script>{links}"))
    web.put(SITE, "/robots.txt", Reply("", status=404))
    result = crawl([web.url(SITE)], **IN_ORDER)
    assert (result.summary["pages"], marked(result, web)) == (PAGES + 1, set())
    assert "as most pages" in told(result, web)


@pytest.mark.parametrize(("pages", "on"), [(9, True), (PAGES, False)])
def test_a_small_host_is_not_asked_and_none_if_it_is_off(
    local_web: StartWeb, crawl: RunCrawl, pages: int, on: bool
) -> None:
    web = local_web(SITE)
    result = crawl([publish(web, Reply(f"<p>{SORRY}</p>"), pages)], SOFT_404=on)
    assert (asked(web), marked(result, web), told(result, web)) == ([], set(), None)


def test_robots_txt_forbids_the_question(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    seed = publish(web, apology)
    web.put(
        SITE,
        "/robots.txt",
        "User-agent: *\nDisallow: /\nAllow: /$\n" + "".join(f"Allow: /p{n}\n" for n in range(10)),
    )
    result = crawl([seed], **IN_ORDER)
    assert (asked(web), marked(result, web), told(result, web)) == ([], set(), "no answer")
    assert result.summary["robots_denied"] == PAGES, "the question counts"


def test_a_later_run_knows_the_answer(local_web: StartWeb, crawl: RunCrawl, tmp_path: Path) -> None:
    web = local_web(SITE)
    seed = publish(web, apology)
    first = crawl([seed], **IN_ORDER, CRAWL_MAX_PAGES=23)
    assert marked(first, web) == set()
    result = crawl([seed], **IN_ORDER, CRAWL_MAX_PAGES=100)
    assert (marked(result, web), len(asked(web))) == (GONE, 1)


def test_a_host_that_does_not_answer_the_question_holds_no_other_up(
    local_web: StartWeb, start_crawl: Callable[..., Crawl]
) -> None:
    """Its page waits for the answer, and is larger than all pages that may be processed at a time."""
    web, honest = local_web(SITE), local_web("127.0.1.2")
    home = publish(web, lambda hit: Reply(delay=200 if len(hit.path) == 25 else 0))
    for number in range(PAGES):
        web.put(SITE, f"/p{number}", f"<p>{text(number)}</p>{'<br>' * 10_000}")
    for number in range(PAGES):
        honest.put("127.0.1.2", f"/{number}", lambda _, n=number: chained(n, bool(asked(web))))
    crawl = start_crawl(
        "broad",
        [home, honest.url("127.0.1.2", "/0")],
        DOWNLOAD_DELAY=0.01,
        DOWNLOAD_TIMEOUT=100,
        SCRAPER_SLOT_MAX_ACTIVE_SIZE=20_000,
        **IN_ORDER,
    )
    until(lambda: f"/{PAGES - 1}" in honest.paths("127.0.1.2"), crawl)


def chained(number: int, goes_on: bool) -> Reply:
    """A page that links to the next one, and to itself with another query until the chain goes on."""
    return Reply(
        f"<a href=/{number + 1}>next</a>" if goes_on else f"<a href=/{number}?{random.random()}>again</a>"
    )
