"""The turns for which a request waits besides that of its host: of its IP address, and of Scrapy's download slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from scrapy import Request

from webcrawl.crawler.errors import PutOff
from webcrawl.errors import LongWait
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.politeness import HostTurn, Ok
from webcrawl.hosts.turns import Turns

SLOT = "download_slot"
"""Request.meta key of the name of a slot: requests with the same slot share delay and concurrency in this process."""


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
