"""Crawls of a linked web in the order of credit; used by benchmarks/importance.py."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from benchmarks.linked_web import LinkedWeb, Reals
from webcrawl.policies.importance import (
    LAMBDA_PART,
    TOTAL,
    give,
    part_of_lambda,
    rise,
    worth,
)
from webcrawl.policies.priorities import level_of_weight

SHARDS = 16
BATCH = 1000
"""Pages that are fetched before the credit that they give arrives."""
LEVELS = 8

_UNKNOWN, _WAITING, _FETCHED = range(3)


@dataclass(slots=True)
class Credited:
    """The credit of a crawl whose Lambda has one pool in each shard."""

    web: LinkedWeb
    shards: int
    order: list[int] = field(default_factory=list)
    raised: int = 0
    credit: list[int] = field(init=False)
    worths: list[int] = field(init=False)
    sums: list[int] = field(init=False)
    """The credit that ever reached each page, in whatever worth it had."""
    state: bytearray = field(init=False)
    pools: list[int] = field(init=False)
    waiting: list[int] = field(init=False)
    all_waiting: int = 0

    def __post_init__(self) -> None:
        pages = self.web.pages
        self.credit, self.worths, self.sums = [0] * pages, [0] * pages, [0] * pages
        self.state = bytearray(pages)
        self.pools = [TOTAL // self.shards] * self.shards
        self.waiting = [0] * self.shards

    def importance(self) -> Reals:
        """Returns the importance of all pages at the end."""
        return np.array(self.worths, np.float64)

    def shard(self, page: int) -> int:
        return int(self.web.host[page]) % self.shards

    def find(self, page: int) -> None:
        """Lets a page wait from now on."""
        self.state[page] = _WAITING
        self.waiting[self.shard(page)] += 1
        self.all_waiting += 1

    def fetch(self, page: int) -> int:
        """Takes the credit of a page."""
        shard = self.shard(page)
        part = part_of_lambda(self.pools[shard], self.waiting[shard])
        self.pools[shard] -= part
        had, self.credit[page] = self.credit[page], 0
        self.worths[page] += worth(had, self.all_waiting)
        self.state[page] = _FETCHED
        self.waiting[shard] -= 1
        self.all_waiting -= 1
        self.order.append(page)
        return had + part

    def receive(self, page: int, amount: int) -> None:
        """Credits a page that is known."""
        self.sums[page] += amount
        if self.state[page] == _WAITING:
            self.credit[page] += amount
        else:
            self.worths[page] += worth(amount, max(1, self.all_waiting))
            self.pools[self.shard(page)] += amount

    def level_pools(self) -> None:
        """Divides Lambda's credit among the shards by their waiting URLs."""
        pool = sum(self.pools)
        if self.all_waiting:
            self.pools = [pool * waiting // self.all_waiting for waiting in self.waiting]
            self.pools[0] += pool - sum(self.pools)


def page_by_page(web: LinkedWeb) -> Credited:
    """Fetches the page with most credit, to a quarter of a power of two; credit arrives at once."""
    crawl = Credited(web, 1)
    queues: list[deque[int]] = [deque() for _ in range(_fine(TOTAL) + 1)]
    ranks, best = [-1] * web.pages, 0
    crawl.find(0)
    ranks[0] = 0
    queues[0].append(0)
    while best >= 0:
        if not queues[best]:
            best -= 1
            continue
        page = queues[best].popleft()
        if crawl.state[page] != _WAITING or ranks[page] != best:
            continue
        links = web.links(page)
        given = give(crawl.fetch(page), len(links))
        crawl.pools[0] += given.rest
        for target in links:
            if crawl.state[target] == _UNKNOWN:
                crawl.find(target)
            crawl.receive(target, given.each)
            rank = _fine(crawl.credit[target])
            if crawl.state[target] == _WAITING and rank > ranks[target]:
                ranks[target] = rank
                queues[rank].append(target)
                best = max(best, rank)
    return crawl


def _fine(credit: int) -> int:
    """Returns a number that grows with credit: four for each power of two."""
    bits = credit.bit_length()
    return 4 * bits + (credit >> (bits - 3) & 3) if bits >= 3 else 4 * bits


def in_levels(web: LinkedWeb) -> Credited:
    """Fetches as the engine does: by level, first found first, with credit that arrives in batches."""
    crawl = Credited(web, SHARDS)
    queues: list[deque[int]] = [deque() for _ in range(LEVELS)]
    levels, rises = bytearray(web.pages), [0] * web.pages
    crawl.find(0)
    queues[0].append(0)
    pending: dict[int, int] = {}
    length = 1  # the first batches are short, as the worker's are
    while page := _next(crawl, queues, levels):
        links = web.links(page - 1)
        had = crawl.fetch(page - 1)
        given = give(had, len(links))
        crawl.pools[crawl.shard(page - 1)] += given.rest
        share = worth((had - had // LAMBDA_PART) // max(1, len(links)), crawl.all_waiting + 1)
        for target in links:
            if crawl.state[target] == _UNKNOWN:
                crawl.find(target)
                levels[target], rises[target] = level_of_weight(rise(share)), rise(share)
                queues[levels[target]].append(target)
            pending[target] = pending.get(target, 0) + given.each
        if len(crawl.order) % length == 0 or not any(queues):
            length = min(2 * length, BATCH)
            _deliver(crawl, pending, queues, levels, rises)
    return crawl


def _next(crawl: Credited, queues: list[deque[int]], levels: bytearray) -> int:
    """Returns the next page plus 1, or 0; passes over those that were queued at a better level."""
    for number, queue in enumerate(queues):
        while queue:
            page = queue.popleft()
            if crawl.state[page] == _WAITING and levels[page] == number:
                return page + 1
    return 0


def _deliver(
    crawl: Credited,
    pending: dict[int, int],
    queues: list[deque[int]],
    levels: bytearray,
    rises: list[int],
) -> None:
    for target, amount in pending.items():
        crawl.receive(target, amount)
        if crawl.state[target] == _WAITING:
            steps = rise(worth(crawl.credit[target], crawl.all_waiting))
            if steps > rises[target]:
                better = level_of_weight(steps)
                rises[target] = steps
                if better < levels[target]:
                    levels[target] = better
                    queues[better].append(target)
                    crawl.raised += 1
    pending.clear()
    crawl.level_pools()
