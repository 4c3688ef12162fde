"""Counts the fields that EXTRACT finds in pages and those that it misses."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.extraction import problems_of
from webcrawl.documents.page import Page
from webcrawl.errors import brief
from webcrawl.frontier.figures import EXTRACTED, MISSING_FIELD


class ExtractionPipeline(SessionComponent):
    """Runs after all pipelines that read pages; off without EXTRACT. An error page that answers with 200 has no fields.

    A page without a field that is not optional is stored, and becomes stuck.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if session.extraction is None:
            raise NotConfigured
        self._extraction = session.extraction

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.reading.extracted is None or item.document is None:
            return item
        if item.soft_404:
            item.extracted = None
            return item
        rules = self._extraction.rules_of(item.document.url)
        lacking, problems = problems_of(rules, item.reading.extracted)
        count = tasks_of(self._crawler).count
        for rule in rules:
            count(f"{EXTRACTED}{rule.name}")
        for name in lacking:
            count(f"{MISSING_FIELD}{name}")
        item.extraction_problem = brief("; ".join(problems))
        return item
