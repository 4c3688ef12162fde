"""Backoff: pauses that grow, and an end that comes soon once it is wished for."""

from __future__ import annotations

import asyncio
import time

from webcrawl.engine.backoff import Backoff


async def attempts(backoff: Backoff) -> int:
    """How often something is tried in vain."""
    tried = 1
    while not backoff.is_over:
        await backoff.pause()
        tried += 1
    return tried


def test_without_an_event_it_is_over_when_its_seconds_are() -> None:
    async def main() -> None:
        # 0.05 + 0.1 + 0.2 + 0.2 ...
        tried = await asyncio.wait_for(attempts(Backoff(0.6, first=0.05, longest=0.2)), 20)
        assert 2 <= tried <= 6

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began >= 0.6


def test_a_long_pause_ends_with_the_event_and_then_it_is_tried_often_for_a_while() -> None:
    async def main() -> None:
        ending = asyncio.Event()
        backoff = Backoff(1.2, ending, first=1000.0, longest=1000.0)
        trying = asyncio.create_task(attempts(backoff))
        await asyncio.sleep(0.05)
        assert not backoff.is_over
        ending.set()
        began = time.monotonic()
        tried = await asyncio.wait_for(trying, 20)
        assert time.monotonic() - began >= 1.0
        assert tried >= 3

    asyncio.run(main())


def test_until_the_event_is_set_it_has_no_end() -> None:
    async def main() -> None:
        backoff = Backoff(0.0, asyncio.Event(), first=0.001, longest=0.001)
        for _ in range(20):
            assert not backoff.is_over
            await backoff.pause()

    asyncio.run(main())
