"""What the frontier waits for: the next retry, and the next host that may be asked."""

from __future__ import annotations

from dataclasses import dataclass

from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.frontier import Frontier


@dataclass(frozen=True, slots=True)
class NextRetry:
    """The URL that is retried next, in `seconds`; `attempt` is the number of that fetch, at least 2."""

    url: str
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NextHost:
    """The host with queued URLs that may be asked next, in `seconds`, after `failures` in a row."""

    host: str
    failures: int
    seconds: float


async def next_waits(frontier: Frontier) -> tuple[NextRetry | None, NextHost | None]:
    """Reads the next of each over all shards, in a few lookups for each shard."""
    keys = frontier.keys
    calls = [script_call("waits", keys.queue(shard)) for shard in range(keys.shards)]
    retries, hosts = [], []
    for reply in await frontier.engine.run_all(calls):
        if reply.retry:
            retries.append((int(reply.retry_ms), reply.retry))
        if reply.host:
            hosts.append((int(reply.host_ms), reply.host, int(reply.failures)))
    return _retry(*min(retries)) if retries else None, _host(*min(hosts)) if hosts else None


def _retry(ms: int, member: bytes) -> NextRetry:
    host, _, entry = member.partition(b"\n")
    url = LeasedURL.decode(0, host.decode(), entry)
    return NextRetry(url.url, url.attempts + 1, ms / 1000)


def _host(ms: int, host: bytes, failures: int) -> NextHost:
    return NextHost(host.decode(), failures, ms / 1000)
