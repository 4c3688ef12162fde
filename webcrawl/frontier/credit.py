"""Moves the credit of pages to the URLs to which they link; see webcrawl.policies.importance.

The engine knows the credit of each URL, but not its links. A worker knows the links of its pages, and sums up the
credit that many pages give to one URL. Meanwhile, the credit is in the worker's purse, one in each shard:

    acknowledge   a page's credit goes to the purse of its shard
    spend         a purse is emptied: the credit for URLs of each shard is in transit, the rest goes to Lambda
    receive       the URLs of a shard get their credit

Credit moves exactly once: calls are numbered, and a repeated call changes nothing. Credit in transit stays in the purse
until the worker spends again, which happens when all of it has arrived. A worker that dies leaves an idle purse. Other
workers close the purse in all shards, so that no late call of the dead worker counts, and ask the shards which calls
have arrived; Lambda gets the rest. A worker that was only suspended begins with a new purse. So a kill loses precision,
never credit.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, job_of
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier.entry import Candidate
from webcrawl.frontier.operations import batches, milliseconds
from webcrawl.policies.importance import LAMBDA_PART, TOTAL, UNIT, first_pool
from webcrawl.urls.canonical import split

_TOGETHER = 500
"""The most URLs in one call of receive.lua."""
_LEAST_MOVED = 8
"""Lambda's credit leaves a shard that exceeds its part by more than the total divided by this."""


class Better(NamedTuple):
    """A URL that waits, and is now worth a better level."""

    url: str
    worth: int


@dataclass(slots=True)
class _Delivery:
    """One call of receive.lua: the credit for URLs of a shard, and Lambda's credit from other shards."""

    shard: int
    number: int
    credit: dict[int, int] = field(default_factory=dict)
    """Number of a URL -> credit."""
    urls: list[str] = field(default_factory=list)
    pool: int = 0


@dataclass(slots=True)
class _Payment:
    """One call of spend.lua: the credit from the purse of a shard for each delivery, and from Lambda for one."""

    shard: int
    parts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Shard and number of a delivery -> credit."""
    moved: int = 0
    to: tuple[int, int] = (0, 0)


class Ledgers(NamedTuple):
    """The number of URLs that wait, and Lambda's credit, in each shard."""

    waiting: Sequence[int]
    pools: Sequence[int]


def number_of(url: str) -> int:
    """Returns the number of a URL in the credit records, like `number_of` in credit.lua."""
    return int.from_bytes(hashlib.sha1(url.encode(), usedforsecurity=False).digest()[:4], "big")


class Purse:
    """The purse of one worker in all shards. `name` changes after the purse was closed."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self.worth_of_lambda = UNIT
        """The part of Lambda's credit for each URL that waits, as a worth."""
        self._begin()

    def _begin(self) -> None:
        self.name = uuid.uuid4().hex[:16]
        self._number = 0
        self._deliveries_to: Counter[int] = Counter()
        self._owed: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self._payments: list[_Payment] = []
        self._deliveries: list[_Delivery] = []

    @property
    def owed(self) -> int:
        """The number of URLs that will get credit."""
        return sum(map(len, self._owed.values()))

    def owe(self, host: str, credit: int, links: Sequence[str]) -> None:
        """Divides the credit that the purse got for a page of a host among the distinct links of the page."""
        if each := credit // max(1, len(links)):
            owed = self._owed[self._keys.shard(host)]
            known = owed.get  # a Counter takes twice as long
            for url in links:
                owed[url] = known(url, 0) + each

    def forget(self) -> None:
        """Begins with a new purse, because the engine may have lost credit of the old purse, which will be closed."""
        self._begin()

    async def settle(self, shards: Iterable[int]) -> list[Better]:
        """Pays the owed credit, and levels Lambda's credit in the `shards` that this worker serves.

        Raises connection errors; another call continues the work.
        """
        ledgers = await self.ledgers()
        self.worth_of_lambda = max(0, sum(ledgers.pools)) * UNIT // TOTAL
        if not self._payments:
            self._prepare(ledgers, sorted({*shards, *self._owed}))
        if not self._payments:
            return []
        waiting = sum(ledgers.waiting)
        calls = [self._spend(payment, waiting - ledgers.waiting[payment.shard]) for payment in self._payments]
        for payment, reply in zip(self._payments, await self._engine.run_all(calls), strict=True):
            if not reply:
                self._begin()
                return []
            payment.moved = int(reply.taken)
        better = await self._deliver(ledgers)
        self._payments, self._deliveries = [], []
        return better

    async def ledgers(self) -> Ledgers:
        """Returns the number of URLs that wait, and Lambda's credit, in all shards."""
        shards = self._keys.shards
        ledgers = await self._engine.hashes(f"{self._prefix(shard)}credit" for shard in range(shards))
        return Ledgers(
            [int(ledger.get(b"waiting", 0)) for ledger in ledgers],
            [int(ledger.get(b"pool", first_pool(shard, shards))) for shard, ledger in enumerate(ledgers)],
        )

    async def collect(self, shards: Iterable[int], idle_seconds: float) -> int:
        """Gives Lambda the credit in purses of these shards that were idle for so long; returns their number."""
        served = list(shards)
        idle_ms = milliseconds(idle_seconds)
        calls = [
            script_call("close_purse", [self._prefix(shard)], idle_ms=idle_ms, name="") for shard in served
        ]
        emptied = 0
        for shard, closed in zip(served, await self._engine.run_all(calls), strict=True):
            for row in closed:
                lost = await self._not_arrived(row.purse.decode(), row.transit.decode())
                call = script_call("empty_purse", [self._prefix(shard)], purse=row.purse, lost=lost)
                emptied += await self._engine.run(call)
        return emptied

    async def _not_arrived(self, name: str, transit: str) -> int:
        """Closes a purse in each shard to which credit is in transit; returns the credit that has not arrived."""
        parts = [tuple(map(int, line.split())) for line in transit.splitlines()]
        shards = sorted({shard for shard, _, _ in parts})
        calls = [script_call("close_purse", [self._prefix(shard)], idle_ms="", name=name) for shard in shards]
        replies = await self._engine.run_all(calls)
        got = {shard: int(closed.got) for shard, [closed] in zip(shards, replies, strict=True)}
        return sum(credit for shard, number, credit in parts if number > got[shard])

    def _prepare(self, ledgers: Ledgers, shards: Sequence[int]) -> None:
        """Makes payments and deliveries of the owed credit."""
        self._number += 1
        current: dict[int, _Delivery] = {}
        shard_of: dict[str, int] = {}
        for shard in shards:
            payment = _Payment(shard)
            self._payments.append(payment)
            for url, credit in self._owed[shard].items():
                host = split(url)[0]
                if (to := shard_of.get(host)) is None:
                    to = shard_of[host] = self._keys.shard(host)
                delivery = current.get(to)
                if delivery is None or len(delivery.credit) >= _TOGETHER:
                    delivery = current[to] = self._delivery(to)
                number = number_of(url)
                if number not in delivery.credit:
                    delivery.urls.append(url)
                delivery.credit[number] = delivery.credit.get(number, 0) + credit
                payment.parts[to, delivery.number] += credit
        self._owed.clear()
        self._level(ledgers, current)

    def _level(self, ledgers: Ledgers, current: dict[int, _Delivery]) -> None:
        """Moves Lambda's credit from shards with more than their part to shards with less."""
        waiting, pool = sum(ledgers.waiting), sum(ledgers.pools)
        if not waiting:
            return
        missing = [pool * here // waiting - had for here, had in zip(*ledgers, strict=True)]
        for payment in self._payments:
            surplus = -missing[payment.shard]
            to = max(range(len(missing)), key=missing.__getitem__)
            if surplus <= pool // (_LEAST_MOVED * len(missing)) or missing[to] <= 0:
                continue
            payment.moved = min(surplus, missing[to])
            missing[to] -= payment.moved
            delivery = current.get(to) or current.setdefault(to, self._delivery(to))
            payment.to = to, delivery.number

    def _delivery(self, shard: int) -> _Delivery:
        self._deliveries_to[shard] += 1
        self._deliveries.append(_Delivery(shard, self._deliveries_to[shard]))
        return self._deliveries[-1]

    async def _deliver(self, ledgers: Ledgers) -> list[Better]:
        """Sends the deliveries, one after another to each shard, because their numbers must grow."""
        for delivery in self._deliveries:
            to = delivery.shard, delivery.number
            delivery.pool = sum(payment.moved for payment in self._payments if payment.to == to)
        left, better, waiting = list(self._deliveries), [], sum(ledgers.waiting)
        while left:
            first = {delivery.shard: delivery for delivery in reversed(left)}
            left = [delivery for delivery in left if first[delivery.shard] is not delivery]
            calls = [
                self._receive(delivery, waiting - ledgers.waiting[shard]) for shard, delivery in first.items()
            ]
            for delivery, reply in zip(first.values(), await self._engine.run_all(calls), strict=True):
                if not reply:
                    self._begin()
                    return []
                better += [
                    Better(delivery.urls[index], worth)
                    for index, worth in zip(reply.better[::2], reply.better[1::2], strict=True)
                ]
        return better

    def _spend(self, payment: _Payment, others: int) -> Call:
        to_shard, to_number = payment.to
        return script_call(
            "spend",
            [self._prefix(payment.shard)],
            purse=self.name,
            number=self._number,
            others=others,
            wanted=payment.moved,
            to_shard=to_shard,
            to_number=to_number,
            part={
                "shard": [shard for shard, _ in payment.parts],
                "delivery": [number for _, number in payment.parts],
                "credit": list(payment.parts.values()),
            },
        )

    def _receive(self, delivery: _Delivery, others: int) -> Call:
        return script_call(
            "receive",
            [self._prefix(delivery.shard)],
            purse=self.name,
            number=delivery.number,
            others=others,
            pool=delivery.pool,
            url={"number": list(delivery.credit), "credit": list(delivery.credit.values())},
        )

    def _prefix(self, shard: int) -> str:
        return self._keys.queue(shard)[0]


async def queue_again(engine: Engine, keys: Keys, candidates: Sequence[Candidate]) -> int:
    """Queues URLs that wait at worse levels again at better levels; returns their number."""
    by_shard = keys.by_shard(candidates, attrgetter("host"))
    now, timed = time.time(), bool(job_of(keys.crawl))
    calls = [
        script_call(
            "queue_again",
            keys.queue(shard),
            url={
                "host": [candidate.host for candidate in some],
                "rise": [candidate.rise or 0 for candidate in some],
                "entry": [candidate.entry(now, timed=timed) for candidate in some],
            },
        )
        for shard, group in by_shard.items()
        for some in batches(group)
    ]
    return int(sum(await engine.run_all(calls)))


async def worths(engine: Engine, keys: Keys, urls: Sequence[str]) -> list[int | None]:
    """Returns the worths of URLs now; None for a URL whose credit is not known."""
    by_shard = keys.by_shard(range(len(urls)), lambda index: split(urls[index])[0])
    groups = [(shard, some) for shard, indexes in by_shard.items() for some in batches(indexes)]
    calls = [
        script_call("worths", [keys.queue(shard)[0]], urls=[number_of(urls[index]) for index in indexes])
        for shard, indexes in groups
    ]
    worths: list[int | None] = [None] * len(urls)
    for (_, indexes), reply in zip(groups, await engine.run_all(calls), strict=True):
        for index, worth in zip(indexes, reply, strict=True):
            worths[index] = None if worth < 0 else int(worth)
    return worths


def share_of_link(worth: int, links: int) -> int:
    """Returns the credit for each link of a page, as a worth; zero links count as one."""
    return (worth - worth // LAMBDA_PART) // max(1, links)
