"""What a worker does with the URLs that pages link to: from a page that has links until the engine has them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from webcrawl.errors import StoreError
from webcrawl.frontier import Candidate, Frontier, LeasedURL
from webcrawl.frontier.adding import Addition
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.recent import Recent
from webcrawl.hosts.duty_cycle import DutyCycle
from webcrawl.policies.importance import importance
from webcrawl.worker.host_records import HostRecords
from webcrawl.worker.page_credit import PageCredit

logger = logging.getLogger(__name__)

MOST_DISCOVERED = 10_000
"""Discovered URLs that may wait in memory before pages with many links wait; each takes about 500 bytes."""
_BATCH = 1000
_MOST_SECONDS = 0.1
_LINKS_SHARE = 0.2
"""The share of the time in which links of pages with many links are added."""
_ENDING_PATIENCE = 2.0
_LOOK_AGAIN_SECONDS = 0.02
_LOSABLE_SECONDS = 3.0
"""A server that syncs its file once a second may lose two seconds in a power failure."""


class LinkIntake:
    """Sends discovered URLs to the frontier: each URL once, in order, in batches. Counts what the links tell.

    counters  the increments for the crawl's totals
    records   what is known of hosts, by which URLs sink and are replaced
    credit    the credit that pages give to their links; None if IMPORTANCE is off
    bloom     replaces the engine's seen set
    """

    def __init__(
        self,
        frontier: Frontier,
        counters: Counter[str],
        records: HostRecords,
        *,
        credit: PageCredit | None = None,
        bloom: BloomSeen | None = None,
    ) -> None:
        self.records, self.credit = records, credit
        self.recent = Recent()
        self.shallow: set[str] = set()
        """Hosts with a limit of depth that has refused URLs: what is refused may be found again at less depth."""
        self.sender: asyncio.Task[None] | None = None
        """The task that calls `send`; None before it was started."""
        self.turn = DutyCycle(_LINKS_SHARE).turn
        """Held by the page that adds a batch of many links."""
        self._looking = asyncio.Lock()
        """Held by the page that looks for room; hundreds of pages that look every moment would take long."""
        self.sent = 0
        """Number of discovered URLs that the engine has."""
        self.sent_at = time.monotonic()
        """Monotonic time at which the engine got URLs last."""
        self._frontier = frontier
        self._counters = counters
        self._bloom = bloom
        self._waiting: list[Candidate] = []
        self._begun: deque[Addition] = deque()
        """The batches that come before the waiting URLs: some of their URLs may be in the engine."""
        self._grown: set[str] = set()
        self._losable: deque[tuple[float, Addition]] = deque()
        """The batches of the last seconds, each with the monotonic time at which the engine accepted it."""

    def __len__(self) -> int:
        """Number of URLs that the engine does not have yet."""
        return len(self._waiting) + sum(len(addition.candidates) for addition in self._begun)

    @property
    def total(self) -> int:
        """Number of URLs discovered so far."""
        return self.sent + len(self)

    @property
    def is_alone(self) -> bool:
        """Whether the seen set is in this process, so the crawl must have no other worker."""
        return self._bloom is not None

    def unknown(self, links: Sequence[str]) -> list[str]:
        """Returns the links, as written in pages, that this worker has not added recently."""
        unknown = self.recent.links.absent(links)
        self._counters["cache_hits"] += len(links) - len(unknown)
        return unknown

    def add(self, candidate: Candidate) -> bool:
        """Queues a URL to be sent; returns False if this worker added it recently."""
        self._name(candidate)
        if candidate.fingerprint is not None:
            known_as = candidate.fingerprint
            if self.shallow and candidate.host in self.shallow:
                known_as = hash((known_as, candidate.depth))
            if not self.recent.fingerprints.add(known_as) and not candidate.anyway:
                self._counters["cache_hits"] += 1
                return False
            if self._bloom is not None:
                if self._bloom.add(candidate.fingerprint):
                    self._counters["bloom_seen"] += 1
                elif not candidate.anyway:
                    self._counters["known"] += 1
                    return False
                candidate = replace(candidate, fingerprint=None)
        self._waiting.append(candidate)
        return True

    async def room(self, patience: float = math.inf) -> None:
        """Waits while more than MOST_DISCOVERED URLs have not been sent to the engine.

        Does not wait if no task sends them. Stops waiting when the engine has taken no URL for `patience` seconds.
        """
        while (
            len(self) > MOST_DISCOVERED
            and self.sender is not None
            and not self.sender.done()
            and time.monotonic() - self.sent_at < patience
        ):
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    @asynccontextmanager
    async def turn_to_add(self, ending: asyncio.Event) -> AsyncIterator[None]:
        """Waits until a batch of the links of a page with many of them may be added.

        A crawl that ends, when `ending` is set, waits for its pages. The batches of these pages then wait only while
        the engine takes URLs, and let other tasks run in between.
        """
        async with self._looking:
            if not ending.is_set():
                await self.room()
        if ending.is_set():
            await self.room(_ENDING_PATIENCE)
            await asyncio.sleep(0)
            yield
        else:
            async with self.turn():
                yield

    def count_links(
        self,
        page: tuple[str, str],
        links: Sequence[str],
        *,
        new: int,
        refused: set[str],
        uncredited: set[str],
        url: str,
        depth: int,
    ) -> None:
        """Counts the links of a page, once they were added.

        page        its host and path
        new         the number of links that were not added recently
        refused     the links that filters or rules dropped
        uncredited  the links that get no credit
        url         the page as it was handed out
        depth       the depth of the links
        """
        host, path = page
        if new > len(refused):
            self.records.patterns.add_links(host, path, new - len(refused))
        if budgets := self.records.budgets:
            # hosts out of scope need no budget, and there may be millions of them
            budgets.link(host, [link for link in links if link not in refused] if refused else links)
        self._counters["filtered"] += len(refused)
        if self.credit:
            self.credit.link(url, self.records.dust.simplest(links), depth, refused | uncredited)

    def begin(self, url: LeasedURL) -> None:
        """Begins to collect the links of a page that is handed out, and spends from the budgets of its host."""
        if self.credit:
            self.credit.begin(url)
        if budgets := self.records.budgets:
            worth = url.worth if self.credit else None
            budgets.spend(url.host, None if worth is None else importance(worth))

    def end(self, url: str, *, fetched: bool) -> tuple[str, ...]:
        """Returns the distinct URLs to which a page links, now that all work on it is done; () without credit."""
        return self.credit.end(url, keep=fetched) if self.credit else ()

    def replace(self, url: LeasedURL) -> int | None:
        """Queues a simpler URL instead of a leased URL, if there is a simpler URL.

        Returns how many discovered URLs the engine must have before it has the simpler URL; None without a simpler URL.
        """
        if (simpler := self.records.dust.replacement(url)) is None:
            return None
        self._counters["rewritten"] += 1
        self.add(simpler)
        return self.total

    async def send(self, between: Callable[[], Awaitable[None]]) -> bool:
        """Sends the URLs discovered so far; returns True if any was new to the engine.

        URLs discovered meanwhile wait for the next call, as do the rest after _MOST_SECONDS, so that a busy worker gets
        to report. `between` is awaited after each batch.

        Raises StoreError while the seen set, or a Bloom filter, needs a store that fails. The URLs then wait.
        """
        end, new, until = self.total, 0, time.monotonic() + _MOST_SECONDS
        while self.sent < end:
            if not self._begun:
                most = min(_BATCH, end - self.sent)
                self._begun.append(Addition(self._waiting[:most]))
                del self._waiting[:most]
            verdicts = await self._frontier.add(self._begun[0])
            addition = self._begun.popleft()
            batch = addition.candidates
            if not addition.shallow <= self.shallow:
                self.shallow |= addition.shallow
                self.recent.clear()
            self.sent += len(batch)
            self.sent_at = time.monotonic()
            self._keep_losable(addition, self.sent_at)
            new += sum(verdicts)
            self._grown.update(itertools.compress((candidate.host for candidate in batch), verdicts))
            self._counters["discovered"] += sum(verdicts)
            self._counters["known"] += len(verdicts) - sum(verdicts)
            await between()
            if time.monotonic() > until:
                break
        if self._bloom is not None and not self:
            await self._bloom.checkpoint()
        return bool(new)

    def take_grown(self) -> set[str]:
        """Returns the hosts for which the engine got new URLs since the last call."""
        grown, self._grown = self._grown, set()
        return grown

    async def send_worth_if_due(self, shards: Sequence[int], budget_changed: Callable[[str], None]) -> None:
        """Pays credit and sends what was spent, from time to time; `shards` are the shards that this worker serves.

        `budget_changed` is called with each name or domain that is over its budget now, or no longer.
        """
        if self.credit:
            await self.credit.pay_if_due(shards)
        if budgets := self.records.budgets:
            await budgets.send_if_due(shards, budget_changed)

    async def send_last_worth(self, shards: Sequence[int]) -> None:
        """Pays the rest of the credit and sends what was spent since, when the worker ends."""
        if self.credit:
            await self.credit.pay(shards)
        if budgets := self.records.budgets:
            await budgets.send_last()

    def doubt(self, *, reload: bool) -> None:
        """Forgets which URLs were added recently, because the engine may have lost its last writes.

        `reload` returns to the last checkpoint of the Bloom filter.
        """
        self.recent.clear()
        if self._bloom is not None and reload:
            self._bloom.reload()

    def engine_restarted(self) -> None:
        """Queues the URLs again that a restarted engine may have lost, and forgets the credit owed to it."""
        lost = [addition for _, addition in self._losable]
        self._losable.clear()
        for addition in self._begun:
            addition.begin()
        for addition in reversed(lost):
            addition.begin()
            self._begun.appendleft(addition)
            self.sent -= len(addition.candidates)
            for candidate in addition.candidates:
                self._name(candidate)
        if self.credit:
            self.credit.forget()

    def close(self) -> None:
        """Saves the Bloom filter, unless URLs are left that the engine does not have. Logs why it cannot be saved."""
        for addition in self._begun:
            addition.abandon()
        if self._bloom is not None and not self:
            try:
                self._bloom.save()
            except StoreError as error:
                logger.error("%s. The next run may fetch some pages again.", error)

    def _name(self, candidate: Candidate) -> None:
        """Notes for the trust of hosts that a request was made, unless it is a link that a page has."""
        if candidate.rise is None and self.records.budgets and (trust := self.records.budgets.trust):
            trust.name(candidate)

    def _keep_losable(self, addition: Addition, now: float) -> None:
        self._losable.append((now, addition))
        while self._losable[0][0] < now - _LOSABLE_SECONDS:
            self._losable.popleft()
