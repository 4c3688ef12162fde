"""Scrapy's `download_slot`: requests that name a slot in their meta share delay and concurrency in this process."""

from __future__ import annotations

from urllib.parse import quote

from scrapy import Request

from webcrawl.hosts.politeness import HostTurn, Ok
from webcrawl.hosts.turns import Turns

SLOT = "download_slot"
"""Request.meta key of the name of a slot."""


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
