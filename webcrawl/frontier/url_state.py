"""Finds the state of one URL in the engine, in bounded work beside running workers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgpack

from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.operations import BATCH, Operations

_MOST_QUEUED = 10_000
_MOST_SCANS = 20
_GLOB = re.compile(r"([\\*?\[\]])")


@dataclass(frozen=True, slots=True)
class URLState:
    """The state of a URL. Times are seconds since 1970 by the clock of the engine's server.

    state     queued, waiting (for another try), scheduled, leased, dead or dropped; None if the URL has none of these
    complete  False if queues are so long that the URL may wait in a part that was not read
    due       when a waiting or scheduled URL will be queued again
    time      when a dead or dropped URL was given up or dropped
    queued    when the URL was first queued, by the clock of the worker that found it; None if unknown
    """

    state: str | None
    complete: bool = True
    level: int | None = None
    depth: int | None = None
    referrer: str | None = None
    attempts: int | None = None
    worker: str | None = None
    due: float | None = None
    time: float | None = None
    reason: str | None = None
    queued: float | None = None


async def url_state(operations: Operations, host: str, path: str) -> URLState:
    """Returns the state of a URL; for several requests for it, the state of the first that is found."""
    state = await _look(operations, host, path)
    # between two reads, it may have moved to what was read first
    return state if state.state is not None else await _look(operations, host, path)


async def _look(operations: Operations, host: str, path: str) -> URLState:
    shard = operations.keys.shard(host)
    prefix, url = operations.keys.queue(shard)[0], host + path
    if (state := await _leased(operations, prefix, host, path)) is not None:
        return state
    client = operations.engine.client
    call = script_call("find_url", [prefix], host=host, path=path, most=_MOST_QUEUED)
    entry, complete = await operations.engine.run(call)
    if entry is not None:
        return _of_entry("queued", host, entry)
    for key, name in (("later", "waiting"), ("scheduled", "scheduled")):
        state, is_all = await _delayed(operations, prefix + key, name, host, path)
        if state is not None:
            return state
        complete = complete and is_all
    if dead := await client.hget(prefix + "dead", url):
        reason, time, entry = msgpack.unpackb(dead, raw=True)[-1]
        why = reason.decode(errors="replace")
        return _of_entry("dead", host, entry, time=int(time) / 1000, reason=why)
    if dropped := await client.hget(prefix + "dropped", url):
        return URLState("dropped", time=int(dropped) / 1000)
    return URLState(None, complete=bool(complete))


async def _leased(operations: Operations, prefix: str, host: str, path: str) -> URLState | None:
    lease = await operations.engine.client.hgetall(f"{prefix}lease:{host}")
    for index, entry in lease.items():
        if index.isdigit() and LeasedURL.decode(0, host, entry).path == path:
            return _of_entry("leased", host, entry, worker=lease.get(b"worker", b"").decode())
    return None


async def _delayed(
    operations: Operations, key: str, state: str, host: str, path: str
) -> tuple[URLState | None, bool]:
    """Looks for a URL among the URLs with a date; also returns whether all of them were read."""
    client, cursor = operations.engine.client, 0
    escaped = _GLOB.sub(r"\\\1", host)
    for _ in range(_MOST_SCANS):
        cursor, members = await client.zscan(key, cursor=cursor, match=f"* {escaped}\n*", count=BATCH)
        for member, due in members:
            entry = member.partition(b"\n")[2]
            if LeasedURL.decode(0, host, entry).path == path:
                ahead = await _ahead(operations, host)
                return _of_entry(state, host, entry, due=(int(due) - ahead) / 1000), True
        if not cursor:
            return None, True
    return None, False


async def _ahead(operations: Operations, host: str) -> int:
    """Returns the ms by which the clock of the host's shard is ahead of its server's clock."""
    noted = await operations.engine.client.get(operations.keys.clock(operations.keys.shard(host)))
    return int(noted.split()[1]) if noted else 0


def _of_entry(state: str, host: str, entry: bytes, **more: Any) -> URLState:
    url = LeasedURL.decode(0, host, entry)
    about = url.level, url.depth, url.referrer, url.attempts
    return URLState(state, True, *about, queued=url.queued_at, **more)
