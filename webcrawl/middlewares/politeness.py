"""Makes each request wait for its host's turn, and reports the outcome to the host's pacing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest, NotSupported
from scrapy.http import Response

from webcrawl.crawler.access import ROBOTS, host_of, is_question, is_robots, tasks_of
from webcrawl.crawler.components import Pacer
from webcrawl.crawler.download.further_turns import (
    SLOT,
    AddressGate,
    BorrowedTurn,
    DownloadSlots,
    ReadingGate,
)
from webcrawl.crawler.download.proxies import is_proxied
from webcrawl.crawler.errors import (
    KeptConnectionClosed,
    MalformedAnswer,
    OverlongHead,
    Postponed,
    ProxyFailed,
    PutOff,
    RenderingFailed,
)
from webcrawl.crawler.fetch import PacedCheck, check_before_sending, fetch_of
from webcrawl.crawler.responses import TIMED_OUT, length_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.errors import Abandoned, LeaseLost, LongWait, StoreError
from webcrawl.hosts.politeness import Failed, HostTurn, Ok, Outcome, Throttled, Unjudged, parse_retry_after
from webcrawl.urls.canonical import hostname, normalize

_THROTTLING = (429, 503)
_LOOK_AGAIN_SECONDS = 0.05
# These errors do not count as failures of the host: the crawler refused or cancelled the request, a kept connection
# ended, or the host sent an invalid answer.
_NOT_THE_HOST = (
    IgnoreRequest,
    DownloadCancelledError,
    NotSupported,
    StoreError,
    KeptConnectionClosed,
    MalformedAnswer,
    ProxyFailed,
    RenderingFailed,
)


class PolitenessMiddleware(SessionComponent, Pacer):
    """The last middleware before the download, so that a turn is held exactly during a request."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._turns = session.turns
        self._costs = session.costs
        self._observed = session.observed
        self._reader_queue, self._outlines = session.readers.queue, session.outlines
        self._slots = DownloadSlots(session.turns)
        self._taken: dict[Request, tuple[str, HostTurn]] = {}
        self._borrowed: dict[Request, BorrowedTurn] = {}

    async def process_request(self, request: Request) -> None:
        host = host_of(request)
        tasks = tasks_of(self._crawler)
        # a spider's own fetch belongs to a page that is being processed, which may still be finished
        own = tasks.leased(request) is None and not is_question(request)
        began = None if self._observed is None else time.monotonic()
        if not self._reader_queue.has_room(host) and tasks.leased(request) is not None:
            self._costs.of(host).waits += 1
            await self._room(host)
        try:
            if SLOT in request.meta:
                await self._slots.take(request, during_shutdown=own)
            address = await self._gate(request, tasks.leased(request) is not None or is_question(request))
            turn, borrowed = await self._take(request, host, address, during_shutdown=own)
        except BaseException as error:
            self._slots.give(request)
            if isinstance(error, LeaseLost | Abandoned):
                raise Postponed(str(error)) from error
            if isinstance(error, LongWait):
                raise PutOff(error, error.seconds) from error
            raise
        if self._observed is not None and began is not None:
            self._observed.stage("turn", request.url, began)
        self._taken[request] = (host, turn)
        if borrowed:
            self._borrowed[request] = borrowed
            borrowed.limit(request, self._session.fetch.timeout)
        check: Callable[[], None] = partial(self._check, host, turn, borrowed)
        if address:
            check = PacedCheck(check, partial(address.sending, turn, host), address.address)
        elif turn.concurrency > 1 and turn.gap > 0:
            check = PacedCheck(check, lambda _: self._turns.sending(turn))
        check_before_sending(request, check)
        attempts = self._session.config.max_attempts
        fetch_of(request).answer_seconds = self._turns.host_slots.patience(host, turn, attempts)

    async def _take(
        self, request: Request, host: str, address: AddressGate | None, *, during_shutdown: bool
    ) -> tuple[HostTurn, BorrowedTurn | None]:
        """Takes the turn of a host; returns the turn, and the borrowed turn to give back or None."""
        while True:
            if not tasks_of(self._crawler).lease_holds(request):
                raise LeaseLost(f"the lease of {host} has ended")
            borrowed = self._borrow(request, host)
            gates = [gate for gate in (self._reading_gate(request, host), borrowed, address) if gate]
            try:
                turn = await self._turns.take(host, during_shutdown=during_shutdown, gates=gates)
            except LeaseLost:
                # a request for robots.txt waited for the turn of this worker's lease, which ended meanwhile
                if not is_robots(request) or self._turns.ending.is_set():
                    raise
                # waits until a heartbeat has extended the lease, or has closed the host because the lease is lost
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            else:
                return turn, borrowed

    def _borrow(self, request: Request, host: str) -> BorrowedTurn | None:
        """Borrows the turn of a host that this worker has not leased, for its robots.txt; None for other requests."""
        if not is_robots(request) or self._turns.host_slots.is_open(host):
            return None
        return BorrowedTurn(self._turns, self._session.connection, host, self._session.config.lease_seconds)

    async def _gate(self, request: Request, may_be_put_off: bool) -> AddressGate | None:
        """Returns the gate of the address of a request; None if the turns of addresses are not limited."""
        addresses = self._turns.addresses
        if addresses is None or is_proxied(self._session, request):
            return None
        answer = await self._session.resolver.resolve(
            hostname(normalize(request.url)), self._turns.aside, host=host_of(request)
        )
        limited = next(filter(addresses.limits, answer.addresses), None)
        return AddressGate(self._turns, addresses, request, limited, may_be_put_off) if limited else None

    async def _room(self, host: str) -> None:
        """Waits until the reader processes have room for a document of the host's site, or until the crawl ends."""
        ending = asyncio.ensure_future(self._turns.ending.wait())
        try:
            with self._turns.aside():
                while not (ending.done() or self._reader_queue.has_room(host)):
                    left = asyncio.ensure_future(self._reader_queue.left())
                    await asyncio.wait([left, ending], return_when=asyncio.FIRST_COMPLETED)
                    left.cancel()
        finally:
            ending.cancel()

    def _reading_gate(self, request: Request, host: str) -> ReadingGate | None:
        """Returns the gate of a request for a page; None for other requests."""
        if self._outlines is None or tasks_of(self._crawler).leased(request) is None:
            return None
        return ReadingGate(self._turns, self._outlines.hosts, host)

    async def take_another_turn(self, request: Request) -> None:
        if request in self._taken:
            self._give(request, Ok(request.meta.get("download_latency", 0.0)))
            await self.process_request(request)

    def sent_at(self, request: Request) -> float | None:
        taken = self._taken.get(request)
        return taken[1].started if taken else None

    def _check(self, host: str, turn: HostTurn, borrowed: BorrowedTurn | None) -> None:
        if not self._turns.holds(turn) or (borrowed and not borrowed.is_open()):
            raise Postponed(f"the lease of {host} was lost while a request to it was under way")
        if (seconds := turn.block.until - time.monotonic()) > 0:
            raise PutOff(f"{host} must be left alone, as another request has shown", seconds)

    def process_response(self, request: Request, response: Response) -> Response:
        tasks = tasks_of(self._crawler)
        if request in self._taken:
            host, size = self._taken[request][0], length_of(response)
            self._turns.host_slots.has_answered(host, request.meta.get("download_latency", 0.0))
            self._costs.of(host).bytes += fetch_of(request).received or size
            if not is_question(request):
                tasks.count(f"status.{response.status}")
                tasks.count("bytes", size)
                tasks.count(f"status_bytes.{response.status}", size)
                if self._observed is not None and self._observed.traces is not None:
                    self._observed.traces.answered(request.url, response.status, size)
                tasks.answered(request, host, response.status, size)
            self._give(request, self.outcome(request, response))
        tasks.finish_fetch(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        outcome, tasks = self._outcome_of(request, exception), tasks_of(self._crawler)
        if request in self._taken:
            host = self._taken[request][0]
            self._costs.of(host).bytes += fetch_of(request).received
            if isinstance(outcome, Failed):
                tasks.unreachable(host)
        self._give(request, outcome)
        tasks.finish_fetch(request)

    def process_cancellation(self, request: Request) -> None:
        """Gives back the turns of a request whose download was cancelled, by the spider or with a hung page."""
        if request in self._taken:
            self._costs.of(self._taken[request][0]).bytes += fetch_of(request).received
        # a request that was sent keeps its host's gap; its connection is closed already
        self._give(request, Unjudged())

    def _outcome_of(self, request: Request, exception: Exception) -> Outcome:
        if is_robots(request) and isinstance(exception, MalformedAnswer):
            return Throttled()
        if isinstance(exception, OverlongHead):
            return Failed()
        return Unjudged() if isinstance(exception, _NOT_THE_HOST) else Failed()

    def outcome(self, request: Request, response: Response) -> Outcome:
        """Returns the outcome that a response means for its host. Override this method to change a rule."""
        if response.status in _THROTTLING:
            return Throttled(parse_retry_after(response.headers.get("Retry-After"), datetime.now(UTC)))
        if is_robots(request) and response.status >= 500:
            return Throttled()
        if TIMED_OUT in response.flags:
            return Failed()
        return Ok(request.meta.get("download_latency", 0.0), error=response.status >= 500)

    def _give(self, request: Request, outcome: Outcome) -> None:
        if taken := self._taken.pop(request, None):
            host, turn = taken
            self._turns.give(host, turn, outcome, rules=request.meta.get(ROBOTS, False))
            self._slots.give(request)
            if self._borrowed and (borrowed := self._borrowed.pop(request, None)):
                borrowed.end(turn.wait(time.monotonic()))
            if self._turns.addresses:
                self._turns.addresses.end(request)
