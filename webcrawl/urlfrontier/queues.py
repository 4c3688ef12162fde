"""The queues of clients in the engine: one crawl ID after another, or all of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CLIENTS, CRAWLS, NODES, Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier import Crawl, Frontier
from webcrawl.urlfrontier.conversion import Row, StoredURL, pairs

_PAGE = 500
"""Queues whose states are read in one script call."""
_MOST_URLS = 10_000
"""URLs that a script call gives to a client."""
NO_LIMIT = 2**31
"""A number of queues or URLs that is none at all."""
_KNOWN_SECONDS = 1.0
"""How long a crawl counts as begun without another look."""
_DEFAULT_DELAY = 1.0


class QueueState(NamedTuple):
    """How many URLs of a queue are known, wait for their date, may be fetched now, and are in transit."""

    queue: str
    urls: int
    waiting: int
    due: int
    out: int

    @property
    def is_active(self) -> bool:
        return self.due > 0 or self.out > 0

    @property
    def completed(self) -> int:
        return self.urls - self.waiting - self.out


class Delivery(NamedTuple):
    """URLs that one queue gives to a client."""

    crawl: str
    queue: str
    urls: list[bytes]
    """URL, record, URL, record..."""

    def stored(self) -> Iterator[StoredURL]:
        for url, record in pairs(self.urls):
            yield StoredURL(self.crawl, self.queue, url, record)


class Control(NamedTuple):
    """What holds for all crawls of clients."""

    active: bool
    delay: float
    """Seconds between two deliveries of a queue without a delay of its own."""


@dataclass(slots=True)
class ClientQueues:
    """The queues of all crawls that clients have begun. Every method may raise an error of UNAVAILABLE."""

    engine: Engine
    keys: Keys
    """With the shards and the unit of the engine's crawls; the crawl itself does not matter."""
    worker: str
    _begun: dict[str, float] = field(default_factory=dict, init=False)
    """Crawl -> when its record was seen last."""
    _turn: int = field(default=0, init=False)
    """The shard from which the next delivery comes, if it has one."""
    _delay: float = field(default=_DEFAULT_DELAY, init=False)
    """The delay of all queues, as last read."""

    async def put(self, rows: Sequence[Row]) -> list[bool]:
        """Stores URLs; returns True for each that was new or known by the client.

        Raises ConfigurationError for a crawl that workers have begun.
        """
        for crawl in {row.crawl for row in rows}:
            await self._begin(crawl)
        calls = list(self._put_calls(rows))
        verdicts = [False] * len(rows)
        replies = await self.engine.run_all([call for call, _ in calls])
        for (_, indexes), reply in zip(calls, replies, strict=True):
            for index, verdict in zip(indexes, reply.decode(), strict=True):
                verdicts[index] = verdict == "1"
        return verdicts

    async def get(
        self, crawl: str, queue: str, queues: int, urls: int, seconds: float
    ) -> AsyncIterator[Delivery]:
        """Yields what up to `queues` queues give, up to `urls` URLs each (0: any number); they are in transit then.

        `queue`: the only queue. `seconds`: how long the URLs are in transit if no client reports them.
        """
        keys, left, turn = replace(self.keys, crawl=crawl), queues, self._turn
        shards = [_shard(keys, queue)] if queue else [*range(turn, keys.shards), *range(turn)]
        most = max(1, min(100, _MOST_URLS // (urls or _MOST_URLS)))
        while shards and left:
            asked = shards[:left]
            parts = [min(most, (left + n) // len(asked)) for n in range(len(asked))]
            calls = [
                script_call(
                    "client_get",
                    keys.queue(shard),
                    default_delay=self._delay_ms,
                    queue=queue,
                    queues=part,
                    urls=urls or NO_LIMIT,
                    most_urls=_MOST_URLS,
                    transit_ms=round(seconds * 1000),
                )
                for shard, part in zip(asked, parts, strict=True)
            ]
            replies = await self.engine.run_all(calls)
            # a shard that gave as much as it was asked for may have more
            full = [
                shard for shard, part, reply in zip(asked, parts, replies, strict=True) if len(reply) >= part
            ]
            shards = [] if queue else shards[len(asked) :] + full
            for shard, reply in zip(asked, replies, strict=True):
                left -= len(reply)
                if reply and not queue:
                    self._turn = (shard + 1) % keys.shards  # the next call begins with the shards behind it
                for delivery in reply:
                    yield Delivery(crawl, delivery.name.decode(), delivery.records)

    async def states(self, crawl: str, queue: str = "") -> AsyncIterator[QueueState]:
        """Yields the states of a crawl's queues, in the same order each time; or that of one queue, known or not."""
        keys = replace(self.keys, crawl=crawl)
        for shard in [_shard(keys, queue)] if queue else range(keys.shards):
            start = 0
            while True:
                call = script_call(
                    "client_queues", keys.queue(shard)[:1], queue=queue, start=start, most=_PAGE
                )
                rows = await self.engine.run(call)
                for row in rows:
                    yield QueueState(row.name.decode(), *map(int, row[1:]))
                start += _PAGE
                if queue or len(rows) < _PAGE:
                    break

    async def stored(self, crawl: str, queue: str, url: str) -> StoredURL | None:
        """Returns one URL of a queue; None if the queue does not know it."""
        record = await self.engine.client.hget(self._records(crawl, queue), url)
        return None if record is None else StoredURL(crawl, queue, url, record)

    async def all_stored(self, crawl: str, queue: str = "") -> AsyncIterator[StoredURL]:
        """Yields the URLs of a crawl or of one queue. URLs that are stored or deleted meanwhile may be missing."""
        async for state in self.states(crawl, queue):
            if not state.urls:
                continue
            key = self._records(crawl, state.queue)
            async for url, record in self.engine.client.hscan_iter(key, count=_PAGE):
                yield StoredURL(crawl, state.queue, url.decode(), record)

    async def set(self, crawl: str, queue: str, name: str, value: int) -> bool:
        """Sets "delay" (ms), "blocked" (ms since 1970) or "limit" (URLs) of a queue; returns whether it has URLs.

        The limit of an unknown queue is not set. Raises ConfigurationError for a crawl that workers have begun.
        """
        await self._begin(crawl)
        keys = replace(self.keys, crawl=crawl)
        call = script_call(
            "client_set",
            keys.queue(_shard(keys, queue)),
            default_delay=self._delay_ms,
            queue=queue,
            field=name,
            value=value,
        )
        return bool(await self.engine.run(call))

    async def delete(self, crawl: str, queue: str) -> int:
        """Deletes a queue; returns the number of its URLs."""
        return await self._delete(crawl, queue, "", [])

    async def purge(self, crawl: str, queue: str, before: int) -> int:
        """Deletes the URLs of a crawl or a queue that were stored before a date (seconds since 1970)."""
        total = 0
        async for state in self.states(crawl, queue):
            old: list[str] = []
            async for url in self.all_stored(crawl, state.queue):
                if url.created < before:
                    old.append(url.url)
            for start in range(0, len(old), _PAGE):
                total += await self._delete(crawl, state.queue, before, old[start : start + _PAGE])
        return total

    async def crawls(self) -> list[str]:
        """Returns the IDs of the crawls that clients have begun."""
        names = sorted(name.decode() for name in await self.engine.client.hkeys(CRAWLS))
        infos = await self.engine.hashes(replace(self.keys, crawl=name).own("info") for name in names)
        return [name for name, info in zip(names, infos, strict=True) if b"clients" in info]

    async def delete_crawl(self, crawl: str) -> int:
        """Deletes a crawl of clients; returns the number of its URLs, 0 for an unknown crawl."""
        if crawl not in await self.crawls():
            return 0
        total, keys = 0, replace(self.keys, crawl=crawl)
        # queue by queue, so that workers may ask the hosts of its URLs at once
        for queue in [state.queue async for state in self.states(crawl)]:
            total += await self.delete(crawl, queue)
        await Frontier(self.engine, keys, self.worker).clear()
        await Crawl(self.engine, keys, self.worker).forget()
        self._begun.pop(crawl, None)
        return total

    async def is_paused(self, crawl: str) -> bool:
        """Whether an operator has paused the crawl (`scrapy pause`)."""
        return await Crawl(self.engine, replace(self.keys, crawl=crawl), self.worker).paused()

    async def totals(self, crawl: str) -> tuple[int, int]:
        """Returns how many URLs were ever stored in the crawl, and ever completed."""
        counts = await Frontier(self.engine, replace(self.keys, crawl=crawl), self.worker).counts()
        return counts.added, counts.done

    async def control(self) -> Control:
        """Returns what holds for all crawls."""
        stopped, delay = await self.engine.client.hmget(CLIENTS, "stopped", "delay")
        self._delay = _DEFAULT_DELAY if delay is None else int(delay) / 1000
        return Control(not stopped, self._delay)

    async def set_active(self, active: bool) -> None:
        """Lets `control` say that no client gets URLs, or that all do."""
        await self.engine.change(CLIENTS, *(("HDEL", "stopped") if active else ("HSET", "stopped", 1)))

    async def set_default_delay(self, seconds: int) -> None:
        """Sets the delay of all queues without a delay of their own."""
        await self.engine.change(CLIENTS, "HSET", "delay", seconds * 1000)
        self._delay = seconds
        for crawl in await self.crawls():
            keys = replace(self.keys, crawl=crawl)
            for shard in range(keys.shards):
                start = 0
                while await self.engine.run(
                    script_call("client_review", keys.queue(shard)[:1], start=start, most=_PAGE,
                                default_delay=self._delay_ms)
                ):  # fmt: skip
                    start += _PAGE

    async def announce(self, address: str, seconds: float) -> None:
        """Counts a server among those that run, for some seconds."""
        now = time.time()
        await self.engine.change(NODES, "ZREMRANGEBYSCORE", "-inf", f"{now:.3f}")
        await self.engine.change(NODES, "ZADD", f"{now + seconds:.3f}", address)

    async def retire(self, address: str) -> None:
        """Removes a server from those that run."""
        await self.engine.change(NODES, "ZREM", address)

    async def nodes(self) -> list[str]:
        """Returns the addresses of the servers that run."""
        names = await self.engine.client.zrangebyscore(NODES, time.time(), "+inf")
        return sorted(name.decode() for name in names)

    async def _begin(self, crawl: str) -> None:
        """Begins a crawl unless it was seen a moment ago; raises ConfigurationError if workers have begun it."""
        now = time.monotonic()
        if now - self._begun.get(crawl, -_KNOWN_SECONDS) < _KNOWN_SECONDS:
            return
        await Crawl(self.engine, replace(self.keys, crawl=crawl), self.worker, of_clients=True).begin()
        self._begun[crawl] = now

    def _put_calls(self, rows: Sequence[Row]) -> Iterator[tuple[Call, list[int]]]:
        """Yields a call for each shard of each crawl, with the indexes of its rows."""
        groups: dict[tuple[str, int], dict[str, list[int]]] = {}
        shards: dict[str, int] = {}
        for index, row in enumerate(rows):
            shard = shards.get(row.queue)
            if shard is None:
                shard = shards[row.queue] = _shard(self.keys, row.queue)
            groups.setdefault((row.crawl, shard), {}).setdefault(row.queue, []).append(index)
        for (crawl, shard), queues in groups.items():
            indexes = [index for some in queues.values() for index in some]
            some = [rows[index] for index in indexes]
            call = script_call(
                "client_put",
                replace(self.keys, crawl=crawl).queue(shard),
                default_delay=self._delay_ms,
                queue={"queue": list(queues), "urls": [len(some) for some in queues.values()]},
                url={
                    "url": [row.url for row in some],
                    "date": [row.date for row in some],
                    "data": [row.data for row in some],
                },
            )
            yield call, indexes

    async def _delete(self, crawl: str, queue: str, before: int | str, urls: list[str]) -> int:
        keys = replace(self.keys, crawl=crawl)
        call = script_call(
            "client_delete",
            keys.queue(_shard(keys, queue)),
            default_delay=self._delay_ms,
            queue=queue,
            before=before,
            urls=urls,
        )
        return int(await self.engine.run(call))

    @property
    def _delay_ms(self) -> int:
        return round(self._delay * 1000)

    def _records(self, crawl: str, queue: str) -> str:
        keys = replace(self.keys, crawl=crawl)
        return f"{keys.queue(_shard(keys, queue))[0]}client:urls:{queue}"


def _shard(keys: Keys, queue: str) -> int:
    """Returns the shard of a queue, which is that of the host with its name."""
    return keys.shard(f"https://{queue}")
