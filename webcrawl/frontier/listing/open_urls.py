"""The URLs of a crawl that will be fetched, read window by window beside its workers. A window takes bounded work.

URLs come in the engine's order: leased, queued, waiting for another attempt, with a date. A URL that moves meanwhile
may be missing, or come twice. The part of a long queue in the store is counted, but not read.
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
"""The most URLs that one step reads."""
_MOST_STEPS = 50
_HOSTS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Window:
    """URLs of a window. `after`: the begin of the next window; empty after the last window.

    `stored`: the number of further URLs that its hosts have in the store.
    """

    urls: list[EngineURL]
    after: str
    stored: int


@dataclass(frozen=True, slots=True)
class _Position:
    """The begin of a window: a part, a shard, and a cursor or number in it.

    Parts that are read by host also have the first host, and the number of its URLs to skip.
    """

    part: int = 0
    shard: int = 0
    cursor: int = 0
    skip: int = 0
    host: str = ""

    @classmethod
    def parse(cls, text: str, shards: int) -> _Position:
        if not text:
            return cls()
        *numbers, host = text.split(".", 4)
        if len(numbers) != 4 or not all(
            number.isascii() and number.isdigit() and len(number) < 21 for number in numbers
        ):
            raise StoreError(f"{text!r} is no place in a queue: begin at its first page")
        part, shard, cursor, skip = map(int, numbers)
        position = cls(part, shard, cursor, skip, host)
        if (
            position.part >= len(PARTS)
            or position.shard >= shards
            or max(position.cursor, position.skip) >= 1 << 64
        ):
            raise StoreError(f"{text!r} is no place in a queue: begin at its first page")
        return position

    def __str__(self) -> str:
        return f"{self.part}.{self.shard}.{self.cursor}.{self.skip}.{self.host}"


@dataclass(slots=True)
class OpenURLs:
    """Reads the URLs in `parts` that begin with a prefix. If the prefix has a path, only its host is read."""

    engine: Engine
    keys: Keys
    prefix: str = ""
    parts: Sequence[str] = PARTS

    async def window(self, after: str = "", most: int = _READ) -> Window:
        """Returns the next URLs, about `most`; fewer if a limited number of steps finds no more.

        Raises StoreError for an `after` that no window had.
        """
        position: _Position | None = _Position.parse(after, self.keys.shards)
        window: list[EngineURL] = []
        stored = 0
        for _ in range(_MOST_STEPS):
            if position is None or len(window) >= most:
                break
            if self._host and position.shard != self._shard:
                position = _Position(position.part, self._shard)
            if PARTS[position.part] not in self.parts:
                position = self._next_shard(position)
                continue
            read = self._by_host if PARTS[position.part] in ("leased", "queued") else self._by_date
            urls, position, more = await read(position)
            window += [url for url in urls if url.url.startswith(self.prefix)]
            stored += more
        return Window(window, str(position or ""), stored)

    @property
    def _host(self) -> str:
        """The host of a prefix that has a path."""
        scheme, _, rest = self.prefix.partition("://")
        return f"{scheme}://{rest[: rest.index('/')]}" if "/" in rest else ""

    @property
    def _shard(self) -> int:
        return self.keys.shard(self._host)

    def _next_shard(self, position: _Position) -> _Position | None:
        if not self._host and position.shard + 1 < self.keys.shards:
            return _Position(position.part, position.shard + 1)
        if position.part + 1 == len(PARTS):
            return None
        return _Position(position.part + 1, self._shard if self._host else 0)

    async def _by_host(self, position: _Position) -> tuple[list[EngineURL], _Position | None, int]:
        """Reads URLs of some hosts; also returns the next position, and the number of their URLs in the store."""
        cursor, hosts = await self._hosts(position)
        some = hosts[:_HOSTS_AT_ONCE]
        read = self._leased if PARTS[position.part] == "leased" else self._queued
        urls: list[EngineURL] = []
        stored = 0
        for host, urls_of_host, more in await read(position, some):
            urls += urls_of_host
            skip = position.skip if host == position.host else 0
            if more < 0:
                return urls, replace(position, host=host, skip=skip + -more), stored
            stored += more
            if len(urls) >= _READ:
                # after this host: a space sorts before any character that a longer name has there
                return urls, replace(position, host=f"{host} ", skip=0), stored
        if len(some) < len(hosts):
            return urls, replace(position, host=hosts[len(some)], skip=0), stored
        return (
            urls,
            replace(position, cursor=cursor, host="", skip=0) if cursor else self._next_shard(position),
            stored,
        )

    async def _hosts(self, position: _Position) -> tuple[int, list[str]]:
        """Returns the cursor after the hosts at a position, 0 at the end of the shard, and these hosts, sorted."""
        if self._host:
            return 0, [self._host] if self._host >= position.host else []
        key = self.keys.queue(position.shard)[0] + _KEYS[PARTS[position.part]]
        scan: Any = self.engine.client.hscan if PARTS[position.part] == "queued" else self.engine.client.zscan
        cursor, members = await scan(key, cursor=position.cursor, count=BATCH if self.prefix else _READ)
        if PARTS[position.part] == "queued":
            hosts = sorted(host_of(name).decode() for name in members)
        else:
            hosts = sorted(host.decode() for host, _ in members)
        return int(cursor), [
            host for host in hosts if host >= position.host and f"{host}/".startswith(self.prefix)
        ]

    async def _leased(
        self, position: _Position, hosts: Sequence[str]
    ) -> list[tuple[str, list[EngineURL], int]]:
        prefix = self.keys.queue(position.shard)[0]
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

    async def _queued(
        self, position: _Position, hosts: Sequence[str]
    ) -> list[tuple[str, list[EngineURL], int]]:
        """Returns for each host its URLs, and the number of its URLs in the store.

        If its lists have more entries, the number is instead minus the number of entries that were read.
        """
        keys = self.keys.queue(position.shard)
        calls = [
            script_call(
                "queued_urls", keys, host=host, skip=position.skip if host == position.host else 0, most=_READ
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

    async def _by_date(self, position: _Position) -> tuple[list[EngineURL], _Position | None, int]:
        """Reads URLs that will be queued again at a known time, in the order of these times."""
        state = PARTS[position.part]
        key = self.keys.queue(position.shard)[0] + _KEYS[state]
        members = await self.engine.client.zrange(key, position.cursor, position.cursor + BATCH - 1)
        urls: list[EngineURL] = []
        for number, member in enumerate(members, 1):
            head, _, entry = member.partition(b"\n")
            if (host := head.partition(b" ")[2]).decode().startswith(self._host or self.prefix):
                urls.append(engine_url(state, host, entry))
            if len(urls) == _READ:
                return urls, replace(position, cursor=position.cursor + number), 0
        if len(members) == BATCH:
            return urls, replace(position, cursor=position.cursor + BATCH), 0
        return urls, self._next_shard(position), 0
