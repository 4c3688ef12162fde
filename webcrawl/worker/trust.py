"""The trust of hosts in one worker: what its pages say about it, and which hosts have to wait for others."""

from __future__ import annotations

import time

from webcrawl.frontier import Candidate
from webcrawl.frontier.ledger import owners
from webcrawl.frontier.trust import Discovery, TrustLedger
from webcrawl.policies.trust import Fairness
from webcrawl.urls.canonical import split

_EVERY_SECONDS = 0.5
"""The time between two looks at which hosts have to wait."""


class Trust:
    """Collects which hosts are named and linked to, and sends it from time to time.

    What was noted in the last second is lost if the worker is killed. Then trust is missing, but never made.
    """

    def __init__(self, ledger: TrustLedger, delay: float, *, limited: bool) -> None:
        """`delay`: the usual seconds between two requests to a host; `limited`: the crawl has a page limit."""
        self._ledger, self._delay, self._limited = ledger, delay, limited
        self._news = Discovery()
        self._fairness = Fairness()
        self._look_at = 0.0

    def name(self, candidate: Candidate) -> None:
        """Notes a request: a seed, or a request that a spider made of a page or of nothing."""
        source = split(candidate.referrer)[0] if candidate.depth and candidate.referrer else ""
        if not source:
            self._news.named.add(candidate.host)
        elif source != candidate.host:
            self.link(source, candidate.host)

    def link(self, source: str, host: str) -> None:
        """Notes that pages of a host link to another host."""
        self._news.linked[source][host] = owners(source)[-1] == owners(host)[-1]

    async def send(self) -> None:
        """Sends what was news, and looks from time to time which hosts have to wait.

        If the engine fails, hosts are named again, because that adds nothing twice; what hosts gave is lost.
        """
        news, self._news = self._news, Discovery()
        try:
            await self._ledger.pass_on(news)
        except BaseException:
            self._news.named |= news.named
            raise
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + _EVERY_SECONDS
        standing = await self._ledger.standing(self._delay)
        self._fairness = self._fairness.after(standing, limited=self._limited)
        await self._ledger.set_fairness(self._fairness)

    async def send_last(self) -> None:
        """Sends the last news when the worker ends, and gives what hosts have given."""
        for news in (self._news, Discovery()):
            await self._ledger.pass_on(news)
