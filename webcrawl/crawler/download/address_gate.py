"""The turn of the IP address, for which a request waits besides the turn of its host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from scrapy import Request

from webcrawl.crawler.errors import PutOff
from webcrawl.errors import LongWait
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.politeness import HostTurn
from webcrawl.hosts.turns import Turns


@dataclass(frozen=True, slots=True)
class AddressGate:
    """The gate of one request. `address` is the address to which the request will probably connect.

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
