"""Requests that cannot be stored, such as one with a lambda as callback: one worker holds them in memory.

The frontier queues a placeholder for each, so that it waits for its host's turn like any other URL. If the worker that
holds the request dies, the placeholder becomes a dead letter.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from scrapy import Request, Spider

from webcrawl.crawler.scheduling.requests import pack, to_candidate, unpack
from webcrawl.errors import StoreError
from webcrawl.frontier import Candidate, LeasedURL
from webcrawl.urls.canonical import Canonicalizer

_TICKET = "local"
"""Key of an `extra` that marks a placeholder."""


class Ticket(NamedTuple):
    """The data of a placeholder: the number of its request, and the worker that holds it."""

    number: str
    worker: str


class HeldRequests:
    """The requests that this worker holds. `want(host, 1)` is called for each one held, `want(host, -1)` if dropped."""

    def __init__(self, worker: str, want: Callable[[str, int], None]) -> None:
        self._worker = worker
        self._want = want
        self._requests: dict[str, tuple[Request, str]] = {}

    def hold(self, request: Request, spider: Spider, canonicalizer: Canonicalizer) -> Candidate:
        """Hold a request; returns the placeholder to queue. Raises InvalidURL."""
        stand_in = Request(
            request.url,
            method=request.method,
            body=request.body,
            priority=request.priority,
            dont_filter=request.dont_filter,
            meta={"depth": request.meta.get("depth", 0)},
        )
        candidate = to_candidate(stand_in, spider, canonicalizer)
        number = uuid.uuid4().hex
        self._requests[number] = request, candidate.host
        self._want(candidate.host, 1)
        return replace(candidate, extra=pack({_TICKET: number, "worker": self._worker}))

    def take_up(self, ticket: Ticket, url: LeasedURL) -> Request | None:
        """The request of a ticket, if this worker holds it; it is held until `forget`."""
        request, _ = self._requests.get(ticket.number, (None, ""))
        if request is not None:
            request.meta["depth"] = url.depth
        return request

    def forget(self, extra: bytes | None) -> None:
        """Drop the request of a placeholder; does nothing for other entries."""
        if (ticket := ticket_of(extra)) and (held := self._requests.pop(ticket.number, None)):
            self._want(held[1], -1)


def ticket_of(extra: bytes | None) -> Ticket | None:
    """The ticket in the `extra` of a queue entry, or None; raises StoreError for damaged data."""
    if extra is None or _TICKET.encode() not in extra:
        return None
    record = unpack(extra)
    if not isinstance(record, dict):
        raise StoreError("a request in the frontier is damaged")
    return Ticket(str(record[_TICKET]), str(record.get("worker", ""))) if _TICKET in record else None
