"""A request for pages that are fetched now: what it wants, and what became of each URL."""

from __future__ import annotations

import asyncio
from typing import Self

from msgspec import Struct, field


class FetchOutcome(Struct, omit_defaults=True):
    """What became of a URL. `error` is "" for a page, or a word as in `FetchError`."""

    error: str = ""
    detail: str = ""
    stored: bool = False


class FetchRequest(Struct):
    """What a request wants. `put` is a Unix time; `given` are its URLs, `urls` the normalized ones by them."""

    caller: str
    put: float
    given: list[str]
    urls: dict[str, str]
    max_ages: dict[str, float]
    parts: list[str]
    settled: dict[str, FetchOutcome] = field(default_factory=dict)
    """Outcomes by URL as given, which were known when the request came."""


class KeptFetch(Struct):
    """What the engine keeps of a request; see `LiveFetch`."""

    request: FetchRequest
    waiting: list[str]
    outcomes: dict[str, FetchOutcome]


class LiveFetch:
    """A request while URLs are fetched for it. `outcomes` has those that are known, by normalized URL."""

    def __init__(self, fetch_id: str, request: FetchRequest, waiting: set[str]) -> None:
        self.id = fetch_id
        self.request = request
        self.waiting = waiting
        self.outcomes: dict[str, FetchOutcome] = {}
        self.is_elsewhere = False
        """Whether no event settles it here."""
        self._complete = asyncio.Event()

    @classmethod
    def of(cls, fetch_id: str, kept: KeptFetch) -> Self:
        """Returns a request that another service has begun, or that is complete."""
        fetch = cls(fetch_id, kept.request, set(kept.waiting))
        fetch.outcomes = kept.outcomes
        fetch.is_elsewhere = True
        return fetch

    def kept(self) -> KeptFetch:
        """Returns what the engine keeps."""
        return KeptFetch(self.request, sorted(self.waiting), self.outcomes)

    def settle(self, url: str, outcome: FetchOutcome) -> bool:
        """Notes an outcome; returns whether it is new."""
        if url not in self.waiting:
            return False
        self.waiting.remove(url)
        self.outcomes[url] = outcome
        if not self.waiting:
            self._complete.set()
        return True

    async def wait(self, seconds: float) -> None:
        """Waits until all outcomes are known, at most for some seconds."""
        if self.waiting and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._complete.wait()
            except TimeoutError:
                pass
