"""The timer wakes the engine once, when the earliest of several URLs is due."""

from __future__ import annotations

import asyncio
import math

from webcrawl.scheduler import EarliestTimer


async def count_rings(*seconds: float, cancel: bool = False) -> int:
    """Sets a timer to the given delays; returns how often it fires within 0.2 seconds."""
    rings: list[None] = []
    timer = EarliestTimer(lambda: rings.append(None))
    for each in seconds:
        timer.set(each)
    if cancel:
        timer.cancel()
    await asyncio.sleep(0.2)
    return len(rings)


def test_timer_fires_once_at_the_earliest_time() -> None:
    assert asyncio.run(count_rings(60.0, 0.01, 0.02, math.inf)) == 1
    assert asyncio.run(count_rings(0.01, 60.0)) == 1


def test_timer_does_not_fire_for_later_infinite_or_cancelled_times() -> None:
    assert asyncio.run(count_rings(60.0, math.inf)) == 0
    assert asyncio.run(count_rings(math.inf)) == 0
    assert asyncio.run(count_rings(0.01, cancel=True)) == 0


def test_timer_can_be_set_again_after_firing() -> None:
    async def twice() -> int:
        rings: list[None] = []
        timer = EarliestTimer(lambda: rings.append(None))
        for _ in range(2):
            timer.set(0.0)
            await asyncio.sleep(0.05)
        return len(rings)

    assert asyncio.run(twice()) == 2
