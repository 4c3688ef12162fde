"""Shows how hosts and URLs are spread over states and levels, and which retry, hosts and levels wait.

The figures come from counters, random samples and lookups, never from a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import LEVELS, LeasedURL
from webcrawl.frontier.frontier import Frontier

SAMPLED = 512
"""The most hosts and leases in a sample, over all shards."""
_LEAST_SAMPLED = 8
"""The most hosts and leases in the sample of one shard."""
_READY_LISTS = ("due", "new")


@dataclass(frozen=True, slots=True)
class Gauges:
    """Hosts with queued URLs in the engine, by state and by their best level, and samples of leases and queues.

    `ready` hosts may be asked now, `waiting` hosts later. Some hosts that have just changed are counted twice.
    `blocked`: by an operator or because their limit is reached. `hosts_by_level`: ready or waiting hosts by best level
    from 0 to 7. `share_by_level`: the shares of levels 0 to 7, and of all others, in the queued URLs; exact while no
    shard has more hosts than are sampled there. `lease_ages`: seconds, sorted. `cold_buckets`: parts of the seen set in
    the store.
    """

    ready: int
    waiting: int
    leased: int
    blocked: int
    hosts_by_level: Sequence[int]
    share_by_level: Sequence[float]
    lease_ages: Sequence[float]
    cold_buckets: int


async def gauges(frontier: Frontier) -> Gauges:
    """Reads the gauges from the engine, in one step of each shard."""
    keys = frontier.keys
    most = max(_LEAST_SAMPLED, SAMPLED // keys.shards)
    replies = await frontier.engine.run_all(
        [script_call("gauges", keys.queue(shard), most=most) for shard in range(keys.shards)]
    )
    urls = _summed([reply.urls for reply in replies], LEVELS + 1)
    total = sum(urls)
    ready, waiting, leased, blocked = _summed([reply.hosts for reply in replies], 4)
    return Gauges(
        ready,
        waiting,
        leased,
        blocked,
        hosts_by_level=_summed([reply.by_level for reply in replies], LEVELS),
        share_by_level=[number / total if total else 0.0 for number in urls],
        lease_ages=sorted(ms / 1000 for reply in replies for ms in reply.ages),
        cold_buckets=sum(reply.buckets for reply in replies),
    )


def _summed(rows: Sequence[Sequence[int]], length: int) -> list[int]:
    return [sum(row[column] for row in rows) for column in range(length)]


@dataclass(frozen=True, slots=True)
class NextRetry:
    """The URL that is retried next, in `seconds`; `attempt` is the number of that fetch, at least 2."""

    url: str
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NextHost:
    """The host with queued URLs that may be asked next, in `seconds`. It has had `failures` in a row."""

    host: str
    failures: int
    seconds: float


async def next_waits(frontier: Frontier) -> tuple[NextRetry | None, NextHost | None]:
    """Reads the next retry and the next host over all shards, in a few lookups for each shard."""
    keys = frontier.keys
    calls = [script_call("waits", keys.queue(shard)) for shard in range(keys.shards)]
    retries, hosts = [], []
    for reply in await frontier.engine.run_all(calls):
        if reply.retry:
            retries.append((int(reply.retry_ms), reply.retry))
        if reply.host:
            hosts.append((int(reply.host_ms), reply.host, int(reply.failures)))
    return _retry(*min(retries)) if retries else None, _host(*min(hosts)) if hosts else None


async def ready_hosts(engine: Engine, keys: Keys) -> list[int]:
    """Returns the hosts with queued URLs and without a lease, for each level from 0 to 7.

    Takes a few lookups for each shard. Outdated names in the lists count until a worker meets them.
    """
    pipe = engine.client.pipeline(transaction=False)
    for shard in range(keys.shards):
        prefix = keys.queue(shard)[0]
        for level in range(LEVELS):
            pipe.zcard(f"{prefix}ready:{level}")
            for name in _READY_LISTS:
                pipe.llen(f"{prefix}{name}:{level}")
    lengths, each = await pipe.execute(), 1 + len(_READY_LISTS)
    return [
        sum(sum(lengths[start : start + each]) for start in range(level * each, len(lengths), LEVELS * each))
        for level in range(LEVELS)
    ]


def _retry(ms: int, member: bytes) -> NextRetry:
    host, _, entry = member.partition(b"\n")
    url = LeasedURL.decode(0, host.decode(), entry)
    return NextRetry(url.url, url.attempts + 1, ms / 1000)


def _host(ms: int, host: bytes, failures: int) -> NextHost:
    return NextHost(host.decode(), failures, ms / 1000)
