"""Attaches data to a request or response for as long as it exists: one `Fetch` each.

Scrapy's requests and responses accept no further attributes, and the meta of a request is copied to other requests and
stored in the frontier. So a table maps each request or response, the owner, to its `Fetch`. A copy of the owner has a
`Fetch` of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

from scrapy import Request
from scrapy.http import Response

from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.html.outline import Outline
from webcrawl.documents.page import PendingLinks

if TYPE_CHECKING:  # it imports the archive, which the scheduler alone does not need
    from webcrawl.crawler.known import Known

TRUNCATE = "download_truncate"
"""Request.meta key: number of bytes after which the body is cut off instead of refused."""


Owner: TypeAlias = Request | Response


class Fetch:
    """The data of one request or response. If a response is replaced, the new response begins with an empty `Fetch`.

    For a request:
      check          is called right before the request is sent
      answer_seconds in which the host must begin its answer, besides the timeout of the request
      copy_depth     the flag of a page that is not copied in full while it is fetched; "" otherwise
      exchange       the bytes sent and received
      received       the number of bytes received, with heads and framing; 0 if the download handler does not count
      mime_type      the type of the page that was made of its response
      known          the stored response whose validators made the request conditional
    For a response:
      document       its document
      outline        what the HTML process returned for the document
      pending_links  the `PendingLinks` that hands over the links in the document
      archived       the stored response that a 304 confirms
      processed      the event that is set when the page has left the pipelines
      is_page        whether a page was made of the response
    """

    __slots__ = (
        "answer_seconds",
        "archived",
        "check",
        "copy_depth",
        "document",
        "exchange",
        "is_page",
        "known",
        "mime_type",
        "pending_links",
        "outline",
        "processed",
        "received",
    )

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None
        self.answer_seconds = math.inf
        self.copy_depth = ""
        self.exchange: Exchange | None = None
        self.received = 0
        self.mime_type: str | None = None
        self.known: Known | None = None
        self.document: Document | None = None
        self.outline: Outline | None = None
        self.pending_links: PendingLinks | None = None
        self.archived: Response | None = None
        self.processed: asyncio.Event | None = None
        self.is_page = False


# Read a dozen times a page; a WeakKeyDictionary would take a third longer.
_fetches: dict[ref[Owner], Fetch] = {}


def fetch_of(owner: Owner) -> Fetch:
    """Returns the data of a request or response; creates it at the first call."""
    fetch = _fetches.get(ref(owner))
    if fetch is None:
        fetch = _fetches[ref(owner, _free)] = Fetch()
    return fetch


def _free(owner: ref[Owner]) -> None:
    del _fetches[owner]


def exchange_of(request: Request | None) -> Exchange | None:
    """Returns the bytes sent and received for a request, or None."""
    return None if request is None else fetch_of(request).exchange


def keep_exchange(request: Request, exchange: Exchange) -> None:
    """Sets the result of `exchange_of`."""
    fetch_of(request).exchange = exchange


def check_before_sending(request: Request, check: Callable[[], None]) -> None:
    """Sets the function to call on the open connection right before the request is sent; may raise to prevent that."""
    fetch_of(request).check = check


def check_of(request: Request) -> Callable[[], None] | None:
    """Returns the function that `check_before_sending` set, or None."""
    return fetch_of(request).check


@dataclass(frozen=True, slots=True)
class PacedCheck:
    """A check of a request that waits for its turn on the open connection, because connecting takes time.

    `sending` is called with the address of the connection, or None if unknown. Its context waits on entry, and the
    request is written within the context. `address`: the IP address whose turn is expected, if addresses have turns.
    """

    check: Callable[[], None]
    sending: Callable[[str | None], AbstractAsyncContextManager[None]]
    address: str | None = None

    def __call__(self) -> None:
        self.check()


def head_timeout(request: Request, timeout: float) -> float | None:
    """Returns the seconds up to the head of a response; None: any. `timeout`: seconds of the request, 0: any."""
    seconds = min(timeout or math.inf, fetch_of(request).answer_seconds)
    return None if seconds == math.inf else seconds


def paced_address(request: Request) -> str | None:
    """Returns the only address to which a request may be sent without a call of its `PacedCheck`; None allows any."""
    check = check_of(request)
    return check.address if isinstance(check, PacedCheck) else None


async def wait_to_send(request: Request) -> None:
    """Waits for the turn of a request as its `PacedCheck` does, and calls its check, if any.

    For download handlers that cannot wait on an open connection, and connect after the turn.
    """
    async with turn_to_send(request):
        pass


@asynccontextmanager
async def turn_to_send(request: Request) -> AsyncIterator[bool]:
    """Waits like `wait_to_send`; the request is sent within the context, which keeps other requests from their turn.

    Yields whether other requests may wait for the context to end.
    """
    check = check_of(request)
    if isinstance(check, PacedCheck):
        async with check.sending(None):
            check()
            yield True
    else:
        run_check(request)
        yield False


def run_check(request: Request) -> None:
    """Calls the check of a request, if any. Download handlers call this right before they send the request."""
    if check := check_of(request):
        check()
