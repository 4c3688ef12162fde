"""The waits of a crawl: the next retry, the next host that may be asked, and the hosts that wait for a worker."""

from __future__ import annotations

from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import LEVELS, LeasedURL
from webcrawl.frontier.frontier import Frontier

_READY_LISTS = ("due", "new")


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
