"""Backoff: growing pauses, and a limited time once the event is set."""

from __future__ import annotations

import asyncio
import time

from webcrawl.engine.backoff import Backoff


async def attempts(backoff: Backoff) -> int:
    """Counts the attempts until the backoff is over."""
    tried = 1
    while not backoff.is_over:
        await backoff.pause()
        tried += 1
    return tried


def test_backoff_without_event_ends_after_its_seconds() -> None:
    async def main() -> None:
        # 0.05 + 0.1 + 0.2 + 0.2 ...
        tried = await asyncio.wait_for(attempts(Backoff(0.6, first=0.05, longest=0.2)), 60)
        assert 2 <= tried <= 6

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began >= 0.6


def test_event_ends_a_long_pause_and_frequent_attempts_follow() -> None:
    async def main() -> None:
        ending = asyncio.Event()
        backoff = Backoff(1.2, ending, first=1000.0, longest=1000.0)
        trying = asyncio.create_task(attempts(backoff))
        await asyncio.sleep(0.05)
        assert not backoff.is_over
        ending.set()
        began = time.monotonic()
        tried = await asyncio.wait_for(trying, 60)
        assert time.monotonic() - began >= 1.0
        assert tried >= 3

    asyncio.run(main())


def test_backoff_is_unlimited_until_the_event_is_set() -> None:
    async def main() -> None:
        backoff = Backoff(0.0, asyncio.Event(), first=0.001, longest=0.001)
        for _ in range(20):
            assert not backoff.is_over
            await backoff.pause()

    asyncio.run(main())
