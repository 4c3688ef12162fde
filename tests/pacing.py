"""Helpers for tests of turns at hosts: simulated requests, and their timing as a server would see it."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from webcrawl.config import PolitenessConfig
from webcrawl.hosts.politeness import Ok, Outcome
from webcrawl.hosts.turns import Turns

HOST, OTHER = "http://a.example", "http://b.example"
FAST = PolitenessConfig(delay=0)
Log = dict[str, list[tuple[float, float]]]


def run(coroutine: Coroutine[Any, Any, None], seconds: float = 60.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await coroutine

    asyncio.run(bounded())


def opened(turns: Turns, host: str = HOST, valid_for: float = math.inf, failures: int = 0) -> None:
    turns.host_slots.open(host, failures=failures, delay=None, valid_until=time.monotonic() + valid_for)


async def request(
    turns: Turns, log: Log, host: str = HOST, seconds: float = 0.0, outcome: Outcome | None = None
) -> None:
    """Take a turn, wait `seconds`, and give it back; records the start and end times in `log`."""
    turn = await turns.take(host)
    started = time.monotonic()
    try:
        await asyncio.sleep(seconds)
    finally:
        log[host].append((started, time.monotonic()))
        turns.give(host, turn, outcome or Ok())


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    return max(itertools.accumulate(change for _, change in changes))


def shortest_gap(spans: Iterable[tuple[float, float]]) -> float:
    """The shortest time from an end to the next start, in seconds; negative if two overlap."""
    return min(after[0] - before[1] for before, after in itertools.pairwise(sorted(spans)))
