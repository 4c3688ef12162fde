"""DEPTH_OF_COPY: heads alone, rows without the archive, and all, by rule; over a kill, a recrawl, a reparse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawl import archive
from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply

HEAD, ROWS, WHOLE = "127.0.1.1", "127.0.1.2", "127.0.1.3"
SITES = (HEAD, ROWS, WHOLE)
PAGES = 6
StartWeb = Callable[..., LocalWeb]
StartCrawl = Callable[..., Crawl]
HERE = Project(CHECKOUT)


def sites(web: LocalWeb) -> None:
    """Publishes three sites of the same form: linked pages, one that is disallowed, one that redirects elsewhere."""
    for site in SITES:
        links = "".join(f"<a href=/{number}>x</a>" for number in range(PAGES))
        web.put(site, "/robots.txt", Reply("User-agent: *\nDisallow: /no"))
        web.put(
            site,
            "/",
            Reply(f"{links}<a href=/no>x</a>", headers={"Content-Type": "text/html", "ETag": '"1"'}),
        )
        for number in range(PAGES):
            text = f"<title>{number}</title><p>The text of page {number} of {site}, which is long enough."
            web.put(
                site, f"/{number}", Reply(text, headers={"Content-Type": "text/html", "ETag": f'"{number}"'})
            )
    for site, other in ((HEAD, WHOLE), (WHOLE, HEAD)):
        web.put(site, "/moved", Reply(status=301, headers={"Location": web.url(other, "/target")}))
        web.put(site, "/target", "<p>Moved here.")


def rules(web: LocalWeb) -> str:
    return json.dumps({web.host(HEAD).partition("//")[2]: "head", f"*://{ROWS}*/*": "metadata"})


def methods(web: LocalWeb, site: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for hit in web.log(site):
        counts.setdefault(hit.path, Counter())[hit.method] += 1
    return counts


def remarks(row: dict[str, Any]) -> list[str]:
    return list(json.loads(row["details"] or "{}").get("remarks", []))


def check(web: LocalWeb, result: CrawlResult) -> None:
    """Checks requests, rows and archive of a crawl of the sites."""
    rows = {row["url"]: row for row in result.rows()}
    seeds = [web.url(HEAD, f"/{number}") for number in range(PAGES)]
    for url in [web.url(HEAD), *seeds]:
        row = rows[url]
        assert (row["status"], row["mime_type"], row["length"], row["digest"]) == (
            200,
            "text/html",
            None,
            None,
        )
        assert (
            remarks(row) == ["head_only"]
            and row["etag"]
            and not row["soft_404"]
            and row["duplicate_of"] is None
        )
    for number in range(PAGES):
        row = rows[web.url(ROWS, f"/{number}")]
        assert row["length"] > 50 and row["digest"] and row["title"] == str(number), "it was read"
        assert (row["warc_file"], remarks(row)) == (None, ["metadata_only"])
        whole = rows[web.url(WHOLE, f"/{number}")]
        assert whole["warc_file"] and remarks(whole) == []
    asked = methods(web, HEAD)
    assert {path: set(counts) for path, counts in asked.items() if path != "/robots.txt"} == {
        path: {"HEAD"} for path in ("/", *(f"/{number}" for number in range(PAGES)), "/moved", "/target")
    }
    assert set(asked["/robots.txt"]) == {"GET"}
    assert not [hit for hit in web.hits if hit.path == "/no"], "robots.txt counts for all depths"
    assert rows[web.url(HEAD, "/moved")]["status"] == 301
    assert remarks(rows[web.url(HEAD, "/target")]) == ["head_only"]
    assert methods(web, WHOLE)["/target"] == {"GET": 1}, "the target of a redirect has a rule of its own"
    archived = archive.records(result.data_dir, "response")
    assert not [url for url in archived if url.startswith(web.host(ROWS)) and not url.endswith("robots.txt")]
    assert set(archived) >= {web.url(WHOLE, f"/{number}") for number in range(PAGES)}
    assert set(archived) >= {web.url(HEAD), *seeds}, "the heads are archived"
    assert result.summary["remarks"]["head_only"] >= PAGES + 1
    assert result.summary["remarks"]["metadata_only"] >= PAGES + 1
    assert "of which only the head was asked for: see DEPTH_OF_COPY" in result.stdout + result.stderr


@pytest.mark.parametrize("handler", ["http.HTTPDownloadHandler", "curl.CurlDownloadHandler"])
def test_pages_are_copied_as_their_rules_say_also_after_a_kill(
    start_crawl: StartCrawl, local_web: StartWeb, handler: str
) -> None:
    web = local_web(*SITES)
    sites(web)
    # nothing is found by a HEAD, so the pages are seeds
    seeds = [
        web.url(site, path) for site in SITES for path in ("/", *(f"/{number}" for number in range(PAGES)))
    ]
    seeds += [web.url(HEAD, "/moved"), web.url(WHOLE, "/moved")]
    options: dict[str, Any] = {
        "DEPTH_OF_COPY": rules(web),
        "DOWNLOAD_DELAY": 0.1,
        "FRONTIER_LEASE_SECONDS": 3,
        "DOWNLOAD_HANDLERS": json.dumps(
            dict.fromkeys(("http", "https"), f"webcrawl.crawler.download.{handler}")
        ),
    }
    first = start_crawl("broad", seeds, **options)
    until(lambda: len(web.pages()) > 8, first)
    first.kill()
    result = start_crawl("broad", seeds, **options).wait()
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    check(web, result)
    archive.check(result.data_dir)


def test_a_page_is_fetched_whole_once_its_rule_says_so(
    crawl: Callable[..., CrawlResult], local_web: StartWeb, tmp_path: Path
) -> None:
    """A revisit does not send the validators of a head, whose 304 would confirm a body that nobody has."""
    web = local_web(HEAD)
    validated = []

    def page(hit: Any) -> Reply:
        validated.append(hit.headers.get("If-None-Match"))
        return Reply("<p>A page.", headers={"Content-Type": "text/html", "ETag": '"1"'})

    web.put(HEAD, "/", page)
    first = crawl([web.url(HEAD)], DEPTH_OF_COPY="head", CRAWL_ID="shallow")
    assert [remarks(row) for row in first.rows()] == [["head_only"]]
    reparse = ("reparse", "broad", "--crawl", "shallow", "--dry-run", "-s", f"DATA_DIR={first.data_dir}")
    shown = json.loads(HERE.scrapy(*reparse, "--json"))
    assert shown == {"pages": 0, "not_archived": 1, "no_response": 0}
    said = HERE.scrapy(*reparse)
    assert "1 whose body is not archived (noarchive, noindex, DEPTH_OF_COPY)" in said
    second = crawl([web.url(HEAD)], REVISIT=True, CRAWL_ID="whole")
    ((row),) = second.rows()
    assert (row["status"], row["length"], remarks(row)) == (200, 10, [])
    third = crawl([web.url(HEAD)], REVISIT=True, CRAWL_ID="again")
    assert validated == [None, None, '"1"'] and len(third.rows()) == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("heads", 'DEPTH_OF_COPY must be "head", "metadata" or "full", or a dict'),
        ('{"example.org": "all"}', "DEPTH_OF_COPY, entry 'example.org': 'all' is not"),
        ('{"https://example.org": "head"}', "DEPTH_OF_COPY 'https://example.org': it matches no page"),
    ],
)
def test_a_wrong_rule_ends_the_command(
    start_crawl: StartCrawl, local_web: StartWeb, value: str, why: str
) -> None:
    result = start_crawl("broad", [local_web(HEAD).url(HEAD)], DEPTH_OF_COPY=value).wait(status=2)
    assert why in result.stderr
