"""The URLs of a crawl that are to be fetched, read window by window beside its workers: each takes bounded work.

They come in the engine's order: leased, queued, waiting for another attempt, with a date. A URL that moves meanwhile
may be missing, or come twice. Of long queues, the part in the store is not read but counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, host_of
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError
from webcrawl.frontier.listing.engine_urls import EngineURL, engine_url
from webcrawl.frontier.operations import BATCH

PARTS = ("leased", "queued", "waiting", "scheduled")
_KEYS = {"leased": "leases", "queued": "queued", "waiting": "later", "scheduled": "scheduled"}
_READ = 100
"""URLs that one step reads."""
_MOST_STEPS = 50
_HOSTS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Window:
    """URLs of a window. `after`: where the next one begins; empty after the last one.

    `stored`: how many more URLs its hosts have in the store.
    """

    urls: list[EngineURL]
    after: str
    stored: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A part, a shard, and a cursor or number there; of parts by host also the first host, and URLs to skip of it."""

    part: int = 0
    shard: int = 0
    cursor: int = 0
    skip: int = 0
    host: str = ""

    @classmethod
    def parse(cls, text: str, shards: int) -> _Place:
        if not text:
            return cls()
        *numbers, host = text.split(".", 4)
        if len(numbers) != 4 or not all(one.isascii() and one.isdigit() and len(one) < 21 for one in numbers):
            raise StoreError(f"{text!r} is no place in a queue: begin at its first page")
        part, shard, cursor, skip = map(int, numbers)
        place = cls(part, shard, cursor, skip, host)
        if place.part >= len(PARTS) or place.shard >= shards or max(place.cursor, place.skip) >= 1 << 64:
            raise StoreError(f"{text!r} is no place in a queue: begin at its first page")
        return place

    def __str__(self) -> str:
        return f"{self.part}.{self.shard}.{self.cursor}.{self.skip}.{self.host}"


@dataclass(slots=True)
class OpenURLs:
    """Reads those of PARTS whose URL begins with a prefix. A prefix with a path names a host, so only that is read."""

    engine: Engine
    keys: Keys
    prefix: str = ""
    parts: Sequence[str] = PARTS

    async def window(self, after: str = "", most: int = _READ) -> Window:
        """Returns the next URLs, about `most`: a step may bring some more, and one that finds none ends after a while.

        Raises StoreError for an `after` that no window had.
        """
        place: _Place | None = _Place.parse(after, self.keys.shards)
        found: list[EngineURL] = []
        stored = 0
        for _ in range(_MOST_STEPS):
            if place is None or len(found) >= most:
                break
            if self._host and place.shard != self._shard:
                place = _Place(place.part, self._shard)
            if PARTS[place.part] not in self.parts:
                place = self._next_shard(place)
                continue
            read = self._by_host if PARTS[place.part] in ("leased", "queued") else self._by_date
            urls, place, more = await read(place)
            found += [one for one in urls if one.url.startswith(self.prefix)]
            stored += more
        return Window(found, str(place or ""), stored)

    @property
    def _host(self) -> str:
        """The host of a prefix that has a path."""
        scheme, _, rest = self.prefix.partition("://")
        return f"{scheme}://{rest[: rest.index('/')]}" if "/" in rest else ""

    @property
    def _shard(self) -> int:
        return self.keys.shard(self._host)

    def _next_shard(self, place: _Place) -> _Place | None:
        if not self._host and place.shard + 1 < self.keys.shards:
            return _Place(place.part, place.shard + 1)
        if place.part + 1 == len(PARTS):
            return None
        return _Place(place.part + 1, self._shard if self._host else 0)

    async def _by_host(self, place: _Place) -> tuple[list[EngineURL], _Place | None, int]:
        """Reads URLs of some hosts behind a place; also returns the next place, and how many the store has."""
        cursor, hosts = await self._hosts(place)
        some = hosts[:_HOSTS_AT_ONCE]
        read = self._leased if PARTS[place.part] == "leased" else self._queued
        found: list[EngineURL] = []
        stored = 0
        for host, urls, more in await read(place, some):
            found += urls
            skip = place.skip if host == place.host else 0
            if more < 0:
                return found, replace(place, host=host, skip=skip + -more), stored
            stored += more
            if len(found) >= _READ:
                # behind this host: a space sorts before all that a longer name has there
                return found, replace(place, host=f"{host} ", skip=0), stored
        if len(some) < len(hosts):
            return found, replace(place, host=hosts[len(some)], skip=0), stored
        return (
            found,
            replace(place, cursor=cursor, host="", skip=0) if cursor else self._next_shard(place),
            stored,
        )

    async def _hosts(self, place: _Place) -> tuple[int, list[str]]:
        """The hosts at a place, sorted, and the cursor behind them; 0 at the end of the shard."""
        if self._host:
            return 0, [self._host] if self._host >= place.host else []
        key = self.keys.queue(place.shard)[0] + _KEYS[PARTS[place.part]]
        scan: Any = self.engine.client.hscan if PARTS[place.part] == "queued" else self.engine.client.zscan
        cursor, found = await scan(key, cursor=place.cursor, count=BATCH if self.prefix else _READ)
        names = (
            (host_of(one) for one in found) if PARTS[place.part] == "queued" else (one for one, _ in found)
        )
        hosts = sorted(name.decode() for name in names)
        wanted = [one for one in hosts if one >= place.host and f"{one}/".startswith(self.prefix)]
        return int(cursor), wanted

    async def _leased(self, place: _Place, hosts: Sequence[str]) -> list[tuple[str, list[EngineURL], int]]:
        prefix = self.keys.queue(place.shard)[0]
        leases = await self.engine.hashes(f"{prefix}lease:{host}" for host in hosts)
        return [
            (
                host,
                [
                    engine_url("leased", host.encode(), lease[index])
                    for index in sorted(lease)
                    if index.isdigit()
                ],
                0,
            )
            for host, lease in zip(hosts, leases, strict=True)
        ]

    async def _queued(self, place: _Place, hosts: Sequence[str]) -> list[tuple[str, list[EngineURL], int]]:
        """Host, URLs, and how many are in the store; or minus the entries that were read if its lists have more."""
        keys = self.keys.queue(place.shard)
        calls = [
            script_call(
                "queued_urls",
                keys,
                host=host,
                skip=place.skip if host == place.host else 0,
                most=_READ,
            )
            for host in hosts
        ]
        return [
            (
                host,
                [engine_url("queued", host.encode(), entry) for entry in reply.entries],
                -int(reply.read) if reply.more else int(reply.stored),
            )
            for host, reply in zip(hosts, await self.engine.run_all(calls), strict=True)
        ]

    async def _by_date(self, place: _Place) -> tuple[list[EngineURL], _Place | None, int]:
        """Reads URLs that are queued again at a time, by the order of these."""
        state = PARTS[place.part]
        key = self.keys.queue(place.shard)[0] + _KEYS[state]
        members = await self.engine.client.zrange(key, place.cursor, place.cursor + BATCH - 1)
        found: list[EngineURL] = []
        for number, member in enumerate(members, 1):
            head, _, entry = member.partition(b"\n")
            if (host := head.partition(b" ")[2]).decode().startswith(self._host or self.prefix):
                found.append(engine_url(state, host, entry))
            if len(found) == _READ:
                return found, replace(place, cursor=place.cursor + number), 0
        if len(members) == BATCH:
            return found, replace(place, cursor=place.cursor + BATCH), 0
        return found, self._next_shard(place), 0
