"""Decides whether a URL whose fetch failed is retried later through the frontier or becomes a dead letter."""

from __future__ import annotations

import logging
import time

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.utils.python import global_object_name
from scrapy.utils.response import response_status_message

from webcrawl.crawler.access import is_robots, tasks_of
from webcrawl.crawler.components import FailureJudge
from webcrawl.crawler.errors import (
    KeptConnectionClosed,
    MalformedAnswer,
    Postponed,
    PutOff,
    RequestRefused,
    RobotsUnreachable,
)
from webcrawl.crawler.responses import LOST, TIMED_OUT, refusal_of
from webcrawl.crawler.scheduling.requests import RESOURCE
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import WANTS_COOKIES
from webcrawl.errors import EngineUnavailable, NameNotResolved, StoreUnavailable

logger = logging.getLogger(__name__)

_THROTTLING = (429, 503)
# A partial body is kept only on the last attempt, because a retry may bring the whole body.
_CUT: tuple[tuple[str, str, type[Exception]], ...] = (
    (LOST, "the connection was lost", ResponseDataLossError),
    (TIMED_OUT, "the body did not arrive in time", DownloadTimeoutError),
)
_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (RobotsUnreachable, "robots"),
    (CannotResolveHostError, "dns"),
    (DownloadTimeoutError, "timeout"),
    (MalformedAnswer, "malformed"),
    (DownloadConnectionRefusedError, "connection"),
    (DownloadFailedError, "connection"),
    (ResponseDataLossError, "connection"),
)


class RetryMiddleware(SessionComponent, FailureJudge):
    """The outermost middleware, which gets the final response or exception of each request.

    As the judge of failures it also gets exceptions of `process_response`, which Scrapy passes to no middleware. A URL
    is tried FRONTIER_MAX_ATTEMPTS times, and the delay doubles each time. Then the response goes to the spider, or the
    exception to the errback. `dont_retry`, `max_retry_times` and `give_up_log_level` in Request.meta have the same
    meaning as in Scrapy. Requests that did not come from the frontier are not retried.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._codes = {int(code) for code in crawler.settings.getlist("RETRY_HTTP_CODES")}

    def process_response(self, request: Request, response: Response) -> Response | Request:
        tasks = tasks_of(self._crawler)
        url = tasks.leased(request)
        if url is None or is_robots(request):
            return response
        for flag, reason, error in _CUT:
            if flag in response.flags and (again := self._again(request, reason, global_object_name(error))):
                return again
        if response.status not in self._codes:
            page = 200 <= response.status < 300
            if page and RESOURCE in request.meta:
                tasks.count("resources")
                page = False
            tasks.finish(request, page=page, reason="" if page or url.depth else _failure_of(response))
            return response
        reason = refusal_of(response)
        again = self._again(request, reason, response_status_message(response.status))
        if again is None and response.status in _THROTTLING and not request.meta.get("dont_retry"):
            tasks.bury(request, reason, "status")
        elif again is None:
            tasks.finish(request, reason=reason)
        return again or response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        tasks = tasks_of(self._crawler)
        if isinstance(exception, RequestRefused) and not is_robots(request):
            tasks.count("addresses_refused")
        if tasks.leased(request) is None:
            return None
        if isinstance(exception, StoreUnavailable):
            self._session.backpressure.hold_briefly(str(exception))
        if isinstance(exception, Postponed | EngineUnavailable | StoreUnavailable):
            tasks.postpone(request, exception.seconds if isinstance(exception, PutOff) else None)
            return request
        if isinstance(exception, IgnoreRequest | DownloadCancelledError) and not isinstance(
            exception, RobotsUnreachable
        ):
            guarded = "refused by the address guard: " if isinstance(exception, RequestRefused) else ""
            tasks.finish(request, reason=f"{guarded}{exception}")
            return None
        # a server that closes a kept connection has not seen the request
        soon = isinstance(exception, KeptConnectionClosed)
        sent = not soon and not isinstance(exception, RobotsUnreachable)
        again = None
        if not _is_hopeless(exception):
            again = self._again(request, str(exception), _scrapys_name(exception), soon=soon, sent=sent)
        if again is None:
            tasks.count("failed")
            tasks.bury(request, f"{type(exception).__name__}: {exception}", _cause_of(exception))
        return again

    def judge(self, request: Request, error: Exception) -> Request | None:
        return self.process_exception(request, error)

    def replaced(self, request: Request) -> None:
        tasks_of(self._crawler).replaced(request)

    def _again(
        self, request: Request, reason: str, statistic: str, *, soon: bool = False, sent: bool = True
    ) -> Request | None:
        """Returns the request to be retried later, or None after the last attempt.

        `statistic`: the reason as Scrapy counts it. `soon`: retry as soon as the host may be asked again. `sent`: the
        server may have seen the request.
        """
        tasks = tasks_of(self._crawler)
        url = tasks.leased(request)
        if url is None:
            return None
        turn = self._session.turns.turn(url.host)
        if tasks.is_last_attempt(request, sent=sent) or turn.given_up:
            if not request.meta.get("dont_retry"):
                self._inc_stat("max_reached")
                _log_last_attempt(request, reason)
            return None
        delay = 0.0 if soon else self._session.config.retry_after(url.attempts)
        if turn.failures:
            # the host is delayed already: the URL needs no further delay
            delay = turn.wait(time.monotonic())
        tasks.count("retried")
        self._inc_stat("count")
        self._inc_stat(f"reason_count/{statistic}")
        logger.debug("Retrying %s (failed %d times): %s", request, _times_failed(request), reason)
        tasks.retry(request, delay, reason)
        return request

    def _inc_stat(self, name: str) -> None:
        """Counts as Scrapy's RetryMiddleware does."""
        self._crawler.stats.inc_value(f"retry/{name}")


def _failure_of(response: Response) -> str:
    """Returns why the response to a start URL is not a page; "" for 304, which confirms a stored page."""
    if response.status == 304:
        return ""
    if WANTS_COOKIES in response.flags:
        return f"status {response.status}: it wants its cookie back: set COOKIES_ENABLED=True"
    location = response.headers.get("Location")
    if response.status < 400 and location is not None:
        return f"status {response.status}: its redirect to {location.decode('latin-1')} was not followed"
    return refusal_of(response)


def _log_last_attempt(request: Request, reason: str) -> None:
    """Logs as Scrapy does; without `give_up_log_level` at level INFO, because the frontier keeps a dead letter."""
    given = request.meta.get("give_up_log_level", logging.INFO)
    level = logging.getLevelNamesMapping().get(given) if isinstance(given, str) else given
    if not isinstance(level, int):
        logger.error('%s: meta["give_up_log_level"] is %r, not a level of logging', request, given)
        level = logging.ERROR
    logger.log(level, "Gave up retrying %s (failed %d times): %s", request, _times_failed(request), reason)


def _times_failed(request: Request) -> int:
    times = request.meta.get("retry_times", 0)
    return times + 1 if isinstance(times, int) else 1


def _cause_of(exception: Exception) -> str:
    """Returns the cause of an exception, a member of `webcrawl.metrics.totals.CAUSES`."""
    return next((cause for kind, cause in _CAUSES if isinstance(exception, kind)), "other")


def _scrapys_name(exception: Exception) -> str:
    """Returns the name under which Scrapy counts retries after an exception: that of its own class if it has one."""
    known = isinstance(exception, DownloadFailedError)
    classes = [kind for kind in type(exception).__mro__ if kind.__module__ == DownloadFailedError.__module__]
    return global_object_name(classes[0] if known else type(exception))


def _is_hopeless(exception: Exception) -> bool:
    """Returns whether a retry cannot succeed: the name does not exist, or the request is not supported."""
    cause = exception.__cause__
    return isinstance(exception, NotSupported) or (
        isinstance(exception, CannotResolveHostError)
        and isinstance(cause, NameNotResolved)
        and cause.permanent
    )
