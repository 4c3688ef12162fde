"""Copies a crawl while its workers go on; webcrawl.frontier.checkpoint.restore restores the copy.

The copy shows the crawl at the time when `Exporter.begin` returned: it contains every URL that was added and not
settled, and no settled URL. It may contain URLs that were found later. Pages that were fetched later are fetched again.
This works because:

- After `begin`, the scripts write every entry that leaves a queue, a lease, a sorted set or the dead letters to a
  journal of its shard. The journals of all shards begin before the first shard is read.
- An entry that stays is found where it is: a scan returns everything that stays from its begin to its end, and
  long queues are read against the direction in which entries leave. An entry that leaves is in the journal, which is
  read last. So the order of reading matters only for the seen set and the credit.
- This includes queues that continue in the store. Moves between the hot list, the outbox and the store are in the
  journal, except moves from the outbox to the store. A queue is read in one step: entries that moved before this step
  are found in the store, entries that move later were found in the outbox. Condemned parts move from the queue to a
  list that is read later, and from there by the journal to the dead letters. For queues that are too long for one
  step, see webcrawl.frontier.checkpoint.queue_copy.
- Records of idle hosts that are in the store are read after those in the engine. None moves to the store meanwhile.
- A URL that is added while the seen set is read may be in the copy as seen. The copy must then have it as queued too,
  so queues are read after the seen set. Its buckets are read in ascending order, because a split moves marks only up,
  and those in the store last, because marks move there and no mark leaves them.
- The credit of a URL says whether an entry was queued again at a better level and will be passed over. So credit is
  read before the queues: the better entry is in a queue or in the journal.
- A page settled after `begin` is in the journal and fetched again, so it does not matter whether the copies of other
  shards contain the links of the page.

A restore queues each entry of the journal once, even if the copy has the entry elsewhere too.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, host_of
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.hold import HOLD_SECONDS, hold
from webcrawl.frontier.checkpoint.queue_copy import QueueCopy
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.tails import Tails

if TYPE_CHECKING:
    from webcrawl.stores.due_pages import DuePages  # SQLAlchemy is slow to import

Record = list[Any]
"""A kind and its values: lists, bytes, texts and integers; see Exporter."""

HASHES = ("limits", "spent", "parked", "patterns", "dust", "dust_off", "over", "budgets", "trust")
"""Hashes of a shard with facts about hosts, names and domains."""
WAITING = ("later", "scheduled")
ANSWERS = "unknown"
"""The hash of a shard with what hosts answer to paths that cannot exist."""

_BUCKETS_AT_ONCE = 64
_HOSTS_AT_ONCE = 200


@dataclass(slots=True)
class Exporter:
    """Reads a crawl. `name` identifies this checkpoint, `batch` is about the number of entries read at once.

    Methods may raise connection errors of redis-py. The checkpoint is void then, because the engine may have lost its
    latest writes. The records of a shard, in this order:

        [name of a hash, [host, value, host, value...]]
        ["dead", [[URL, its letters], ...]]
        ["dropped", [URL, ms, URL, ms...]]
        ["later" or "scheduled", [[due ms, member], ...]]
        ["credit", number of shards, shard, [field, value, field, value...]]
        ["seen", marks as little-endian int64]
        ["queue", [[host, [entry, ...]], ...]]      a host may occur again, with later entries of a level
        ["bury", host, reason, [entry, ...]]        dead letters that are not in the hash yet
        ["leased", [[host, [entry, ...]], ...]]     leased entries, in the order in which they were handed out
        ["moved", [host LF entry, ...]]             the journal
    """

    engine: Engine
    keys: Keys
    name: str
    tails: Tails
    batch: int = BATCH
    due_pages: DuePages | None = None
    """The plan of a crawl with RECRAWL."""
    lost: int = 0
    """The number of URLs in damaged or missing parts of the store, which no worker can read either."""
    _servers: list[str] = field(default_factory=list)
    _ahead: list[int] = field(default_factory=list)
    """Milliseconds by which the times of each shard are ahead of its server's clock. A checkpoint has clock times."""

    async def begin(self) -> None:
        """Begins the journals of all shards; raises StoreError while another checkpoint of the crawl is written."""
        self._servers = await self.engine.servers()
        clocks = await self._pipelined("get", [self.keys.clock(shard) for shard in range(self.keys.shards)])
        self._ahead = [int(clock.split()[1]) if clock else 0 for clock in clocks]
        holders = await self._hold("begin", range(self.keys.shards))
        for holder in holders:
            if holder != self.name:
                await self._hold("end", range(self.keys.shards))
                raise StoreError(
                    f"crawl {self.keys.crawl!r} is already being copied ({holder}): wait for that; "
                    f"if it was killed, wait {HOLD_SECONDS:.0f} seconds"
                )

    async def renew(self) -> None:
        """Keeps the journals; must be called more often than every HOLD_SECONDS."""
        await self._hold("renew", range(self.keys.shards))

    async def end(self, shards: Sequence[int] | None = None) -> None:
        """Ends the journals of shards, by default of all; raises StoreError if a journal was not kept continuously."""
        chosen = range(self.keys.shards) if shards is None else shards
        holders = await self._hold("end", chosen)
        if shards is not None and any(holder != self.name for holder in holders):
            raise StoreError(
                "the checkpoint was not renewed in time, or the crawl was cleared: run scrapy checkpoint again"
            )
        if await self.engine.servers() != self._servers:
            raise StoreError(
                "a server of the engine was started or replaced meanwhile: run scrapy checkpoint again"
            )

    async def crawl(self) -> AsyncIterator[Record]:
        """Yields the records of the crawl as a whole, of hosts and of duplicates:

        ["counters", {name: number}], ["info" | "totals", {name: value}], ["set", "seeds" | "scope", [member, ...]],
        ["seed_addresses", {seed: addresses}],
        ["met", HyperLogLog], ["hosts", [[host, {field: value}], ...]], ["sums", [[checksum, value], ...]],
        ["texts", [[id of a URL, its SimHash and the URL], ...]], ["like", [[block in hexadecimal, its texts], ...]],
        ["outdated", [hash of a URL, ...]], ["runs", list of the sealed runs]
        """
        client = self.engine.client
        yield ["counters", await self._counters()]
        for name in ("info", "totals"):
            yield [name, await client.hgetall(self.keys.own(name))]
        for name in ("seeds", "scope"):
            async for members in self._scan(client.sscan, self.keys.own(name)):
                yield ["set", name, members]
        async for addresses in self._scan(client.hscan, self.keys.own("seed_addresses")):
            yield ["seed_addresses", addresses]
        yield ["met", await client.get(self.keys.own("hosts")) or b""]
        async for names, hashes in self._hashes(f"wc:{{s*}}{self._record_part}*"):
            yield [
                "hosts",
                [self._host_record(name, fields) for name, fields in zip(names, hashes, strict=True)],
            ]
        async for _, hashes in self._hashes(f"wc:{{s*}}:c:{self.keys.crawl}:sum:*"):
            yield ["sums", [[digest, first] for bucket in hashes for digest, first in bucket.items()]]
        async for _, hashes in self._hashes(f"wc:{{s*}}:c:{self.keys.crawl}:text:*"):
            yield ["texts", [[url_id, text] for bucket in hashes for url_id, text in bucket.items()]]
        async for names, texts in self._values("get", f"wc:{{s*}}:c:{self.keys.crawl}:like:*"):
            blocks = [name.rsplit(b":", 1)[1] for name in names]
            yield ["like", [[block, content or b""] for block, content in zip(blocks, texts, strict=True)]]
        # last, because what leaves the engine meanwhile is in the list before
        async for members in self._scan(client.sscan, self.keys.own("outdated")):
            yield ["outdated", members]
        if runs := await client.get(self.keys.own("runs")):
            yield ["runs", runs]

    async def plan(self) -> AsyncIterator[Record]:
        """Yields the records of known pages that are to be fetched again, by URL.

        ["plan", [[URL, depth, referrer, class of its next fetch, its stored request in Base64], ...]]

        Must be read after `begin`, so that it has all pages that were settled before.
        """
        after: str | None = "" if self.due_pages else None
        while self.due_pages and after is not None:
            pages, after = await asyncio.to_thread(self.due_pages.look, after, self.batch)
            yield ["plan", [[*page[:3], page.fetch_class, page.recrawl_request] for page in pages]]

    async def shard(self, shard: int) -> AsyncIterator[Record]:
        """Yields the records of one shard, and ends its journal after the last record."""
        client, prefix = self.engine.client, self.keys.queue(shard)[0]
        for name in (*HASHES, ANSWERS):
            async for fields in self._scan(client.hscan, prefix + name):
                yield [name, flat(fields)]
        # after those in the engine, which they replace: no host moves to the store meanwhile, but some come back
        async for record in self._cold_hosts(shard):
            yield record
        async for fields in self._scan(client.hscan, prefix + "dead"):
            yield ["dead", [[url, letters] for url, letters in fields.items()]]
        async for fields in self._scan(client.hscan, prefix + "dropped"):
            yield ["dropped", flat(fields)]
        for name in WAITING:
            async for members in self._scan(client.zscan, prefix + name):
                yield [name, [[int(due) - self._ahead[shard], member] for member, due in members]]
        async for record in self._credit(shard, prefix):
            yield record
        async for record in self._seen(shard, prefix):
            yield record
        async for record in self._queues(shard, prefix):
            yield record
        known: set[bytes] = set()
        async for members in self._scan(client.zscan, prefix + "leases"):
            yield ["leased", await self._leases(prefix, _new(dict(members), known))]
        async for record in self._journal(prefix):
            yield record
        await self.end([shard])

    @property
    def _record_part(self) -> str:
        """The part of keys that marks politeness records: ":name:" or ":host:"."""
        return self.keys.queue(0)[1].removeprefix("wc:{s0}")

    def _host_record(self, key: bytes, fields: dict[bytes, bytes]) -> list[Any]:
        """Returns the record of a host, without the fields that coordinate running crawls."""
        host = key.split(self._record_part.encode(), 1)[1]
        record = {
            name: value for name, value in fields.items() if name not in (b"held", b"holder", b"shares")
        }
        for name in record:
            if name == b"until" or name.startswith(b"forgiven"):
                record[name] = b"%d" % (int(record[name]) - self._ahead[self.keys.shard(host.decode())])
        return [host, record]

    async def _cold_hosts(self, shard: int) -> AsyncIterator[Record]:
        async for hosts in ColdHosts(self.tails).all_records(shard):
            for name in (*HASHES, ANSWERS):
                known = {host.encode(): facts[name] for host, facts in hosts.items() if name in facts}
                if known:
                    yield [name, flat(known)]

    async def _seen(self, shard: int, prefix: str) -> AsyncIterator[Record]:
        async for sets in self._buckets("smembers", prefix + "n", prefix + "seen:"):
            marks = [int(mark) for bucket in sets for mark in bucket]
            yield ["seen", struct.pack(f"<{len(marks)}q", *marks)]
        async for stored in ColdSeen(self.tails).all_marks(shard):
            yield ["seen", stored.astype("<i8").tobytes()]

    async def _credit(self, shard: int, prefix: str) -> AsyncIterator[Record]:
        async for hashes in self._buckets("hgetall", prefix + "credit", prefix + "credit:"):
            pairs = [part for bucket in hashes for part in flat(bucket)]
            yield ["credit", self.keys.shards, shard, pairs]

    async def _buckets(self, command: str, size: str, name: str) -> AsyncIterator[list[Any]]:
        """Yields the buckets of linear hashing, whose number follows from the hash `size`."""
        bucket, buckets = 0, 1
        while True:
            bits, split = await self.engine.client.hmget(size, "bits", "split")
            buckets = 2 ** int(bits or 0) + int(split or 0)
            if bucket >= buckets:
                return
            chosen = range(bucket, min(bucket + _BUCKETS_AT_ONCE, buckets))
            yield await self._pipelined(command, [f"{name}{number}" for number in chosen])
            bucket = chosen.stop

    async def _queues(self, shard: int, prefix: str) -> AsyncIterator[Record]:
        known: set[bytes] = set()
        queues = QueueCopy(self.engine, self.keys, self.tails, shard, self.batch)
        async for names in self._scan(self.engine.client.hscan, prefix + "queued"):
            async for batch in queues.hosts([host_of(name) for name in _new(names, known)]):
                yield ["queue", batch]
        async for condemned in queues.condemned():
            yield ["bury", *condemned]
        self.lost += queues.lost

    async def _leases(self, prefix: str, hosts: list[bytes]) -> list[list[Any]]:
        queues = []
        leases = await self._pipelined("hgetall", [prefix.encode() + b"lease:" + host for host in hosts])
        for host, lease in zip(hosts, leases, strict=True):
            entries = {int(index): entry for index, entry in lease.items() if index.isdigit()}
            queues.append([host, [entries[index] for index in sorted(entries)]])
        return queues

    async def _journal(self, prefix: str) -> AsyncIterator[Record]:
        # entries that are written later were copied from their lists, so a busy crawl cannot delay the end
        length = await self.engine.client.llen(prefix + "moved")
        for start in range(0, length, self.batch):
            end = min(start + self.batch, length) - 1
            yield ["moved", await self.engine.client.lrange(prefix + "moved", start, end)]

    async def _counters(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        for shard in range(self.keys.shards):
            for name, value in (await self.engine.client.hgetall(self.keys.counters(shard))).items():
                totals[name.decode()] = totals.get(name.decode(), 0) + int(value)
        return totals

    def _hashes(self, pattern: str) -> AsyncIterator[tuple[list[bytes], list[dict[bytes, bytes]]]]:
        return self._values("hgetall", pattern)

    async def _values(self, command: str, pattern: str) -> AsyncIterator[tuple[list[bytes], list[Any]]]:
        """Yields the keys that match a pattern, and their values, in batches."""
        names: list[bytes] = []
        async for name in self.engine.client.scan_iter(match=pattern, count=BATCH):
            names.append(name)
            if len(names) >= _HOSTS_AT_ONCE:
                yield names, await self._pipelined(command, names)
                names = []
        yield names, await self._pipelined(command, names)

    async def _scan(self, command: Callable[..., Awaitable[Any]], key: str) -> AsyncIterator[Any]:
        """Yields the members of a large key, in batches."""
        cursor = 0
        while True:
            cursor, members = await command(key, cursor=cursor, count=self.batch)
            if members:
                yield members
            if not cursor:
                return

    async def _pipelined(self, command: str, keys: Sequence[str | bytes]) -> list[Any]:
        pipeline = self.engine.client.pipeline(transaction=False)
        for key in keys:
            getattr(pipeline, command)(key)
        return list(await pipeline.execute()) if keys else []

    async def _hold(self, step: str, shards: Sequence[int]) -> list[str]:
        return await hold(self.engine, self.keys, step, self.name, shards)


def flat(fields: dict[bytes, bytes]) -> list[bytes]:
    """Returns names and values alternately."""
    return [part for pair in fields.items() for part in pair]


def _new(names: Iterable[bytes], known: set[bytes]) -> list[bytes]:
    """Returns the names that are not in `known`, and adds them to it, because a scan may return a name twice."""
    news = [name for name in names if name not in known]
    known.update(news)
    return news
