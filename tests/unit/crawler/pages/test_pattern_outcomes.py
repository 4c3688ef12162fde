"""What a page counts as in the record of its URL pattern."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from scrapy.crawler import Crawler

from tests.cases import cases
from webcrawl.documents.page import Page
from webcrawl.pipelines.pattern_records import PatternRecordsPipeline
from webcrawl.policies.pattern_records import HostPatterns

HTML = {"mime_type": "text/html"}


@cases(
    ("fields", "text", "counted"),
    [
        ({"status": 200, **HTML}, "A text", "new"),
        ({"status": 200, **HTML}, "", "empty"),
        ({"status": 200, "mime_type": "image/png"}, None, "new"),
        ({"status": 200, "duplicate_kind": "exact", **HTML}, "", "copies"),
        ({"status": 200, "duplicate_kind": "near", **HTML}, "A text", "copies"),
        ({"status": 200, "soft_404": True, **HTML}, "A text", "errors"),
        ({"status": 404, **HTML}, "Not found", "errors"),
        ({"status": 301}, None, None),
        ({"status": 301, "soft_404": True}, None, "errors"),
        ({"status": 403, **HTML}, "Please log in", None),
        ({"status": 429}, None, None),
        ({"status": 503}, None, None),
        ({"status": None, "error": "timed out"}, None, None),
    ],
)
def test_the_table_of_outcomes(fields: dict[str, Any], text: str | None, counted: str | None) -> None:
    known, crawler = HostPatterns(), cast("Crawler", None)
    page = Page(url="http://a.test/1", host="a.test", fetched_at=datetime.now(UTC), **fields)
    page.text = text
    outcome = PatternRecordsPipeline(crawler, reads_text=True).outcome(page)
    if outcome is None:
        assert counted is None
        return
    known.add("/1", outcome)
    assert counted is not None
    assert getattr(known.records["/#"], counted) == 1
