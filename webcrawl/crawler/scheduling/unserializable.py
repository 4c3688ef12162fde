"""Requests that cannot be stored, for example because their callback is a lambda. One worker holds them in memory.

The frontier queues a placeholder for each, so that it waits for its host's turn like any other URL. If the worker that
holds the request dies, the placeholder becomes a dead letter.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from scrapy import Request, Spider

from webcrawl.crawler.scheduling.requests import to_candidate, with_retries
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable
from webcrawl.frontier import Candidate, LeasedURL
from webcrawl.urls.canonical import Canonicalizer

logger = logging.getLogger(__name__)

LOST = "frontier/lost_requests/"
"""Prefix of statistics: the number of held requests of a callback that ended with this process."""

_TICKET = "local"
"""Key of an `extra` that marks a placeholder."""

_MOST_REASONS = 100
"""The most logged reasons why requests cannot be stored."""


class Ticket(NamedTuple):
    """The data of a placeholder: the number of its request, the worker that holds it, its callback, and why."""

    number: str
    worker: str
    callback: str
    reason: str

    def lost(self, url: str) -> str:
        """Returns the reason of the dead letter that the placeholder becomes without its request."""
        return f"the request for {url} ({self.callback}) was held by a worker that ended: {self.reason}"


class _Held(NamedTuple):
    request: Request
    host: str
    callback: str


class HeldRequests:
    """The requests that this worker holds. Calls `want(host, 1)` for each, and `want(host, -1)` when it is dropped."""

    def __init__(self, worker: str, want: Callable[[str, int], None]) -> None:
        self._worker = worker
        self._want = want
        self._requests: dict[str, _Held] = {}
        self._logged: set[tuple[str, str]] = set()

    def hold(
        self,
        request: Request,
        spider: Spider,
        canonicalizer: Canonicalizer,
        error: Unserializable | None = None,
        level: int | None = None,
    ) -> Candidate:
        """Holds a request; returns the placeholder to queue. Raises InvalidURL.

        `error`: why the request cannot be stored, which is logged once; None in a crawl that stores no requests.
        """
        stand_in = Request(
            request.url,
            method=request.method,
            body=request.body,
            priority=request.priority,
            dont_filter=request.dont_filter,
            meta={"depth": request.meta.get("depth", 0)},
        )
        candidate = to_candidate(stand_in, spider, canonicalizer, level)
        number, callback, reason = uuid.uuid4().hex, _callback_of(request), str(error or "")
        if error is not None:
            self._warn(callback, reason)
        self._requests[number] = _Held(request, candidate.host, callback)
        self._want(candidate.host, 1)
        placeholder = {_TICKET: number, "worker": self._worker, "callback": callback, "reason": reason}
        return replace(candidate, extra=pack(placeholder))

    def take_up(self, ticket: Ticket, url: LeasedURL) -> Request | None:
        """Returns the request of a ticket, if this worker holds it; it is held until `forget`.

        Raises StoreError, and drops the request, if its class cannot make a copy with another meta.
        """
        held = self._requests.get(ticket.number)
        if held is None:
            return None
        try:
            meta = {**with_retries(held.request.meta, url), "depth": url.depth}
            return held.request.replace(meta=meta)
        except Exception as error:  # the constructor of a subclass may raise anything
            self.forget(url.extra)
            kind = type(held.request).__name__
            raise StoreError(
                f"the request for {url.url} cannot be copied by {kind}.replace: {error}"
            ) from error

    def forget(self, extra: bytes | None) -> None:
        """Drops the request of a placeholder; does nothing for other entries."""
        if (ticket := ticket_of(extra)) and (held := self._requests.pop(ticket.number, None)):
            self._want(held.host, -1)

    def by_callback(self) -> Counter[str]:
        """Returns the number of held requests of each callback, the most first."""
        return Counter(dict(Counter(held.callback for held in self._requests.values()).most_common()))

    def _warn(self, callback: str, reason: str) -> None:
        if (callback, reason) not in self._logged and len(self._logged) < _MOST_REASONS:
            self._logged.add((callback, reason))
            logger.warning(
                "Requests for %s stay in this process and are lost if it ends: %s", callback, reason
            )


def ticket_of(extra: bytes | None) -> Ticket | None:
    """Returns the ticket in the `extra` of a queue entry, or None; raises StoreError for damaged data."""
    if extra is None or _TICKET.encode() not in extra:
        return None
    record = unpack(extra)
    if not isinstance(record, dict):
        raise StoreError("a request in the frontier is damaged")
    if _TICKET not in record:
        return None
    return Ticket(*(str(record.get(name, "")) for name in (_TICKET, "worker", "callback", "reason")))


def _callback_of(request: Request) -> str:
    """Returns the name of a request's callback, as in the spider's code."""
    callback = request.callback
    return "parse" if callback is None else getattr(callback, "__name__", type(callback).__name__)
