"""A table of the hosts of a crawl, read window by window. A window takes bounded work, however many hosts there are.

The lists of hosts in the engine have no useful order, so rows are sorted only within a window. The exceptions are the
costliest hosts and the hosts that wait longest, which the engine keeps in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from webcrawl.engine.keys import failures_field, host_of
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.frontier.crawl import Crawl
from webcrawl.frontier.entry import LEVELS
from webcrawl.frontier.operations import BATCH
from webcrawl.hosts.costs import Cost

LISTS: Mapping[str, str] = {
    "queued": "hosts with queued URLs",
    "fetched": "hosts that have sent pages, without idle ones whose records are in the store",
    "leased": "hosts that a worker fetches from now",
    "retrying": "hosts with URLs that wait for another try",
    "failing": "hosts that had errors, without idle ones whose records are in the store",
    "held": "hosts that are blocked, or at their limit of pages or bytes",
    "limited": "hosts with limits of their own",
    "long": "hosts with long queues, which go on in the store",
    "waiting": "the hosts that wait longest for their next request",
    "costliest": "the hosts that cost most",
}
"""The lists of hosts that can be read, and their descriptions."""

WINDOW = 1_000
"""The usual number of rows of a window."""
MOST_WAITING = 100
"""The most rows of the list of waiting hosts."""
_MOST_READ = 20_000
_MOST_CALLS = 100
_HASHES = {
    "queued": "queued",
    "fetched": "spent",
    "failing": "errors",
    "held": "parked",
    "limited": "limits",
    "long": "tails",
}
_SORTED_SETS = {"leased": "leases", "retrying": "later"}


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in the table; times are in seconds.

    queued    URLs in its queue     leased  a worker has it       held     "blocked", "budget" or None
    waits     time until the host may be asked again: its delay, a back-off or a Retry-After
    failures  in a row              delay   set by an operator    gap      between requests of the last worker
    asked     the host itself asked for `waits`, by Retry-After
    cost      its costs; zero if it is not among the costliest
    errors    answers with a status from 400 on, and attempts without an answer
    """

    host: str
    queued: int
    leased: bool
    held: str | None
    pages: int
    bytes: int
    waits: float
    failures: int
    delay: float | None
    gap: float
    asked: bool
    cost: Cost
    errors: int = 0


@dataclass(frozen=True, slots=True)
class HostWindow:
    """The rows of a window in the engine's order. `after`: the begin of the next window; empty after the last window.

    `read`: the number of hosts of the list that were read.
    """

    rows: list[HostRow]
    read: int
    after: str


@dataclass(frozen=True, slots=True)
class _Position:
    """The begin of a window: a shard, and the cursor in it."""

    shard: int = 0
    cursor: int = 0

    @classmethod
    def parse(cls, text: str, shards: int) -> _Position:
        parts = text.split(".")
        if not text:
            return cls()
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise StoreError(f"{text!r} is no place in a list of hosts: begin at its first page")
        position = cls(*map(int, parts))
        if position.shard >= shards or position.cursor >= 1 << 64:
            raise StoreError(f"{text!r} is no place in a list of hosts: begin at its first page")
        return position

    def __str__(self) -> str:
        return f"{self.shard}.{self.cursor}"


@dataclass(frozen=True, slots=True)
class HostTable:
    """The hosts of one crawl. A host that is added or removed meanwhile may be missing, or appear twice."""

    crawl: Crawl
    cold_hosts: ColdHosts | None = None
    """The records in the store, which no list has; `rows` reads them."""

    async def window(
        self, name: str = "queued", after: str = "", text: str = "", most: int = WINDOW
    ) -> HostWindow:
        """Returns the next hosts of a list of LISTS whose URL contains a text; about `most`, or fewer.

        Reads at most 20,000 hosts; if none has the text, another call with `after` continues the search. Raises
        StoreError for another list, and for an `after` that no window had.
        """
        if name not in LISTS:
            raise StoreError(f"{name!r} is no list of hosts: choose one of {', '.join(LISTS)}")
        position: _Position | None = _Position.parse(after, self.crawl.keys.shards)
        hosts: dict[str, None] = {}
        read = calls = 0
        while position and len(hosts) < most and read < _MOST_READ and calls < _MOST_CALLS:
            piece, position = await self._piece(name, position, min(most, BATCH))
            read, calls = read + len(piece), calls + 1
            hosts |= dict.fromkeys(host for host in piece if text.lower() in host.lower())
        return HostWindow(await self.rows(list(hosts)), read, str(position or ""))

    async def rows(self, hosts: Sequence[str]) -> list[HostRow]:
        """Returns the rows of these hosts, known or not, in their order."""
        by_shard = self.crawl.keys.by_shard(hosts, str)
        costs = dict(zip(hosts, await self.crawl.costs.of(*hosts), strict=True))
        rows: dict[str, HostRow] = {}
        for shard, some in by_shard.items():
            for start in range(0, len(some), BATCH):
                for row in await self._rows_of(shard, some[start : start + BATCH], costs):
                    rows[row.host] = row
        return [rows[host] for host in hosts]

    async def _piece(self, name: str, position: _Position, count: int) -> tuple[list[str], _Position | None]:
        """Reads hosts from a position on; also returns the position after them, None at the end."""
        client = self.crawl.engine.client
        if name == "costliest":
            return await self._costliest(position.cursor, count)
        if name == "waiting":
            return await self.waiting(MOST_WAITING), None
        prefix = self.crawl.keys.queue(position.shard)[0]
        hosts: list[str]
        if name in _HASHES:
            key = prefix + _HASHES[name]
            cursor, fields = await client.hscan(key, cursor=position.cursor, count=count)
            hosts = [_host_of_field(name, field).decode() for field in fields]
        else:
            cursor, members = await client.zscan(
                prefix + _SORTED_SETS[name], cursor=position.cursor, count=count
            )
            hosts = [
                _host_of_member(member) if name == "retrying" else member.decode() for member, _ in members
            ]
        if cursor:
            return hosts, _Position(position.shard, cursor)
        return hosts, _Position(position.shard + 1) if position.shard + 1 < self.crawl.keys.shards else None

    async def _costliest(self, start: int, count: int) -> tuple[list[str], _Position | None]:
        key = self.crawl.keys.own("costliest")
        names = await self.crawl.engine.client.zrevrange(key, start, start + count - 1)
        hosts = [name.decode() for name in names if b"://" in name]
        return hosts, _Position(0, start + count) if len(names) == count else None

    async def waiting(self, most: int) -> list[str]:
        """Returns the hosts with queued URLs and without a lease that wait longest, in order over the whole crawl."""
        client, keys = self.crawl.engine.client, self.crawl.keys
        prefixes = [keys.queue(shard)[0] for shard in range(keys.shards)]
        times = await self.crawl.engine.run_all([script_call("time", [prefix]) for prefix in prefixes])
        pipe = client.pipeline(transaction=False)
        for prefix, now in zip(prefixes, times, strict=True):
            for level in range(LEVELS):
                pipe.zrevrangebyscore(f"{prefix}ready:{level}", "+inf", f"({now}", 0, most, withscores=True)
        names = [member for members in await pipe.execute() for member in members]
        longest = nlargest(most, names, key=lambda member: member[1])
        return [host_of(name).decode() for name, _ in longest]

    async def _rows_of(self, shard: int, hosts: Sequence[str], costs: Mapping[str, Cost]) -> list[HostRow]:
        engine, keys = self.crawl.engine, self.crawl.keys
        prefix = keys.queue(shard)[0]
        lengths, now = await engine.run_all(
            [script_call("lengths", keys.queue(shard), hosts=hosts), script_call("time", [prefix])]
        )
        leases = await engine.client.zmscore(prefix + "leases", hosts)
        spent, held, errors = [
            await engine.client.hmget(prefix + name, hosts) for name in ("spent", "parked", "errors")
        ]
        records = await engine.hashes(keys.host(host) for host in hosts)
        away = [host for host, here in zip(hosts, spent, strict=True) if not here]
        cold = await self.cold_hosts.read(away) if self.cold_hosts and away else {}
        rows = []
        for index, (host, record) in enumerate(zip(hosts, records, strict=True)):
            facts = cold.get(host, {})
            pages, size = (int(part) for part in (spent[index] or facts.get("spent", b"0 0")).split())
            rows.append(
                HostRow(
                    host,
                    lengths[index],
                    leases[index] is not None,
                    held[index].decode() if held[index] else None,
                    pages,
                    size,
                    cost=costs[host],
                    errors=int(errors[index] or facts.get("errors", 0)),
                    **_politeness(record, failures_field(keys, host), now),
                )
            )
        return rows


def _politeness(record: Mapping[bytes, bytes], failures: str, now: int) -> dict[str, Any]:
    """Reads the politeness record of a host."""
    return {
        "waits": max(0, int(record.get(b"until", 0)) - now) / 1000,
        "failures": int(record.get(failures.encode(), 0)),
        "delay": int(record[b"delay"]) / 1000 if b"delay" in record else None,
        "gap": int(record.get(b"gap", 0)) / 1000,
        "asked": b"asked" in record,
    }


def _host_of_field(name: str, field: bytes) -> bytes:
    """Returns the host in a field of the hash of a list; "long" has a field for each queue of a host."""
    if name == "long":
        return field.rpartition(b" ")[0]
    return host_of(field) if name == "queued" else field


def _host_of_member(member: bytes) -> str:
    return member.partition(b"\n")[0].partition(b" ")[2].decode()
