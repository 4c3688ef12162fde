"""Documents that keep the reader processes busy delay their own site, and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crawls import CrawlResult
from tests.web import Hit, LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

HONEST, HOSTILE = "127.0.1.1", "127.0.1.2"
PAGES, DOCUMENTS = 12, 12


def test_a_document_in_a_reader_holds_its_own_site_and_no_other(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    """The document is read only once the honest site's last page was asked; otherwise it exceeds the time limit."""
    web, file = local_web(HONEST, HOSTILE), tmp_path / "asked"

    def page(hit: Hit) -> Reply:
        if len(set(web.paths(HONEST)) - {"/robots.txt"}) > PAGES:
            file.touch()
        return Reply(f"<title>{hit.path}</title>", headers={"Content-Type": "text/html"})

    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(PAGES))
    seeds = [web.put(HONEST, "/", links)]
    web.sites[HONEST]["*"] = page
    # more than SCRAPER_SLOT_MAX_ACTIVE_SIZE
    text, kind = f"{file}\n" + " " * 3_000_000, {"Content-Type": "text/x-waiting"}
    documents = "".join(f'<a href="/{number}.waiting">{number}</a>' for number in range(DOCUMENTS))
    seeds.append(web.put(HOSTILE, "/", documents))
    for number in range(DOCUMENTS):
        web.put(HOSTILE, f"/{number}.waiting", Reply(f"{text}{number}", headers=kind))
    result = crawl(
        seeds,
        DOWNLOAD_DELAY=0.2,
        MIME_TIMEOUT="15",
        ITEM_PIPELINES='{"tests.crawl.waiting.WaitingPipeline": 240}',
    )
    rows = {row["url"]: row for row in result.rows()}
    assert {row["processing_error"] for row in rows.values()} == {None}
    assert sum(row["title"] == "read" for row in rows.values()) == DOCUMENTS
    assert len(rows) == PAGES + DOCUMENTS + 2
    last = max(hit.started for hit in web.log(HONEST))
    early = [hit for hit in web.log(HOSTILE) if ".waiting" in hit.path and hit.started < last]
    # two in the reader or waiting for it, and those that were under way to it
    assert 2 <= len(early) < DOCUMENTS - 4


def test_a_page_with_20_000_links_holds_its_own_host_and_no_other(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    """The links are added in a part of the time, and the page's host is not asked before all of them are."""
    web, links = local_web(HONEST, HOSTILE), 20_000
    for number in range(PAGES):
        web.put(HONEST, f"/{number}", f'<a href="/{number + 1}">next</a>')
    anchors = "".join(f"<a href=/{number}>a</a>" for number in range(links))
    # the rest of the honest pages must be asked while the links are added, however slow they all are
    web.put(HOSTILE, "/", Reply(anchors, until=lambda: len(web.paths(HONEST)) > PAGES // 2))
    web.sites[HOSTILE]["*"] = lambda hit: Reply(f"<title>{hit.path}</title>")
    result = crawl(
        [web.url(HOSTILE), web.url(HONEST, "/0")],
        HOST_MAX_PAGES=PAGES + 1,
        DOWNLOAD_DELAY=0.05,
        timeout=280,
    )
    summary = result.summary
    assert summary["seen_urls"] == links + PAGES + 2
    assert summary["parked"] == links - PAGES
    asked = [hit for hit in web.log(HOSTILE) if hit.path not in ("/", "/robots.txt")]
    assert len(asked) == PAGES
    assert len(web.paths(HONEST)) == PAGES + 2
    assert max(hit.started for hit in web.log(HONEST)) < min(hit.started for hit in asked)


def test_a_large_body_of_a_redirect_is_stored_but_not_read(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(HONEST)
    web.put(HONEST, "/to", "<title>Target</title>")
    body = "<title>Redirect</title>" + "<p>" * 200_000
    seed = web.put(
        HONEST, "/", Reply(body, status=301, headers={"Location": "/to", "Content-Type": "text/html"})
    )
    rows = {row["status"]: row for row in crawl([seed]).rows()}
    assert (rows[200]["title"], rows[301]["title"]) == ("Target", None)
    assert rows[301]["length"] == len(body)
    assert "the body of a redirect is not read beyond 524,288 bytes" in rows[301]["processing_error"]
