"""The leased URLs that Scrapy works on, and their outcomes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal

from scrapy import Request
from twisted.python.failure import Failure

from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.scheduling.meta import most_retries, recrawl_after
from webcrawl.crawler.start_outcomes import StartOutcomes
from webcrawl.errors import EngineUnavailable, StoreUnavailable, brief
from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.hosts.politeness import Ok
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.totals import DEAD
from webcrawl.policies.traffic import class_of_visit
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_STORE_RETRY_SECONDS = 10.0


class InProgress(set[Request]):
    """The engine's set of requests in progress, which calls `done` when one is removed.

    Every request passes it when all work on it is done, however it ended. Scrapy has no signal for that.
    """

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


@dataclass(slots=True, eq=False)
class Task:
    """A URL that was leased under a fencing token, and its outcome so far. A later outcome replaces it."""

    url: LeasedURL
    token: int
    began: float = field(default_factory=time.monotonic)
    settlement: Settlement | None = None
    cause: str = "other"
    """Why the URL is a dead letter: a word of `webcrawl.metrics.totals.CAUSES`."""
    is_page: bool = False
    answered: bool = False
    """Whether the host sent something; `size` is the number of bytes of all bodies."""
    size: int = 0
    is_error: bool = False
    """Whether the last answer had a status from 400 on."""
    fetched: float | None = None
    """The monotonic time at which the fetch was over."""
    postponed: bool = False
    """Whether the URL stays leased, with no attempt counted, until its host is given back."""
    put_off: float | None = None
    """Seconds for which no worker may ask the host, if postponed; None if another worker may."""
    is_replaced: bool = False
    """Whether a middleware returned another request instead."""

    @property
    def comes_again(self) -> bool:
        """Whether the frontier will hand the URL out again."""
        return self.postponed or (self.settlement is not None and self.settlement.verdict == "retry")

    def settle(self, verdict: Literal["done", "retry", "dead"], delay: float = 0.0, reason: str = "") -> None:
        """Sets the outcome that is reported when all work on the URL is done."""
        self.settlement = Settlement(self.url.index, verdict, delay, reason and brief(reason))

    def outcome(self, request: Request, *, judged: bool) -> Settlement:
        """Returns the outcome to report. `judged`: a component sets an outcome for every request."""
        settlement = self.settlement or self._default_outcome(judged)
        if self.is_error or (not self.answered and settlement.verdict in ("retry", "dead")):
            settlement = replace(settlement, failed=True)
        if settlement.verdict == "done" and (after := recrawl_after(request)) is not None:
            next_class = class_of_visit(fetch_of(request).mime_type, is_alive=not self.is_error)
            settlement = replace(settlement, verdict="again", delay=after, next_class=next_class)
        return settlement

    def _default_outcome(self, judged: bool) -> Settlement:
        """Returns the outcome of a URL for which none was set.

        It is done if its host answered or another request took its place, otherwise a dead letter.
        """
        if self.answered or self.is_replaced or not judged:
            return Settlement(self.url.index)
        return Settlement(self.url.index, "dead", reason="its fetch ended without an outcome: see the log")


class Tasks:
    """The tasks of one process by request; middlewares report the outcomes of requests here.

    All methods accept requests that did not come from the frontier, and do nothing for them. `paced`: a component makes
    requests wait for their hosts' turns. `judged`: a component sets an outcome for every request.
    """

    def __init__(
        self,
        worker: Worker,
        turns: Turns,
        starts: StartOutcomes,
        max_attempts: int,
        *,
        paced: bool,
        judged: bool,
    ) -> None:
        self.worker = worker
        self._tally = worker.tally
        self._starts = starts
        self._turns = turns
        self._max_attempts = max_attempts
        self._paced = paced
        self._judged = judged
        self.bury_differently: Callable[[LeasedURL, Settlement], Settlement] = lambda url, settlement: (
            settlement
        )
        """Returns what is reported for a URL that would become a dead letter."""
        self.is_abandoned = False
        """Whether outcomes are reported no more, because the crawl stops at once."""
        self._tasks: dict[Request, Task] = {}
        self.processing: dict[Request, Task] = {}
        """Tasks whose fetch is over, and whose pages are parsed or stored, in the order in which the fetches ended."""

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, request: Request, url: LeasedURL, token: int) -> None:
        """Records that Scrapy was given the request of a leased URL."""
        self._tasks[request] = Task(url, token)
        if not self._paced:
            self._turns.turn(url.host).start(time.monotonic())

    def oldest(self) -> tuple[Request, Task] | None:
        """Returns the request that Scrapy has worked on for longest, and its task."""
        return next(iter(self._tasks.items()), None)

    def leased(self, request: Request) -> LeasedURL | None:
        """Returns the leased URL of a request; None if the request did not come from the frontier."""
        task = self._tasks.get(request)
        return task.url if task else None

    def lease_holds(self, request: Request) -> bool:
        """Whether a request may still be sent: it has no lease, or its host is still leased."""
        task = self._tasks.get(request)
        return task is None or self.worker.hosts.may_ask(task.url.host, task.token)

    def is_last_attempt(self, request: Request, *, sent: bool = True) -> bool:
        """Whether a failure of this request is final; always true if it did not come from the frontier.

        `sent`: the server may have seen the request, so the limits in its own meta apply.
        """
        task = self._tasks.get(request)
        if task is None:
            return True
        if not sent:
            return task.url.attempts + 1 >= self._max_attempts
        retries = request.meta.get("retry_times")
        if not isinstance(retries, int):
            retries = task.url.attempts
        return retries >= most_retries(request, self._max_attempts - 1)

    def comes_again(self, request: Request) -> bool:
        """Whether the frontier will hand out the URL of a request again."""
        task = self._tasks.get(request)
        return task is not None and task.comes_again

    def count(self, name: str, amount: int = 1) -> None:
        """Adds to one of the crawl's totals."""
        self._tally.counters[name] += amount

    def unreachable(self, host: str) -> None:
        """Records that a host did not answer, or that its name could not be resolved."""
        self._tally.unreachable_hosts.add(host)

    def answered(self, request: Request, host: str, status: int, size: int) -> None:
        """Records that a host answered with a status and a body of `size` bytes."""
        self._tally.answered_hosts.add(host)
        if task := self._tasks.get(request):
            task.answered = True
            task.is_error = status >= 400
            task.size += size
            if task.url.returns:
                self.count("fetched_again")

    def finish_fetch(self, request: Request) -> None:
        """Ends the transfer: the host's next URL may be handed out while this response is processed."""
        task = self._tasks.get(request)
        if task and task.fetched is None:
            task.fetched = time.monotonic()
            self.processing[request] = task
            if not self._paced and (turn := self._turns.turn(task.url.host)).in_flight:
                turn.finish(time.monotonic(), Ok(request.meta.get("download_latency", 0.0)))
            self.worker.finish_fetch(task.url, task.token)

    def finish(self, request: Request, *, page: bool = False, reason: str = "") -> None:
        """Makes the URL done when all work on the request is done. A `page` counts against CRAWL_MAX_PAGES.

        `reason`: why a start URL is not a page.
        """
        if task := self._tasks.get(request):
            task.is_page = page
            task.settle("done", reason=reason)

    def retry(self, request: Request, delay: float, reason: str) -> None:
        """Queues the URL again, to be fetched after `delay` seconds, and counts an attempt."""
        if task := self._tasks.get(request):
            task.settle("retry", delay, reason)

    def bury(self, request: Request, reason: str, cause: str) -> None:
        """Makes the URL a dead letter. `cause` is a word of `webcrawl.metrics.totals.CAUSES`."""
        if task := self._tasks.get(request):
            task.cause = cause
            task.settle("dead", reason=reason)

    def replaced(self, request: Request) -> None:
        """Records that a middleware returned another request, which the engine schedules, instead of this."""
        if task := self._tasks.get(request):
            task.is_replaced = True

    def bury_lost(self, url: LeasedURL, token: int, reason: str) -> None:
        """Makes a leased URL whose request is lost a dead letter."""
        self.worker.finish_fetch(url, token)
        self.count(f"{DEAD}request")
        self.worker.settle(url, token, Settlement(url.index, "dead", reason=reason), page=False)

    def postpone(self, request: Request, put_off: float | None = None) -> None:
        """Keeps the URL leased, with no attempt counted, until its host is given back.

        `put_off`: seconds for which no worker may ask the host.
        """
        if task := self._tasks.get(request):
            task.postponed, task.put_off = True, put_off

    def abandon(self) -> None:
        """Makes `end` report nothing from now on: URLs in progress are free when their leases expire.

        What a cancelled task leaves behind is no outcome of its URL.
        """
        self.is_abandoned = True

    def end(self, request: Request) -> LeasedURL | None:
        """Reports the outcome when all work on a request is done; returns its URL, or None if it comes again."""
        if self.is_abandoned:
            return None
        self.finish_fetch(request)
        task = self._tasks.pop(request, None)
        if task is None:
            return None
        del self.processing[request]
        if task.postponed:
            self.worker.decline(task.url, task.token, task.put_off)
            return None
        settlement = task.outcome(request, judged=self._judged)
        page = task.is_page and settlement.verdict in ("done", "again")
        if page and settlement.verdict == "again" and self.worker.keep_date(task.url.url, settlement.delay):
            settlement = replace(settlement, verdict="done", delay=0.0)
        if not page and task.url.depth == 0:
            judged = task.settlement is not None
            self._starts.ended(task.url.url, settlement, self._tally.counters, judged=judged)
        if settlement.verdict == "dead":
            settlement = self.bury_differently(task.url, settlement)
            self.count(f"{DEAD}{task.cause}")
        self.worker.settle(task.url, task.token, settlement, page=page, size=task.size)
        return None if settlement.verdict == "retry" else task.url

    def processing_since(self, before: float) -> list[tuple[Request, Task]]:
        """Returns unfinished requests whose fetch was over by a monotonic time, the oldest first."""
        return list(takewhile(lambda work: (work[1].fetched or 0.0) <= before, self.processing.items()))

    def urls_processed_since(self, before: float) -> list[tuple[str, float]]:
        """Returns the URLs of `processing_since`, each with the monotonic time at which its fetch was over."""
        return [(task.url.url, task.fetched or 0.0) for _, task in self.processing_since(before)]

    def fail_processing(self, request: Request, reason: str, delay: float = 0.0) -> None:
        """Records that a page was not processed: its URL is tried again, or is a dead letter after the last attempt."""
        if self.is_last_attempt(request):
            self.bury(request, reason, "pipeline")
        elif not self.comes_again(request):
            # once for a page of which several items failed
            self.count("retried")
            self.retry(request, delay, reason)

    def item_failed(self, response: Any, failure: Failure) -> None:
        """Handles `item_error`: the page was not stored, so its URL is tried again."""
        request = getattr(response, "request", None)
        if request is not None and request in self._tasks:
            reason = f"{type(failure.value).__name__}: {failure.value}"
            if isinstance(failure.value, EngineUnavailable | StoreUnavailable):
                self.postpone(request)
            else:
                self.fail_processing(request, reason, _STORE_RETRY_SECONDS)

    def callback_failed(self, response: Any, failure: Failure) -> None:
        """Handles `spider_error`: the callback would raise again, so the URL becomes a dead letter.

        The URL is retried if the callback itself made a request that had to be postponed.
        """
        request = getattr(response, "request", None)
        if request is not None and isinstance(failure.value, Postponed | EngineUnavailable):
            self.retry(request, 0.0, str(failure.value))
        elif request is not None:
            self.bury(request, f"{type(failure.value).__name__}: {failure.value}", "callback")
