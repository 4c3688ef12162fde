"""The turn of a host for a request of a worker that has not leased it, such as a robots.txt after a redirect."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress

from scrapy import Request

from webcrawl.crawler.errors import RobotsUnreachable
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import LongWait
from webcrawl.frontier.borrowed_turns import BorrowedTurns
from webcrawl.hosts.turns import Turns
from webcrawl.opened import Connection

_LONGEST_WAIT = 30.0
_LOOK_AGAIN_SECONDS = 0.2
_TO_SEND, _TO_ANSWER = 0.3, 0.6
"""Shares of a lease: the time in which the request must be sent, and the longest time for its response."""
_numbers = itertools.count(1)


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

    @property
    def holds(self) -> bool:
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
