"""A leased URL that Scrapy works on, and what becomes of it."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Literal

from scrapy import Request

from webcrawl.frontier import LeasedURL, Settlement

logger = logging.getLogger(__name__)


class Task:
    """What is known so far of a URL that was leased under a fencing token; the last word that is said of it holds."""

    __slots__ = ("answered", "landed", "page", "postponed", "settlement", "size", "token", "url")

    def __init__(self, url: LeasedURL, token: int) -> None:
        self.url = url
        self.token = token
        self.settlement: Settlement | None = None
        self.page = False
        self.answered = False
        """Its host sent something; `size` are the bytes of all bodies."""
        self.size = 0
        self.landed = False
        """The transfer is over."""
        self.postponed = False
        """It stays leased, untried, until its host is given back."""

    @property
    def comes_again(self) -> bool:
        """Whether the frontier will hand the URL out again."""
        return self.postponed or (self.settlement is not None and self.settlement.verdict == "retry")

    def settle(self, verdict: Literal["done", "retry", "dead"], delay: float = 0.0, reason: str = "") -> None:
        """Say what is to become of the URL when all work on it is done."""
        self.settlement = Settlement(self.url.index, verdict, delay, reason)

    def outcome(self, request: Request, *, judged: bool) -> Settlement:
        """What becomes of it, now that all work is done. `judged`: somebody says so of every request that is made."""
        settlement = self.settlement or self._without_verdict(judged)
        if settlement.verdict == "done" and (after := _recrawl_after(request)) is not None:
            settlement = replace(settlement, verdict="again", delay=after)
        return settlement

    def _without_verdict(self, judged: bool) -> Settlement:
        """Nobody said what became of a URL: unless its host answered, it must not vanish for that."""
        if self.answered or not judged:
            return Settlement(self.url.index)
        return Settlement(self.url.index, "dead", reason="its fetch ended without an outcome: see the log")


def _recrawl_after(request: Request) -> float | None:
    """Seconds after which the spider wants the page again: `response.meta["recrawl_after"]`."""
    after = request.meta.get("recrawl_after")
    if after is None:
        return None
    if isinstance(after, int | float) and math.isfinite(after) and after >= 0:
        return float(after)
    logger.error("recrawl_after of %s is %r: seconds are needed; it is not fetched again", request, after)
    return None
