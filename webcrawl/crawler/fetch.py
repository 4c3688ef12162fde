"""What is attached to a request and to its responses while they live: one `Fetch` each.

Scrapy's requests and responses have no room for attributes, and the meta of a request is copied to others and stored in
the frontier. So a `Fetch` is found by its owner, is not copied with it, and is freed with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias
from weakref import ref

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.known import Known
from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.html.outline import Outline
from webcrawl.page import PendingLinks

TRUNCATE = "download_truncate"
"""Request.meta key: number of bytes after which the body is cut off instead of refused."""


Owner: TypeAlias = Request | Response


class Fetch:
    """The data of one request, or of one response to it. A response that is replaced gets a new, empty one.

    Of a request: `check` is called right before it is sent, `exchange` is what went over the wire, and `known` is the
    stored answer that made it conditional. Of a response: its `document`, the `outline` that another process made of
    it, its `pending_links`, the `archived` answer that a 304 confirms, and the event `processed`, set when its page has
    left the pipelines.
    """

    __slots__ = (
        "archived",
        "check",
        "document",
        "exchange",
        "known",
        "pending_links",
        "outline",
        "processed",
    )

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None
        self.exchange: Exchange | None = None
        self.known: Known | None = None
        self.document: Document | None = None
        self.outline: Outline | None = None
        self.pending_links: PendingLinks | None = None
        self.archived: Response | None = None
        self.processed: asyncio.Event | None = None


# A WeakKeyDictionary does the same in a third more time, and a page looks here a dozen times.
_fetches: dict[ref[Owner], Fetch] = {}


def fetch_of(owner: Owner) -> Fetch:
    """Returns the data of a request or response, made at first use."""
    fetch = _fetches.get(ref(owner))
    if fetch is None:
        fetch = _fetches[ref(owner, _free)] = Fetch()
    return fetch


def _free(owner: ref[Owner]) -> None:
    del _fetches[owner]


def exchange_of(request: Request | None) -> Exchange | None:
    """Returns what went over the wire for a request, as long as the request lives."""
    return None if request is None else fetch_of(request).exchange


def keep_exchange(request: Request, exchange: Exchange) -> None:
    """Sets what `exchange_of` returns."""
    fetch_of(request).exchange = exchange


def check_before_sending(request: Request, check: Callable[[], None]) -> None:
    """Has `check` called when the connection is open, right before the request is sent; it raises to prevent that."""
    fetch_of(request).check = check


def check_of(request: Request) -> Callable[[], None] | None:
    """Returns what `check_before_sending` set, or None."""
    return fetch_of(request).check


def run_check(request: Request) -> None:
    """Calls what `check_before_sending` set; a protocol does this right before it sends the request."""
    if check := check_of(request):
        check()
