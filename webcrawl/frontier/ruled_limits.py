"""Compares the limits of pages that rules gave to hosts with the present rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from webcrawl.frontier.frontier import Frontier
from webcrawl.frontier.records import HostLimits

_BATCH = 500


async def review_rules(
    frontier: Frontier, pages_of: Callable[[str], int | None], shards: Iterable[int]
) -> None:
    """Sets the limit of each host that has a limit by a rule or a spent budget to the result of `pages_of`.

    Other hosts get their limits when they are leased.
    """
    for shard in shards:
        prefix = frontier.keys.queue(shard)[0]
        for name in ("limits", "parked"):
            async for field, value in frontier.engine.client.hscan_iter(prefix + name, count=_BATCH):
                host, text = field.decode(), value.decode()
                if name == "parked" and text != "budget":
                    continue
                known = await _ruled(frontier, prefix, host) if name == "parked" else _decoded(text)
                if known != (wanted := pages_of(host)):
                    await frontier.rule_limit(host, wanted)


async def _ruled(frontier: Frontier, prefix: str, host: str) -> int | None:
    limits = await frontier.engine.client.hget(f"{prefix}limits", host)
    return _decoded(limits.decode()) if limits else None


def _decoded(text: str) -> int | None:
    return HostLimits.decoded(text).ruled
