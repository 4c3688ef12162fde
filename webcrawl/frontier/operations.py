"""The verbs of operators: block, delay and limit hosts, read queues, requeue dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, failures_field, host_of
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import queued_at_of
from webcrawl.frontier.records import DeadLetter, HostLimits, HostQueue, HostStatus
from webcrawl.policies.soft_404 import UnknownPathAnswer

BATCH = 1000
"""The most URLs in one script call; a longer call would block the server for other clients."""

MOST_SECONDS = 10**10
"""Longer times, over three centuries, are cut to this: Lua writes integers from 1e14 on in fewer digits."""

T = TypeVar("T")

_SCANNED_HOSTS = 20_000
_HOSTS_AT_ONCE = 200


@dataclass(slots=True)
class Operations:
    """Hosts need not be known yet. Delays and times apply to all crawls of the engine, the rest to this crawl."""

    engine: Engine
    keys: Keys

    async def block_until(self, host: str, seconds: float) -> None:
        """Keeps the host from being leased for at least `seconds`.

        A worker that has leased the host continues with its URLs.
        """
        await self._set_host(host, "until", seconds)

    async def set_delay(self, host: str, seconds: float | None) -> None:
        """Sets the minimum delay between two requests to the host; None removes it.

        A worker that has leased the host applies the delay with its next heartbeat.
        """
        await self._set_host(host, "delay", -0.001 if seconds is None else seconds)

    async def block(self, host: str) -> None:
        """Keeps the host from being leased until `unblock`. Its URLs stay queued; the crawl can finish without them.

        A worker that has leased the host loses the lease and notices with its next heartbeat. No worker of any crawl
        gets the host, even after `unblock`, until that lease would have expired or the worker releases the host.
        """
        await self.engine.run(script_call("park", self._queue(host), host=host, action="block"))

    async def unblock(self, host: str) -> None:
        await self.engine.run(script_call("park", self._queue(host), host=host, action="unblock"))

    async def limit(self, host: str, limits: HostLimits) -> None:
        """Sets this crawl's limits for the host, which replace the default limits; the limit of its rule stays."""
        await self._limit(host, f"{limits.encoded()} =")

    async def rule_limit(self, host: str, pages: int | None) -> None:
        """Sets the pages that a rule in the settings allows; None removes them. A limit by `limit` takes precedence."""
        await self._limit(host, f"= = = {'-' if pages is None else pages}")

    async def review(self) -> None:
        """Checks all hosts with spent budgets again, after the limits for all hosts have changed."""
        for shard in range(self.keys.shards):
            cursor = b"0"
            while True:
                cursor = await self.engine.run(script_call("review", self.keys.queue(shard), cursor=cursor))
                if cursor == b"0":
                    break

    async def host(self, host: str) -> HostStatus:
        """Returns the state of one host."""
        shard = self.keys.shard(host)
        prefix = self.keys.queue(shard)[0]
        client = self.engine.client
        now = await self.engine.run(script_call("time", [prefix]))
        record = {key.decode(): value for key, value in (await client.hgetall(self.keys.host(host))).items()}
        limits, spent, parked, unknown = [
            await client.hget(prefix + name, host) for name in ("limits", "spent", "parked", "unknown")
        ]
        pages, size = (int(part) for part in (spent or b"0 0").split())
        return HostStatus(
            host,
            queued=(await self.queue_lengths([host]))[host],
            leased=bool(await client.exists(f"{prefix}lease:{host}")),
            parked=parked.decode() if parked else None,
            unknown_paths=UnknownPathAnswer.decoded(unknown.decode()).about() if unknown else None,
            pages=pages,
            bytes=size,
            limits=HostLimits.decoded(limits.decode()) if limits else HostLimits(),
            delay=int(record["delay"]) / 1000 if "delay" in record else None,
            waits=max(0, int(record.get("until", 0)) - now) / 1000,
            failures=int(record.get(failures_field(self.keys, host), 0)),
            asked="asked" in record,
            gap=int(record.get("gap", 0)) / 1000,
        )

    async def queue_lengths(self, hosts: Iterable[str]) -> dict[str, int]:
        """Returns the number of queued URLs of each of a few hosts."""
        by_shard = self.keys.by_shard(hosts, str)
        calls = [
            script_call("lengths", self.keys.queue(shard), hosts=some) for shard, some in by_shard.items()
        ]
        replies = await self.engine.run_all(calls)
        return {
            host: int(length)
            for some, lengths in zip(by_shard.values(), replies, strict=True)
            for host, length in zip(some, lengths, strict=True)
        }

    async def patterns(self, host: str) -> bytes:
        """Returns the packed records of the URL patterns of a host; empty if none has sunk."""
        key = self.keys.queue(self.keys.shard(host))[0] + "patterns"
        return bytes(await self.engine.client.hget(key, host) or b"")

    async def hosts(self, most: int = 10) -> list[HostQueue]:
        """Returns the hosts with the most URLs, among the first 20,000 with URLs.

        Counts only the first 20,000 of the URLs that wait for another attempt, in the order of their times.
        """
        queues: list[HostQueue] = []
        for shard in range(self.keys.shards):
            queues += await self._hosts_of(shard, _SCANNED_HOSTS - len(queues))
        return sorted(queues, key=lambda queue: (-queue.queued - queue.waiting, queue.host))[:most]

    async def dead_letters(self, host: str | None = None, reason: str = "") -> AsyncIterator[DeadLetter]:
        """Yields dead letters of one host or of all, whose reason contains a text, in no particular order.

        Letters are read in pieces, so letters that are added or requeued meanwhile may be missing.
        """
        for shard in range(self.keys.shards) if host is None else [self.keys.shard(host)]:
            async for url, value in self.packed_letters(shard):
                for letter in unpacked_letters(url, value, host, reason):
                    yield letter

    async def packed_letters(self, shard: int) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yields the URLs with dead letters in a shard, with the packed letters for `unpacked_letters`."""
        async for url, value in self.engine.client.hscan_iter(self.keys.dead(shard), count=BATCH):
            yield url, value

    async def reason_of_death(self, host: str, url: str) -> str | None:
        """Returns the reason of a URL's last dead letter; None without dead letters."""
        value = await self.engine.client.hget(self.keys.dead(self.keys.shard(host)), url)
        return msgpack.unpackb(value, raw=True)[-1][0].decode(errors="replace") if value else None

    async def requeue(self, letters: Iterable[tuple[str, str]], reason: str = "") -> int:
        """Queues dead letters (host, URL) again if their reason contains a text; returns the number that was queued."""
        by_shard = self.keys.by_shard(letters, itemgetter(0))
        calls = [
            script_call(
                "requeue",
                self.keys.queue(shard),
                reason=reason,
                url={"host": [host for host, _ in some], "url": [url for _, url in some]},
            )
            for shard, group in by_shard.items()
            for some in batches(group)
        ]
        return int(sum(await self.engine.run_all(calls)))

    async def _set_host(self, host: str, field: str, seconds: float) -> None:
        call = script_call("host", self._queue(host), host=host, field=field, value=milliseconds(seconds))
        await self.engine.run(call)

    async def _limit(self, host: str, limits: str) -> None:
        await self.engine.run(script_call("limit", self._queue(host), host=host, limits=limits))

    def _queue(self, host: str) -> tuple[str, str]:
        return self.keys.queue(self.keys.shard(host))

    async def _hosts_of(self, shard: int, most: int) -> list[HostQueue]:
        prefix = self.keys.queue(shard)[0]
        hosts: list[str] = []
        async for name, _ in self.engine.client.hscan_iter(f"{prefix}queued", count=BATCH):
            if len(hosts) >= most:
                break
            hosts.append(host_of(name).decode())
        retries = await self._retries(shard)
        hosts += sorted(retries.keys() - set(hosts))[: max(0, most - len(hosts))]
        queues: list[HostQueue] = []
        for start in range(0, len(hosts), _HOSTS_AT_ONCE):
            some = hosts[start : start + _HOSTS_AT_ONCE]
            pipe = self.engine.client.pipeline(transaction=False)
            for host in some:
                pipe.exists(f"{prefix}lease:{host}")
            queued = await self.queue_lengths(some)
            queues += [
                HostQueue(host, queued[host], bool(leased), *retries.get(host, (0, None)))
                for host, leased in zip(some, await pipe.execute(), strict=True)
                if queued[host] or host in retries
            ]
        return queues

    async def _retries(self, shard: int) -> dict[str, tuple[int, float]]:
        """Returns the waits of a shard for other attempts: host -> number of URLs, seconds until the first attempt."""
        prefix = self.keys.queue(shard)[0]
        retries: dict[str, tuple[int, float]] = {}
        if not await self.engine.client.exists(f"{prefix}later"):
            return retries
        now = await self.engine.run(script_call("time", [prefix]))
        for start in range(0, _SCANNED_HOSTS, BATCH):
            rows = await self.engine.client.zrange(
                f"{prefix}later", start, start + BATCH - 1, withscores=True
            )
            for member, due in rows:
                host = member.partition(b"\n")[0].partition(b" ")[2].decode()
                number, first = retries.get(host, (0, max(0, int(due) - now) / 1000))
                retries[host] = number + 1, first
            if len(rows) < BATCH:
                break
        return retries


def unpacked_letters(
    url: bytes, value: bytes, host: str | None = None, reason: str = ""
) -> Iterator[DeadLetter]:
    """Yields the dead letters of a URL whose reason contains a text; with `host`, only for a URL of that host."""
    if host is not None and not url.startswith(host.encode() + b"/"):
        return
    for why, time, entry in msgpack.unpackb(value, raw=True):
        if reason.encode() in why:
            text = why.decode(errors="replace")
            yield DeadLetter(url.decode(), text, time / 1000, entry[1], queued_at_of(entry))


def batches(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cuts the rows of script calls into pieces of at most BATCH."""
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def milliseconds(seconds: float) -> int:
    """Converts seconds to milliseconds, rounded up so that no host is asked too early; at most MOST_SECONDS."""
    return -int(-min(seconds, MOST_SECONDS) * 1000 // 1)
