"""Hands hosts over to a crawl that comes before all others, at once and not in the rounds of the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from webcrawl.engine.channel import hear
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import WANTED
from webcrawl.frontier import Frontier, LeasedURL, LeaseReport
from webcrawl.hosts.turns import Turns
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.reporter import Reporter

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.02
"""How soon a request in flight is looked at again: it may be outside of the lease, and nothing announces its end."""


@dataclass(slots=True)
class HandOver:
    """Releases the hosts that such a crawl wants as soon as no request to them is in flight.

    A round of a busy worker takes seconds, and so do the pages that are processed. The host is therefore released apart
    from its lease: the URLs that were not handed out go back, and the others are settled under the lease as usual.
    """

    frontier: Frontier
    turns: Turns
    hosts: LeasedHosts
    reporter: Reporter
    _wanted: dict[str, int] = field(default_factory=dict, init=False)
    """Host that is wanted and still held -> token of its lease."""
    _heard: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> NoReturn:
        """Listens and hands over until cancelled."""
        hearing = asyncio.create_task(
            hear(self.frontier.engine, WANTED, lambda unit: self._want(unit.decode()))
        )
        try:
            while True:
                await self._heard.wait()
                self._heard.clear()
                while self._wanted:
                    await self._release_free()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                            await self._heard.wait()
                    self._heard.clear()
        finally:
            hearing.cancel()

    def _want(self, unit: str) -> None:
        """Notes that the host which takes turns as this unit is wanted. No more of its URLs are handed out."""
        name = self.turns.host_slots.leased_of(unit)
        if name is not None and name in self.hosts:
            self.hosts.release(name)
            self._wanted[name] = self.hosts.token(name)
            self._heard.set()

    async def _release_free(self) -> None:
        """Releases the wanted hosts to which no request is in flight."""
        reports = []
        for name, token in list(self._wanted.items()):
            host = self.hosts.of(name, token)
            if host is None:  # it was released meanwhile
                del self._wanted[name]
            elif self.turns.host_slots.leave(name):
                del self._wanted[name]
                reports.append(self.reporter.hand_over(host))
        if reports:
            try:
                await self.frontier.settle_all(reports, self._on_reply)
            except UNAVAILABLE as error:  # the hosts are released in the next round
                logger.debug("Hosts are not handed over at once: %s", error)

    def _on_reply(self, report: LeaseReport, urls: list[LeasedURL] | None, _: Sequence[int]) -> None:
        """Takes the URLs that went back from a host, unless its lease has ended."""
        if urls is not None and self.hosts.of(report.lease.host, report.lease.token) is not None:
            self.hosts.hand_over(report.lease.host, {settlement.index for settlement in report.settled})
