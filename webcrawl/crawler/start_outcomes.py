"""The outcomes of start URLs, by which a crawl without pages can say why it has none."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.url import url_is_from_any_domain
from twisted.python.failure import Failure

from webcrawl.errors import InvalidURL
from webcrawl.frontier import Settlement
from webcrawl.frontier.figures import FAILED_START
from webcrawl.urls.canonical import normalize

MOST_KEPT = 100
"""The most start URLs whose outcomes a process keeps."""

_MOST_SHARED = 20
_LONGEST = 300

OFFSITE = "offsite: its host is not in the spider's allowed_domains"
_FAILED_DOWNLOAD = re.compile(
    r"(?:CannotResolveHostError|Download\w+Error|UnsupportedURLSchemeError|RobotsUnreachable|MalformedAnswer): "
)

QUEUED = ""
"""The outcome of a start URL that was given to the frontier, as far as this process knows."""


class StartOutcomes:
    """The outcomes of the start URLs that this process requested or fetched.

    A start URL has depth 0, like the target of its redirect. Some of the final failures are shared with the other
    workers and later runs, as totals of the crawl.
    """

    def __init__(self) -> None:
        self.number = 0
        """The number of start requests of this process."""
        self.reasons: dict[str, str] = {}
        """Start URL -> why it has brought no page so far; QUEUED until the reason is known."""
        self.failed = False
        """Whether a start URL has failed for good in this run, or start() raised an exception."""
        self._crawler: Crawler | None = None
        self._seeding = False
        self._shared = 0

    def watch(self, crawler: Crawler) -> None:
        """Records the start requests of a crawler whose spider is about to start."""
        self._crawler, self._seeding = crawler, True
        crawler.signals.connect(self._scheduled, signals.request_scheduled)
        crawler.signals.connect(self._start_failed, signals.spider_error)

    def end_of_start(self) -> None:
        """Records that the spider has no more start requests."""
        if self._seeding and self._crawler is not None:
            self._seeding = False
            self._crawler.signals.disconnect(self._scheduled, signals.request_scheduled)

    def queued(self, request: Request) -> None:
        """Records that the request of a start URL was given to the frontier."""
        if self._seeding and not request.meta.get("depth"):
            self._keep(_named(request.url), QUEUED)

    def refused(self, url: str, reason: str) -> None:
        """Records that a start URL was not given to the frontier."""
        if self._seeding:
            self._keep(_named(url), reason)

    def ended(self, url: str, outcome: Settlement, totals: Counter[str], *, judged: bool) -> None:
        """Records that all work on a start URL is done for now without a page; counts a final failure in `totals`.

        `judged`: a component set the outcome. Otherwise the response became another request, as a redirect does.
        """
        reason = _in_words(outcome.reason)
        if outcome.verdict == "retry":
            self._keep(url, f"{reason} (to be tried again)")
        elif reason:
            self.failed = True
            self._keep(url, reason)
            self._share(url, reason, totals)
        elif not judged:
            self._keep(url, "redirected: see its target")

    def _share(self, url: str, reason: str, totals: Counter[str]) -> None:
        if self._shared < _MOST_SHARED:
            self._shared += 1
            totals[f"{FAILED_START}{url[:_LONGEST]} {reason[:_LONGEST]}"] += 1

    def _keep(self, url: str, reason: str) -> None:
        if url in self.reasons or len(self.reasons) < MOST_KEPT:
            self.reasons[url] = reason

    def _scheduled(self, request: Request, spider: Spider) -> None:
        """Counts a start request; until it is queued, it counts as filtered by another receiver of this signal."""
        if request.meta.get("depth"):
            return
        self.number += 1
        domains = getattr(spider, "allowed_domains", None) or ()
        offsite = domains and not url_is_from_any_domain(request.url, domains)
        self._keep(_named(request.url), OFFSITE if offsite else "filtered by an extension")

    def _start_failed(self, failure: Failure, response: Any) -> None:
        if response is None:
            self._keep("start()", f"{type(failure.value).__name__}: {failure.value}")
            self.failed = True


def _named(url: str) -> str:
    """Returns a URL as the frontier writes it, or unchanged if it is invalid."""
    try:
        return normalize(url)
    except InvalidURL:
        return url


def _in_words(reason: str) -> str:
    """Returns the reason of an outcome, without the class of a failed download."""
    if reason.startswith("Filtered offsite"):
        return OFFSITE
    return _FAILED_DOWNLOAD.sub("", reason)
