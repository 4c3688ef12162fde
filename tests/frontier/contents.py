"""What is really in the keys of a crawl, read without the frontier's own code."""

from __future__ import annotations

from dataclasses import dataclass

import msgpack
from redis import Redis

from webcrawl.frontier import LEVELS, Keys

HASHES = (b"mask", b"dead", b"n", b"parked", b"limits", b"spent")
Row = tuple[str, int, int, int, int]
"""Path, level, attempts, returns, blames."""


@dataclass
class Contents:
    """The structures of all shards, by host; `check` finds contradictions between them."""

    queues: dict[str, list[Row]]
    leases: dict[str, dict[int, Row]]
    later: dict[int, int]
    """Shard -> how many URLs wait for a retry."""
    scheduled: dict[int, int]
    """Shard -> how many URLs wait for a date."""
    parked: dict[str, str]
    spent: dict[str, str]
    seen: int
    dead: list[tuple[str, str]]
    """URL and reason."""
    counters: dict[str, int]

    @classmethod
    def read(cls, valkey: Redis, keys: Keys) -> Contents:
        """Read and check a whole crawl."""
        found = cls({}, {}, {}, {}, {}, {}, 0, [], {})
        for shard in range(keys.shards):
            found._read_shard(valkey, keys, shard)
        return found

    def _read_shard(self, valkey: Redis, keys: Keys, shard: int) -> None:
        prefix = keys.queue(shard)[0].encode()
        names = [name.removeprefix(prefix) for name in valkey.keys(glob(prefix) + b"*")]
        pipe = valkey.pipeline(transaction=False)
        for name in names:
            key = prefix + name
            if name.startswith(b"q:"):
                pipe.lrange(key, 0, -1)
            elif name.startswith(b"lease:") or name in HASHES:
                pipe.hgetall(key)
            elif name.startswith(b"seen:"):
                pipe.scard(key)
            else:
                pipe.zrange(key, 0, -1)
        values = dict(zip(names, pipe.execute(), strict=True))
        queues = {name: value for name, value in values.items() if name.startswith(b"q:")}
        self._read_queues(queues, values.get(b"mask", {}))
        self.parked |= {host.decode(): why.decode() for host, why in values.get(b"parked", {}).items()}
        self.spent |= {host.decode(): much.decode() for host, much in values.get(b"spent", {}).items()}
        leased = set()
        for name, value in values.items():
            if name.startswith(b"lease:"):
                host = name.removeprefix(b"lease:").decode()
                leased.add(host)
                self.leases[host] = {int(i): row(entry) for i, entry in value.items() if i.isdigit()}
        assert leased == {host.decode() for host in values.get(b"leases", [])}, "leases without an end"
        self._check_ready(values, leased, keys, shard)
        self.later[shard] = len(values.get(b"later", []))
        self.scheduled[shard] = len(values.get(b"scheduled", []))
        self.seen += sum(value for name, value in values.items() if name.startswith(b"seen:"))
        for url, letters in values.get(b"dead", {}).items():
            self.dead += [
                (url.decode(), reason.decode()) for reason, *_ in msgpack.unpackb(letters, raw=True)
            ]
        for name, value in values.get(b"n", {}).items():
            self.counters[name.decode()] = self.counters.get(name.decode(), 0) + int(value)

    def _read_queues(self, queues: dict[bytes, list[bytes]], mask: dict[bytes, bytes]) -> None:
        levels: dict[str, int] = {}
        for name, entries in sorted(queues.items()):
            host, _, level = name.removeprefix(b"q:").decode().rpartition(" ")
            assert all(entry[0] == int(level) for entry in entries)
            levels[host] = levels.get(host, 0) | 1 << int(level)
            self.queues.setdefault(host, []).extend(row(entry) for entry in entries)
        assert levels == {host.decode(): int(bits) for host, bits in mask.items()}, "masks that lie"

    def _check_ready(
        self, values: dict[bytes, list[bytes]], leased: set[str], keys: Keys, shard: int
    ) -> None:
        ready = {
            (host.decode(), level) for level in range(LEVELS) for host in values.get(b"ready:%d" % level, [])
        }
        assert ready == {
            (host, entries[0][1])
            for host, entries in self.queues.items()
            if host not in leased and host not in self.parked and keys.shard(host) == shard
        }, "hosts with URLs that nobody would find, or that are found in vain"


def row(entry: bytes) -> Row:
    return (msgpack.unpackb(entry[4:], raw=True)[0].decode(), *entry[:4])


def glob(prefix: bytes) -> bytes:
    """A prefix for KEYS, taken literally."""
    return prefix.replace(b"[", b"\\[").replace(b"?", b"\\?")
