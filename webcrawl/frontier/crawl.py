"""What belongs to a crawl as a whole: its workers, totals, page limit, seeds and scope."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CRAWLS, FORMAT, Keys
from webcrawl.engine.scripts import Call
from webcrawl.errors import ConfigurationError
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.records import HostLimits

_WORKED_GAP_SECONDS = 10.0
"""A longer silence of all workers is a time in which nobody worked."""


class Beat(NamedTuple):
    """What a worker hears when it tells that it lives."""

    seeding: int
    """Workers that still read their seeds."""
    paused: bool


@dataclass(slots=True)
class Crawl:
    """One crawl's common record in the engine, as one worker sees it. Times are seconds."""

    engine: Engine
    keys: Keys
    worker: str
    worker_seconds: float = 12.0
    """How long a worker counts as alive after a beat."""
    _unheard: list[Call] = field(default_factory=list, init=False)
    """Tallies whose replies have not come, the oldest first: each counts once, however often it is sent."""
    _number: int = field(default_factory=lambda: time.time_ns() // 1000, init=False)
    """Of the last tally: larger than any before under this worker's name."""
    _reserved: int = field(default=0, init=False)
    """Permits that this worker has."""

    async def begin(self, restoring: str = "") -> bool:
        """Open the crawl, or go on with it: True when it existed already. `restoring` names who is going to restore it.

        Raises ConfigurationError when it, or another crawl of the engine, was begun with another number of shards: its
        hosts would not be found, or what is known of a host would not be shared. Data in another format is refused too,
        and a crawl that was restored only in part.
        """
        if await self.exists():
            await self._check_info()
        else:
            # first: a crawl that is listed has its format, even when its beginner is killed in between
            about = ("format", FORMAT, *(("restoring", restoring) if restoring else ()))
            await self.engine.change(self.keys.own("info"), "HSET", *about)
        call = Call("register_crawl", [CRAWLS], (self.keys.crawl, self.keys.shards))
        crawl, begun, new = await self.engine.run(call)
        if int(begun) != self.keys.shards:
            raise ConfigurationError(
                f"FRONTIER_SHARDS is {self.keys.shards}, but crawl {crawl.decode()!r} of this engine was begun with "
                f"{int(begun)}, and all crawls of an engine share each host's politeness: set it to {int(begun)}, use "
                "another engine (DATA_DIR, REDIS_URL), or clear its crawls, each with SCHEDULER_FLUSH_ON_START"
            )
        return not new

    async def _check_info(self) -> None:
        found, restoring = await self.engine.client.hmget(self.keys.own("info"), "format", "restoring")
        if restoring:
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} is not yet or only in part restored by {restoring.decode()}: wait for it, "
                "or run scrapy restore again"
            )
        if found != b"%d" % FORMAT:
            version = "another" if found else "an older"
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} was begun by {version} version of webcrawl, which kept its data otherwise: "
                "finish it with that version, choose another CRAWL_ID, or clear it with SCHEDULER_FLUSH_ON_START=True"
            )

    async def restoring(self) -> bool:
        """Whether the crawl is being restored, or only a part of it was."""
        return bool(await self.engine.client.hexists(self.keys.own("info"), "restoring"))

    async def working(self) -> int:
        """How many workers were heard of lately."""
        now = await self.engine.run(Call("time", [self.keys.own()], ()))
        return int(await self.engine.client.zcount(self.keys.own("workers"), now, "+inf"))

    async def configure(self, hot_urls: int, order: str) -> None:
        """Tell the scripts how long a queue in the engine may be (0: any length) and how it is ordered."""
        for shard in range(self.keys.shards):
            key = f"{self.keys.queue(shard)[0]}conf"
            await self.engine.change(key, "HSET", "hot", hot_urls, "order", order)

    async def tails(self) -> str | None:
        """The folder of the store in which the crawl's segments are; None when nothing was ever spilled."""
        folder = await self.engine.client.hget(self.keys.own("info"), "tails")
        return None if folder is None else str(folder.decode())

    async def set_tails(self, folder: str) -> str:
        """The folder for segments is this one, unless another worker was first; returns which it is."""
        await self.engine.change(self.keys.own("info"), "HSETNX", "tails", folder)
        return await self.tails() or folder

    async def exists(self) -> bool:
        """Whether the crawl was ever begun."""
        return await self.shards() is not None

    async def shards(self) -> int | None:
        """The number of shards that the crawl was begun with; None when it never was."""
        begun = await self.engine.client.hget(CRAWLS, self.keys.crawl)
        return None if begun is None else int(begun)

    async def forget(self) -> None:
        """The crawl was cleared: it is none of the engine's crawls any more."""
        await self.engine.change(CRAWLS, "HDEL", self.keys.crawl)

    async def beat(
        self, *, seeding: bool = False, counted: Mapping[str, int] | None = None, permits: int = 0
    ) -> Beat:
        """Tell that this worker lives, and add to the totals; `permits` reserved pages are no longer needed.

        What is counted is so exactly once, also when this raises: then the next call of a kind does it first.
        """
        return await self._tell(self.tally(counted or {}, permits=permits, seeding=seeding))

    async def pause(self) -> None:
        """All workers finish what is on its way and give their hosts back, until `resume`. A beat tells them."""
        await self.engine.change(self.keys.own("info"), "HSET", "paused", 1)

    async def resume(self) -> None:
        await self.engine.change(self.keys.own("info"), "HDEL", "paused")

    async def paused(self) -> bool:
        return bool(await self.engine.client.hexists(self.keys.own("info"), "paused"))

    async def hold(self, reason: str) -> None:
        """This worker leases nothing for this reason, to be said with each beat; "" when it goes on."""
        key = self.keys.own("holding")
        if reason:
            await self.engine.change(key, "HSET", self.worker, reason)
        else:
            await self.engine.change(key, "HDEL", self.worker)

    async def holding(self) -> dict[str, str]:
        """The workers that lease nothing, and why."""
        raw = await self.engine.client.hgetall(self.keys.own("holding"))
        return {worker.decode(): reason.decode() for worker, reason in raw.items()}

    async def limits_changed(self, limits: HostLimits) -> bool:
        """Note what may be taken from a host; True when it was something else before."""
        info, text = self.keys.own("info"), limits.encoded()
        before = await self.engine.client.hget(info, "limits")
        await self.engine.change(info, "HSET", "limits", text)
        return before is not None and before.decode() != text

    async def leave(self, counted: Mapping[str, int] | None = None) -> None:
        """The last word of a worker that ends in good order."""
        await self._tell(self._tally_call(0.0, "working", counted or {}, 0))
        self._reserved = 0

    def tally(self, counted: Mapping[str, int], *, permits: int = 0, seeding: bool = False) -> Call:
        """The call of a beat. Sent again it counts nothing; whoever makes one has to send it before the next."""
        return self._tally_call(self.worker_seconds, "seeding" if seeding else "working", counted, permits)

    async def permits(self, wanted: int, limit: int) -> int:
        """Reserve up to `wanted` pages of a limit of `limit` for the whole crawl; returns how many were granted."""
        await self._say_again()
        call = Call("permit", [self.keys.own()], (self.worker, wanted, limit, self._reserved))
        granted = int(await self.engine.run(call))
        self._reserved += granted
        return granted

    async def meet(self, hosts: Iterable[str]) -> None:
        """Count hosts that answered, each once however often it is met (a HyperLogLog: within 1%)."""
        hosts = list(hosts)
        for start in range(0, len(hosts), BATCH):
            await self.engine.run(Call("count_hosts", [self.keys.own("hosts")], hosts[start : start + BATCH]))

    async def hosts_met(self) -> int:
        return int(await self.engine.client.pfcount(self.keys.own("hosts")))

    async def totals(self) -> dict[str, int]:
        """What all workers of all runs did: counter -> number."""
        raw = await self.engine.client.hgetall(self.keys.own("totals"))
        return {name.decode(): int(value) for name, value in raw.items()}

    async def workers(self) -> list[str]:
        """The names of the workers known; dead ones are left out with the next beat of any."""
        return [name.decode() for name in await self.engine.client.zrange(self.keys.own("workers"), 0, -1)]

    async def set_scope_kind(self, kind: str) -> None:
        """Note what the keys in "scope" are keys of."""
        await self.engine.change(self.keys.own("info"), "HSET", "scope", kind)

    async def scope_kind(self) -> str | None:
        kind = await self.engine.client.hget(self.keys.own("info"), "scope")
        return None if kind is None else str(kind.decode())

    async def forget_workers(self) -> None:
        """No worker is alive, whatever the record says."""
        await self.engine.client.delete(
            *(self.keys.own(name) for name in ("workers", "seeding", "permits", "holding"))
        )

    async def remember(self, name: str, members: Iterable[str]) -> None:
        """Add to the crawl's set `name`: "seeds" or "scope"."""
        if members := list(members):
            await self.engine.change(self.keys.own(name), "SADD", *members)

    async def knows(self, name: str, member: str) -> bool:
        """Whether somebody remembered this member."""
        return bool(await self.engine.client.sismember(self.keys.own(name), member))

    async def recall(self, name: str) -> set[str]:
        return {member.decode() for member in await self.engine.client.smembers(self.keys.own(name))}

    async def _tell(self, tally: Call) -> Beat:
        self._unheard.append(tally)
        try:
            workers, paused = await self._say_again()
        finally:
            # one that counts nothing need not be said again
            self._unheard = [call for call in self._unheard if call.arguments[3] or len(call.arguments) > 6]
        return Beat(int(workers), bool(paused))

    async def _say_again(self) -> list[int]:
        """Send what was perhaps not heard; returns the last reply."""
        reply: list[int] = []
        while self._unheard:
            reply = await self.engine.run(self._unheard[0])
            del self._unheard[0]
        return reply

    def _tally_call(self, ttl: float, state: str, counted: Mapping[str, int], permits: int) -> Call:
        self._number += 1
        self._reserved -= permits
        arguments: list[str | int] = [
            self.worker,
            int(ttl * 1000),
            state,
            permits,
            int(_WORKED_GAP_SECONDS * 1000),
            self._number,
        ]
        for name, amount in counted.items():
            arguments += [name, amount]
        return Call("heartbeat", [self.keys.own()], arguments)
