"""The scheduler of temporary crawls, for `scrapy shell`, `fetch`, `view`, `parse` and `check`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.report.summary import Summary
from webcrawl.crawler.scheduling.start_urls import StartURLFeeding, is_fed
from webcrawl.crawler.session import Session
from webcrawl.errors import InvalidURL, printable
from webcrawl.scheduler import FrontierScheduler
from webcrawl.temporary.isolation import NAMED_FILE, SHELL_URL

_EXPLAINED = "The reason was printed."


class TemporaryScheduler(FrontierScheduler):
    """Hands out the requests themselves instead of copies, and prints why a request had no response.

    Requests of a command carry the command's functions, and the shell sets callbacks after it schedules a request.
    """

    unanswered: ClassVar[int] = 0
    """The number of requests of this process without a response, and of crawls that could not start."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._shell_url: str | None = crawler.settings.get(SHELL_URL)
        self._named_file: str | None = crawler.settings.get(NAMED_FILE)
        self.loop = asyncio.get_running_loop()
        """The loop of the crawl. The shell's console is in another thread."""

    def enqueue_request(self, request: Request) -> bool:
        if self.tasks.comes_again(request):
            return True
        if request.url == self._named_file:
            _explain(request, is_shell=self._shell_url is not None)
            self._without_host.append(request)
            self._wake_engine()
            return True
        try:
            candidate = self._held.hold(request, self.spider, self.session.canonicalizer)
        except InvalidURL as error:
            if self._shell_url is not None:
                raise
            _report(request, error)
            return False
        _explain(request, is_shell=self._shell_url is not None)
        # as in Scrapy's shell, which has no dupefilter
        candidate = replace(candidate, anyway=candidate.anyway or self._shell_url is not None)
        added = self.worker.add(candidate)
        if not added:
            self._held.forget(candidate.extra)
        return added

    def open(self, spider: Spider) -> Deferred[None]:
        if is_fed(spider):
            # the spider would read start URLs, and wait for more
            self.crawler.signals.disconnect(spider.spider_idle, signals.spider_idle)  # type: ignore[attr-defined]
        if summary := self.crawler.get_extension(Summary):
            self.crawler.signals.disconnect(summary.spider_closed, signals.spider_closed)
        if self._shell_url:
            # the user's seed; other start requests pass OutlinksMiddleware
            with suppress(InvalidURL):
                self.session.scope.admit_seed(self._shell_url)
        return super().open(spider)

    async def _open(self) -> None:
        await super()._open()
        if self._tasks is None:
            TemporaryScheduler.unanswered += 1

    def _feed(self) -> StartURLFeeding | None:
        return None


def _explain(request: Request, *, is_shell: bool) -> None:
    """Makes the errback of a request first print why there is no response."""
    errback = request.errback

    def explained(failure: Failure) -> Any:
        error = failure.value
        # the errback of a redirected request has been replaced twice, but prints once
        if isinstance(error, Exception) and _EXPLAINED not in getattr(error, "__notes__", ()):
            error.add_note(_EXPLAINED)
            _report(request, error)
        if errback is not None:
            return errback(failure)
        if is_shell:
            # the only exception after which the shell goes on
            raise IgnoreRequest(str(error)) from error
        return failure

    request.errback = explained


def _report(request: Request, error: Exception) -> None:
    TemporaryScheduler.unanswered += 1
    print(f"No response from {printable(request.url)}: {_reason(error)}.", file=sys.stderr)


def _reason(error: Exception) -> str:
    text = printable(str(error)).rstrip(".") or type(error).__name__
    if isinstance(error, RequestRefused):
        return f"{text} (name its host on the command line, or its network in ALLOWED_NETWORKS, to allow it)"
    if isinstance(error, HttpError):
        return f"its status is {error.response.status}, which the spider does not handle"
    return text
