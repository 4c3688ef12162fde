"""The turns for which a request waits besides its worker's turn of the host.

They are those of a host that the worker has not leased, such as for a robots.txt after a redirect, of the IP address,
and of Scrapy's download slots.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import quote

from scrapy import Request

from webcrawl.crawler.errors import PutOff, RobotsUnreachable
from webcrawl.documents.html.outline_process import KnownHosts
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import LongWait
from webcrawl.frontier.borrowed_turns import BorrowedTurns
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.politeness import HostTurn, Ok
from webcrawl.hosts.turns import Turns
from webcrawl.opened import Connection

SLOT = "download_slot"
"""Request.meta key of the name of a slot: requests with the same slot share delay and concurrency in this process."""
_LONGEST_WAIT = 30.0
_LOOK_AGAIN_SECONDS = 0.2
_TO_SEND, _TO_ANSWER = 0.3, 0.6
"""Shares of a lease: the time in which the request must be sent, and the longest time for its response."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AddressGate:
    """The gate of one request to an IP address. `address` is the address to which the request will probably connect.

    `may_be_put_off`: the host is given back if the request would wait for long.
    """

    turns: Turns
    addresses: AddressTurns
    request: Request
    address: str
    may_be_put_off: bool

    async def enter(self, ending: asyncio.Event) -> None:
        """Waits until the request may connect; raises LongWait, EngineUnavailable."""
        await self.addresses.enter(self.request, self.address, ending, may_be_put_off=self.may_be_put_off)

    def leave(self) -> None:
        """Withdraws the request."""
        self.addresses.leave(self.request)

    def is_open(self) -> bool:
        """The address has its own turn; see `sending`."""
        return True

    @asynccontextmanager
    async def sending(self, turn: HostTurn, host: str, address: str | None) -> AsyncIterator[None]:
        """Waits on an open connection for the turn of its address; the request is written within the context.

        `turn` is the turn of the host. Raises PutOff.
        """
        async with self.turns.sending(turn):
            try:
                await self.addresses.begin(self.request, address, lambda: self.turns.disconnected(host))
            except LongWait as error:
                raise PutOff(error, error.seconds) from error
            yield
            self.addresses.written(self.request)


@dataclass(frozen=True, slots=True)
class ReadingGate:
    """The gate of a request for a page while many pages wait to be read, whose hosts it need not wait for."""

    turns: Turns
    known: KnownHosts
    host: str

    async def enter(self, ending: asyncio.Event) -> None:
        """Waits until the host may be asked for a page."""
        if self.is_open():
            return
        waits = [
            asyncio.ensure_future(self.known.room(self.host)),
            asyncio.ensure_future(ending.wait()),
        ]
        try:
            with self.turns.unread_page():
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def leave(self) -> None:
        """Does nothing: `enter` has announced nothing that could be withdrawn."""

    def is_open(self) -> bool:
        """Whether the host may still be asked: hundreds of requests may have waited for a connection since `enter`."""
        return self.known.has_room(self.host)


class DownloadSlots:
    """The turns of slots. A request takes the turn of its host as well, so a slot never hastens a host.

    DOWNLOAD_SLOTS sets delay and concurrency by the name of a slot; other slots are treated like a host.
    """

    def __init__(self, hosts: Turns) -> None:
        self._hosts = hosts
        overrides = {_quoted(name): config for name, config in hosts.overrides.items()}
        self._turns = Turns(hosts.config, overrides, ending=hosts.ending)
        self._taken: dict[Request, tuple[str, HostTurn]] = {}

    async def take(self, request: Request, *, during_shutdown: bool) -> None:
        """Waits for the turn of the request's slot, if it names one; raises Abandoned when the crawl ends."""
        name = request.meta.get(SLOT)
        if name is None:
            return
        key = f"slot://{_quoted(str(name))}"
        with self._hosts.aside():
            self._taken[request] = key, await self._turns.take(key, during_shutdown=during_shutdown)

    def give(self, request: Request) -> None:
        """Returns the turn of the request's slot, if it has one."""
        if self._taken and (taken := self._taken.pop(request, None)):
            self._turns.give(*taken, Ok())


def _quoted(name: str) -> str:
    return quote(name, safe="")


class BorrowedTurn:
    """A gate of `Turns.take`: the host's turn in the engine, which counts for all workers and crawls.

    A request waits at most half a minute. A worker that holds the host gets none of its URLs meanwhile. If this
    worker leases the host, nothing is borrowed.
    """

    def __init__(self, turns: Turns, connection: Connection, host: str, lease_seconds: float) -> None:
        self._turns = turns
        self._connection = connection
        self._verbs = BorrowedTurns(connection.engine, connection.keys)
        self._host = host
        self._name = f"{connection.worker}:{next(_numbers)}"
        self._lease_seconds = lease_seconds
        self._taken_at: float | None = None
        self._gap = 0.0

    async def enter(self, ending: asyncio.Event) -> None:
        """Waits for the turn.

        Raises LongWait if another worker has the turn for long, RobotsUnreachable if the host backs off.
        """
        until = time.monotonic() + _LONGEST_WAIT
        while not (ending.is_set() or self._turns.host_slots.is_open(self._host)):
            asked = time.monotonic()
            borrowed = await self._connection.retry_until_available(
                lambda: self._verbs.borrow(self._host, self._name, self._lease_seconds)
            )
            if borrowed.state == "taken":
                self._taken_at, self._gap = asked, borrowed.gap
                return
            if asked + borrowed.wait > until:
                if borrowed.state == "early":
                    raise RobotsUnreachable(f"{self._host} may not be asked for {borrowed.wait:.0f} s")
                raise LongWait(self._host, _LONGEST_WAIT)
            with suppress(TimeoutError):
                async with asyncio.timeout(borrowed.wait or _LOOK_AGAIN_SECONDS):
                    await ending.wait()

    def leave(self) -> None:
        """Returns the turn of a request that was not sent."""
        self.end(0.0, sent=False)

    def limit(self, request: Request, usual: float) -> None:
        """Limits a request so that it ends before the turn; `usual` is the usual timeout in seconds."""
        if self._taken_at is not None:
            longest = min(request.meta.get("download_timeout", usual), _TO_ANSWER * self._lease_seconds)
            request.meta["download_timeout"] = longest

    def is_open(self) -> bool:
        """Whether the request may still be sent."""
        return self._taken_at is None or time.monotonic() <= self._taken_at + _TO_SEND * self._lease_seconds

    def end(self, wait: float, *, sent: bool = True) -> None:
        """Returns the turn; the host may be asked in `wait` seconds, or after its usual gap."""
        if self._taken_at is not None:
            self._taken_at = None
            pause = max(wait, self._gap) if sent else 0.0
            _tasks.add(task := asyncio.ensure_future(self._repay(pause)))
            task.add_done_callback(_tasks.discard)

    async def _repay(self, pause: float) -> None:
        with suppress(*UNAVAILABLE):  # then the turn expires
            await self._verbs.repay(self._host, self._name, pause)


_tasks: set[asyncio.Task[None]] = set()
"""Tasks are kept here, because the event loop has only weak references to them."""
