"""HTML whose cost no count tells: a reader finds out before the worker does."""

from __future__ import annotations

from collections.abc import Callable

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply
from webcrawl.mime.trial import BYTES

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
HTML = {"Content-Type": "text/html; charset=utf-8"}
# Nested as deep as there are comments, and to no count.
NESTED = "<div><!--</div>-->" * (BYTES // 18 + 1)


def test_large_html_is_tried_first(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/nested", Reply(f"<title>t</title><a href=/lost>x</a>{NESTED}", headers=HTML))
    long = "<title>t</title><a href=/found>x</a>" + "<p>Words of a page that is long. And longer." * (
        BYTES // 40
    )
    web.put(SITE, "/long", Reply(long, headers=HTML))
    web.put(SITE, "/found", Reply("<title>found</title>", headers=HTML))
    result = crawl([web.put(SITE, "/", "<a href=/nested>1</a><a href=/long>2</a>")], MIME_TIMEOUT=4)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert sorted(rows) == ["/", "/found", "/long", "/nested"]
    assert rows["/long"]["title"] == "t" and rows["/long"]["processing_error"] is None
    nested = rows["/nested"]
    assert nested["title"] is None
    assert nested["processing_error"].startswith("text/html takes ")
    assert nested["status"] == 200 and nested["warc_file"]
