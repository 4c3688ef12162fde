"""HTML that takes the parser very long, although its size and nesting look harmless, blocks no other page."""

from __future__ import annotations

from collections.abc import Callable

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply
from webcrawl.documents.html.timed_parse import BYTES

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
HTML = {"Content-Type": "text/html; charset=utf-8"}
# The comments hide the nesting from the depth check; the parser would take a minute.
NESTED = f"<title>t</title><a href=/lost>x</a>{'<div><!--</div>-->' * 230_000}"
UNREAD = "text/html the body of a redirect is not read beyond 524,288 bytes"
ENDED = "text/html takes longer than 4 s"
"""The limit of its process."""
PATIENT = """
from webcrawl.documents.html import large_outline
from webcrawl.spiders.broad import Broad

large_outline.SECONDS = 0.5  # the parser is as costly afterwards, in a process of its own


class Patient(Broad):
    name = "patient"
"""


def test_a_page_that_takes_the_parser_a_minute_does_not_delay_others(
    local_web: StartWeb, run_crawl: RunCrawl, project: Project
) -> None:
    """Other large pages are parsed in processes meanwhile."""
    project.add_spider("patient", PATIENT)
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "<a href=/nested>1</a><a href=/moved>2</a>")
    web.put(SITE, "/nested", Reply(NESTED, headers=HTML))
    web.put(SITE, "/moved", Reply(NESTED, status=301, headers=HTML | {"Location": "/long"}))
    words = "<p>Words of a page that is long. And longer." * (BYTES // 40)
    web.put(SITE, "/long", Reply(f"<title>t</title><a href=/found>x</a>{words}", headers=HTML))
    web.put(SITE, "/found", Reply("<title>found</title>", headers=HTML))
    others = [f"/{number}" for number in range(30)]
    for number, path in enumerate(others):
        web.put(OTHER, path, Reply(f"page {number} <a href=/{number + 1}>next</a>", headers=HTML, delay=0.02))
    seeds = [web.url(SITE), web.url(OTHER, "/0")]
    result = run_crawl("patient", seeds, project=project.folder, MIME_TIMEOUT="4")

    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows() if SITE in row["url"]}
    assert sorted(rows) == ["/", "/found", "/long", "/moved", "/nested"]
    assert rows["/long"]["title"] == "t" and rows["/long"]["processing_error"] is None
    for path, status, error in (("/nested", 200, ENDED), ("/moved", 301, UNREAD)):
        found = rows[path]
        assert (found["title"], found["status"]) == (None, status) and found["warc_file"]
        assert found["processing_error"] == error
    assert result.summary["types"]["text/html"]["errors"] == 2
    # the other pages were fetched and stored while the slow page was parsed
    theirs = {row["url"].removeprefix(web.host(OTHER)): row for row in result.rows() if OTHER in row["url"]}
    assert sorted(theirs) == sorted([*others, "/30"])
    before = [
        path
        for path in others[1:]
        if theirs[path]["warc_file"] and theirs[path]["warc_offset"] < rows["/nested"]["warc_offset"]
    ]
    assert len(before) > 20
