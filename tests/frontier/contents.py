"""Reads the keys of a crawl directly, without the frontier's code, and checks their consistency."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
from redis import Redis

from webcrawl.engine.keys import Keys
from webcrawl.frontier import LEVELS
from webcrawl.frontier.cold_bucket import unpack_marks
from webcrawl.frontier.entry import without_time
from webcrawl.frontier.segments import QueuePart

HASHES = (
    b"queued",
    b"dead",
    b"dropped",
    b"n",
    b"parked",
    b"limits",
    b"spent",
    b"errors",
    b"overtaken",
    b"patterns",
    b"dust",
    b"dust_off",
    b"conf",
    b"tails",
    b"segments",
    b"behind",
    b"planning",
)
SUNK = (b"lowest", b"surfaced", b"sunk", b"waiting", b"slots", b"wide_slots")
"""Structures of hosts at the lowest level; see test_sunk_machine.py."""

Row = tuple[str, int, bool, int, int, int]
"""Path, level, whether it was given a date, attempts, returns, blames."""


@dataclass
class Contents:
    """The structures of all shards, by host. `read` fails if they contradict each other."""

    queues: dict[str, list[Row]]
    leases: dict[str, dict[int, Row]]
    later: dict[int, int]
    """Shard -> number of URLs that wait for a retry."""
    scheduled: dict[int, int]
    """Shard -> number of URLs that wait for a date."""
    parked: dict[str, str]
    spent: dict[str, str]
    seen: int
    dead: list[tuple[str, str]]
    """URL and reason."""
    counters: dict[str, int]
    store: Path | None = None
    """The folder of the crawl's segments, with one folder for each shard."""
    waiting: set[str] = field(default_factory=set)
    """Hosts whose next URLs are in the store."""
    listed: dict[str, set[int]] = field(default_factory=dict)
    """Host -> the levels at which it is in a list of due hosts; entries may be stale."""
    longest: int = 0
    """The largest number of URLs of one host and level in the engine."""

    @classmethod
    def read(cls, valkey: Redis, keys: Keys, root: Path | None = None) -> Contents:
        """Read and check a whole crawl; its segments are below `root`."""
        folder = valkey.hget(keys.own("info"), "tails")
        store = root / folder.decode() if root and folder else None
        found = cls({}, {}, {}, {}, {}, {}, 0, [], {}, store)
        for shard in range(keys.shards):
            found._read_shard(valkey, keys, shard)
        return found

    def _read_shard(self, valkey: Redis, keys: Keys, shard: int) -> None:
        prefix = keys.queue(shard)[0].encode()
        names = [name.removeprefix(prefix) for name in valkey.keys(glob(prefix) + b"*")]
        names = [
            name
            for name in names
            if not name.startswith((b"turn", b"given:", b"credit", b"records:cold", b"batch:"))
            and name not in SUNK
        ]
        assert valkey.smembers(prefix + b"lowest") <= set(valkey.zrange(prefix + b"leases", 0, -1))
        pipe = valkey.pipeline(transaction=False)
        for name in names:
            key = prefix + name
            if name.startswith((b"q:", b"out:", b"tail:", b"due:", b"new:")) or name == b"condemned":
                pipe.lrange(key, 0, -1)
            elif name.startswith(b"lease:") or name in HASHES:
                pipe.hgetall(key)
            elif name in (b"hungry", b"waking"):
                pipe.smembers(key)
            elif name.startswith(b"seen:cold:"):
                pipe.get(key)
            elif name.startswith(b"seen:") and name != b"seen:cold":
                pipe.smembers(key)
            else:
                pipe.zrange(key, 0, -1)
        values = dict(zip(names, pipe.execute(), strict=True))
        self._read_queues(values, shard)
        for letter in values.get(b"condemned", []):
            host, reason, part, _ = msgpack.unpackb(letter, raw=True)
            urls = (host.decode() + row(entry)[0] for entry in self.part(shard, part.split()))
            self.dead += [(url, reason.decode()) for url in urls]
        self._check_tails(values)
        self.parked |= {host.decode(): why.decode() for host, why in values.get(b"parked", {}).items()}
        self.spent |= {host.decode(): much.decode() for host, much in values.get(b"spent", {}).items()}
        leased = set()
        for name, value in values.items():
            if name.startswith(b"lease:"):
                host = name.removeprefix(b"lease:").decode()
                leased.add(host)
                self.leases[host] = {int(i): row(entry) for i, entry in value.items() if i.isdigit()}
        assert leased == {host.decode() for host in values.get(b"leases", [])}, "leases without an expiry"
        self._check_ready(values, leased, keys, shard)
        self.later[shard] = len(values.get(b"later", []))
        self.scheduled[shard] = len(values.get(b"scheduled", []))
        self._read_seen(values, shard)
        for url, letters in values.get(b"dead", {}).items():
            self.dead += [
                (url.decode(), reason.decode()) for reason, *_ in msgpack.unpackb(letters, raw=True)
            ]
        for name, value in values.get(b"n", {}).items():
            self.counters[name.decode()] = self.counters.get(name.decode(), 0) + int(value)

    def _read_seen(self, values: dict[bytes, Any], shard: int) -> None:
        """Every mark is in the engine or in the only cold bucket in which it is looked for."""
        names = [name for name in values if name.startswith(b"seen:") and name[5:].isdigit()]
        hot = {int(mark) for name in names for mark in values[name]}
        assert len(hot) == sum(len(values[name]) for name in names)
        names, cold = values.get(b"seen:cold", []), set()
        ends = [*map(float, names), math.inf]
        assert ends == sorted(ends)
        for number, fence in enumerate(names):
            if content := values.get(b"seen:cold:" + fence):
                marks = self.marks(shard, QueuePart.parse(content[:96]))
                assert all(ends[number] <= float(mark) < ends[number + 1] for mark in marks)
                cold |= marks
        assert len(cold - hot) == int(values.get(b"n", {}).get(b"cold", 0))
        self.seen += len(hot | cold)

    def marks(self, shard: int, part: QueuePart) -> set[int]:
        """The marks of a cold bucket in the store."""
        assert self.store
        raw = (self.store / f"{shard:04}" / part.segment).read_bytes()[part.offset :][: part.length]
        marks = set(unpack_marks(raw, part).tolist())
        assert len(marks) == part.urls
        return marks

    def _read_queues(self, values: dict[bytes, Any], shard: int) -> None:
        mask, others = {}, Counter[str]()
        for name, raw in values.get(b"queued", {}).items():
            host, few = host_of(name), few_of(raw)
            self.listed[host] = {level for level in range(LEVELS) if raw[0] >> level & 1}
            if few:
                # treat them like a list
                assert len({entry[0] % 16 for entry in few}) == 1
                assert len(raw) < 256
                level = few[0][0] % 128
                mask[host] = 1 << level
                queue = f"q:{host} {level}".encode()
                assert not values.get(queue)
                values[queue] = few
            elif any(raw[1:]):
                mask[host] = int.from_bytes(raw[1:3], "little")
                others[host] = int.from_bytes(raw[3:], "little")
                assert len(raw) == (7 if others[host] else 3)
            else:
                assert raw[0], "an empty record"
        names = {name.partition(b":")[2] for name in values if name.startswith((b"q:", b"out:", b"tail:"))}
        levels: dict[str, list[float]] = {}
        for host, level in sorted((host, queue_level(level)) for host, _, level in map(split_queue, names)):
            name = f"{host} {level}".encode()
            hot, out = values.get(b"q:" + name, []), values.get(b"out:" + name, [])
            parts = [part.split() for part in values.get(b"tail:" + name, [])]
            stored = [entry for part in parts for entry in self.part(shard, part)]
            newest_first = values.get(b"conf", {}).get(b"order") == b"depth-first"
            entries = [*hot, *out, *stored] if newest_first else [*hot, *stored, *out]
            assert all(row(entry)[1] == int(level) for entry in entries)
            if host not in levels and not hot:
                self.waiting.add(host)
                assert name in values[b"hungry"], "a host waits for the store but is not listed for it"
            if not 0 <= level < LEVELS or level % 1:
                others[host] -= len(entries)
            elif out or parts:
                assert mask[host] & 256 << level, "a queue with a tail must have a closed hot list"
            levels.setdefault(host, []).append(level)
            self.longest = max(self.longest, len(hot) + len(out))
            self.queues.setdefault(host, []).extend(row(entry) for entry in entries)
        recorded = {
            host: {level for level in range(LEVELS) if bits >> level & 1}
            | {queue_level(level) for level in values.get(f"levels:{host}".encode(), [])}
            for host, bits in mask.items()
        }
        assert {host: set(own) for host, own in levels.items()} == recorded, "records do not match the queues"
        assert not any(others.values()), "wrong counts of URLs at other levels"
        assert all(bits >> 8 & ~bits == 0 for bits in mask.values()), "closed levels without URLs"

    def part(self, shard: int, part: list[bytes]) -> list[bytes]:
        """The entries of a part in the store; `part` is segment, offset, length, number of URLs, checksum."""
        assert self.store
        raw = (self.store / f"{shard:04}" / part[0].decode()).read_bytes()
        offset, length, urls = (int(number) for number in part[1:4])
        entries: list[bytes] = msgpack.unpackb(zlib.decompress(raw[offset : offset + length]), raw=True)
        assert len(entries) == urls
        return entries

    @staticmethod
    def _check_tails(values: dict[bytes, Any]) -> None:
        tails = {
            name.removeprefix(b"tail:"): [part.split() for part in parts]
            for name, parts in values.items()
            if name.startswith(b"tail:")
        }
        urls = {queue: sum(int(part[3]) for part in parts) for queue, parts in tails.items()}
        assert urls == {queue: int(n) for queue, n in values.get(b"tails", {}).items()}
        condemned = [msgpack.unpackb(one, raw=True)[2].split() for one in values.get(b"condemned", [])]
        all_parts = [*condemned, *(part for parts in tails.values() for part in parts)]
        spilled = sum(int(part[3]) for part in all_parts)
        assert spilled == int(values.get(b"n", {}).get(b"spilled", 0))
        cold = [value.split()[0] for name, value in values.items() if name.startswith(b"seen:cold:")]
        used = Counter([*cold, *(part[0] for part in all_parts)])
        assert used == {name: int(n) for name, n in values.get(b"segments", {}).items()}
        assert not used.keys() & set(values.get(b"unused", [])), "segments in use are listed as unused"
        least = min(int(values.get(b"conf", {}).get(b"hot", 0)) // 4 or 250, 500)
        out = {name.removeprefix(b"out:") for name in values if name.startswith(b"out:")}
        full = {queue for queue in out if len(values[b"out:" + queue]) >= least}
        assert full == set(values.get(b"spilling", [])), "full outboxes are not listed for spilling"

    def _check_ready(
        self, values: dict[bytes, list[bytes]], leased: set[str], keys: Keys, shard: int
    ) -> None:
        at_hand = {
            (host, min(max(entries[0][1], 0), LEVELS - 1))
            for host, entries in self.queues.items()
            if host not in leased
            and host not in self.parked
            and host not in self.waiting
            and keys.shard(host) == shard
        }
        to_come = hosts_at(values, b"ready:%d")
        listed = hosts_at(values, b"due:%d") + hosts_at(values, b"new:%d")
        assert len(listed) == len(set(listed)), "a host is twice in a list"
        known = {(host, level) for host, levels in self.listed.items() for level in levels}
        assert {one for one in known if keys.shard(one[0]) == shard} == set(listed)
        assert not set(to_come) & set(listed)
        assert set(to_come) <= at_hand, "ready hosts without URLs at hand"
        assert at_hand <= {*to_come, *listed}, "hosts with URLs are in no list"


def hosts_at(values: dict[bytes, list[bytes]], key: bytes) -> list[tuple[str, int]]:
    """Hosts and levels in the keys that hold one list for each level."""
    return [(host_of(name), level) for level in range(LEVELS) for name in values.get(key % level, [])]


def host_of(name: bytes) -> str:
    """The host for its short form in the engine."""
    text = name.decode()
    return text if "://" in text else "https://" + re.sub("^/", "www.", text)


def few_of(record: bytes) -> list[bytes]:
    """The entries stored inside a host's record, if any."""
    found, start = [], 1
    while len(record) not in (3, 7) and start < len(record):
        end = start + 1 + record[start]
        found.append(record[start + 1 : end])
        start = end
    return found


def queue_level(text: str | bytes) -> float:
    """The level of a queue; that of a class of fetches has a fraction (TRAFFIC)."""
    level = float(text)
    return level if level % 1 else int(level)


def split_queue(name: bytes) -> tuple[str, str, str]:
    """Host, space and level of the name of a queue."""
    return name.decode().rpartition(" ")


def row(entry: bytes) -> Row:
    fields = msgpack.unpackb(without_time(entry)[4:], raw=True)
    first = entry[0] % 16
    level = first if first < LEVELS else fields[4]
    return (fields[0].decode(), level, entry[0] >= 128, entry[1], entry[2], entry[3])


def glob(prefix: bytes) -> bytes:
    """A prefix for KEYS, with special characters escaped."""
    return prefix.replace(b"[", b"\\[").replace(b"?", b"\\?")
