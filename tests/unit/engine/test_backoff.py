"""Backoff: growing pauses, and a limited time once the event is set. Polling: pauses that grow with the idle time."""

from __future__ import annotations

import asyncio
import time

import pytest

from webcrawl.engine.backoff import Backoff, IdleTime, Polling


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


class Clock:
    """A monotonic clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("webcrawl.engine.backoff.time.monotonic", lambda: self.now)


def test_pauses_are_a_tenth_of_the_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    idle = IdleTime()
    assert idle.pause(0.1, 1.0) == 0.1
    clock.now += 5
    assert idle.pause(0.1, 1.0) == 0.5
    clock.now += 500
    assert idle.pause(0.1, 1.0) == 1.0
    idle.end()
    assert idle.pause(0.1, 1.0) == 0.1


def test_a_pause_ends_when_foreseen_work_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    idle = IdleTime()
    for seconds in (30.0, 20.25, 3600.0):
        idle.foresee(seconds)
    clock.now += 20
    assert idle.pause(0.1, 1.0) == 0.25
    clock.now += 0.5
    assert idle.seconds() == 0.25
    clock.now += 10
    assert idle.seconds() == 0.5
    clock.now += 3600  # what is due in an hour is not foreseen
    assert idle.seconds() == 3600.5


def test_polls_are_due_at_once_when_the_idle_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    idle = IdleTime()
    polling = Polling(idle.seconds, 0.1, 1.0)
    assert polling.is_due
    clock.now += 100
    polling.polled()
    clock.now += 0.5
    assert not polling.is_due
    idle.end()
    assert polling.is_due
    polling.polled()
    assert not polling.is_due
    polling.reset()
    assert polling.is_due
