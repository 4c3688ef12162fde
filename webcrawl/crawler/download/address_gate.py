"""What a request passes besides the turn of its host: the turn of the IP address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from scrapy import Request

from webcrawl.crawler.errors import PutOff
from webcrawl.crawler.fetch import PacedCheck
from webcrawl.errors import LongWait
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.politeness import HostTurn
from webcrawl.hosts.turns import Turns


@dataclass(frozen=True, slots=True)
class AddressGate:
    """The way of one request. `address` is the one to which it will probably connect.

    `may_be_put_off`: its host is given back if it would wait for long.
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

    def check(self, check: Callable[[], None], turn: HostTurn, host: str) -> PacedCheck:
        """Returns a check that also waits for the address; `turn` is that of the host."""

        async def wait(address: str | None) -> None:
            try:
                await self.addresses.begin(self.request, address, lambda: self.turns.disconnected(host))
            except LongWait as error:
                raise PutOff(error, error.seconds) from error
            # the next one to the host keeps its distance from the time at which this one is sent
            turn.started = max(turn.started, time.monotonic())

        return PacedCheck(check, wait, lambda: self.addresses.written(self.request), self.address)
