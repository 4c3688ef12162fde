"""The engine is woken once, when the first of several URLs is due."""

from __future__ import annotations

import asyncio
import math

from webcrawl.crawler.scheduling.timer import EarliestTimer


async def rung(*seconds: float, cancel: bool = False) -> int:
    """How often a timer that was set for these times rings within a fifth of a second."""
    rings: list[None] = []
    timer = EarliestTimer(lambda: rings.append(None))
    for each in seconds:
        timer.set(each)
    if cancel:
        timer.cancel()
    await asyncio.sleep(0.2)
    return len(rings)


def test_it_rings_once_at_the_earliest_time() -> None:
    assert asyncio.run(rung(60.0, 0.01, 0.02, math.inf)) == 1
    assert asyncio.run(rung(0.01, 60.0)) == 1


def test_it_does_not_ring_for_later_never_or_cancelled_times() -> None:
    assert asyncio.run(rung(60.0, math.inf)) == 0
    assert asyncio.run(rung(math.inf)) == 0
    assert asyncio.run(rung(0.01, cancel=True)) == 0


def test_it_can_be_set_again_after_it_rang() -> None:
    async def twice() -> int:
        rings: list[None] = []
        timer = EarliestTimer(lambda: rings.append(None))
        for _ in range(2):
            timer.set(0.0)
            await asyncio.sleep(0.05)
        return len(rings)

    assert asyncio.run(twice()) == 2
