"""What this process knows of its hosts to recognize soft 404s; the rules are in `webcrawl.policies.soft_404`."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cachetools import FIFOCache

from webcrawl.documents.page import Page
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier.host_answers import UnknownPaths
from webcrawl.policies.soft_404 import LEAST_PAGES, Print, UnknownPathAnswer, is_shell, may_be_error

_MOST_HOSTS = 10_000
_MOST_COPIES = 64

Ask = Callable[[Page], Awaitable[UnknownPathAnswer | None]]
"""Asks the host of a page for a path that cannot exist; returns None if the crawl ends before."""

Retry = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Repeats a call while the engine is unavailable; raises EngineUnavailable when the crawl ends meanwhile."""


@dataclass(slots=True)
class _Host:
    """What this worker knows of a host.

    prints   three numbers for each page, until `answer` is known
    copies   payloads of error pages; copies of these pages are not read again
    looked   the engine was asked for an answer that another worker may have got
    turn     held while the host is asked
    """

    prints: array[int] = field(default_factory=lambda: array("Q"))
    answer: UnknownPathAnswer | None = None
    copies: set[int] = field(default_factory=set)
    looked: bool = False
    turn: asyncio.Lock | None = None

    @property
    def pages(self) -> int:
        return len(self.prints) // 3


class Soft404s:
    """Judges the pages of hosts.

    It remembers up to 20 pages of each host, as 24 bytes each, and asks the host at the next page. It forgets the pages
    of the hosts that were seen longest ago, and begins again with them; their answers are in the engine.

    distance          of SimHashes that count as near
    until_available   how calls of the engine are repeated
    older             the crawl was begun before, so another worker may have asked a host that is new here
    """

    def __init__(self, paths: UnknownPaths, distance: int, until_available: Retry, *, older: bool) -> None:
        self._paths = paths
        self._distance = distance
        self._until_available = until_available
        self._older = older
        self._hosts = FIFOCache[str, _Host](_MOST_HOSTS)

    def is_awaited(self, page: Page) -> bool:
        """Whether the links of a page wait until it is judged: its host may have asked for a path, or will now."""
        host = self._hosts.get(page.host)
        if page.status != 200 or page.mime_type != "text/html" or not may_be_error(page.final_url):
            return False
        if host is None:
            return self._older
        return host.pages >= LEAST_PAGES if host.answer is None else host.answer.is_page

    def is_open(self, page: Page) -> bool:
        """Whether a page with status 200 must be judged: its host was not asked, or answered with a page."""
        host = self._hosts.get(page.host)
        return host is None or host.answer is None or host.answer.is_page

    async def judge(self, page: Page, look: Print, ask: Ask | None) -> bool:
        """Whether a page with status 200 is an error page; it looks like `look`. Without `ask` its host is not asked.

        Raises EngineUnavailable, and what `ask` raises.
        """
        host = self._host(page.host)
        if host.answer is None:
            await self._learn(host, page, look, ask)
        if host.answer is None or not host.answer.is_page or not may_be_error(page.final_url):
            return False
        is_error = look.payload in host.copies or host.answer.is_error(look, self._distance)
        if is_error and len(host.copies) < _MOST_COPIES:
            host.copies.add(look.payload)
        return is_error

    async def is_error_redirect(self, page: Page) -> bool:
        """Whether a redirect has the target to which its host redirects paths that cannot exist."""
        if (host := self._hosts.get(page.host)) is None:
            return False
        if host.answer is None and host.turn is not None:
            async with host.turn:
                pass  # the host is being asked
        answer = host.answer
        if page.final_url == page.url:  # it leads nowhere, such as 304
            return False
        return answer is not None and answer.target == page.final_url != "" and may_be_error(page.url)

    def _host(self, name: str) -> _Host:
        host = self._hosts[name] = self._hosts.get(name) or _Host()  # now the newest
        return host

    async def _learn(self, host: _Host, page: Page, look: Print, ask: Ask | None) -> None:
        """Gets the answer of a host if it is time to; pages that come meanwhile wait for it."""
        if self._older and not host.looked:
            host.looked = True
            host.answer = await self._known(page.host)
        if host.answer is None and host.pages < LEAST_PAGES:
            host.prints.extend(look)
            return
        if ask is None:
            host.answer = host.answer or await self._known(page.host)
            return
        host.turn = host.turn or asyncio.Lock()
        async with host.turn:
            if host.answer is None:
                host.answer = await self._known(page.host) or await self._asked(host, page, ask)
            host.prints = array("Q")

    async def _asked(self, host: _Host, page: Page, ask: Ask) -> UnknownPathAnswer | None:
        if not await self._until_available(lambda: self._paths.claim(page.host)):
            return None
        answer = await ask(page)
        if answer is None:
            with suppress(EngineUnavailable):
                await self._until_available(lambda: self._paths.leave(page.host))
            return None
        numbers = host.prints
        pages = [Print(*numbers[start : start + 3]) for start in range(0, len(numbers), 3)]
        if answer.page is not None and is_shell(pages, answer.page, self._distance):
            answer = UnknownPathAnswer(answer.status, shell=True)
        await self._until_available(lambda: self._paths.keep(page.host, answer))
        return answer

    async def _known(self, host: str) -> UnknownPathAnswer | None:
        answer: UnknownPathAnswer | None = await self._until_available(lambda: self._paths.of(host))
        return answer
