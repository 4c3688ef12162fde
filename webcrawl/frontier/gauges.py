"""Shows how hosts and URLs are spread over states and levels, by counters and random samples, never by a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import LEVELS
from webcrawl.frontier.frontier import Frontier

SAMPLED = 512
"""The most hosts and leases in a sample, over all shards."""
_LEAST_SAMPLED = 8
"""The most hosts and leases in the sample of one shard."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Hosts with queued URLs in the engine, by state and by their best level, and samples of leases and queues.

    `ready` hosts may be asked now, `waiting` hosts later. Some hosts that have just changed are counted twice.
    `blocked`: by an operator or because their limit is reached. `hosts_by_level`: ready or waiting hosts by best level
    from 0 to 7. `share_by_level`: the shares of levels 0 to 7, and of all others, in the queued URLs; exact while no
    shard has more hosts than are sampled there. `lease_ages`: seconds, sorted.
    """

    ready: int
    waiting: int
    leased: int
    blocked: int
    hosts_by_level: Sequence[int]
    share_by_level: Sequence[float]
    lease_ages: Sequence[float]


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
    )


def _summed(rows: Sequence[Sequence[int]], length: int) -> list[int]:
    return [sum(row[column] for row in rows) for column in range(length)]
