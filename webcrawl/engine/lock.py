"""A lock in the engine that expires: for work that one process of a crawl does at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from webcrawl.engine.backoff import ended
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError


class LockState(NamedTuple):
    """Who has a lock after a claim, and the notes, which only the holder gets."""

    holder: str
    notes: str


@dataclass(frozen=True, slots=True)
class EngineLock:
    """At most one owner at a time holds the lock, by the engine's clock; it gets the notes of its predecessor.

    `key` and `notes_key` are in one slot of a cluster. The lock expires `seconds` after the last claim of its holder,
    so it is free again when the holder has died.
    """

    engine: Engine
    key: str
    owner: str
    seconds: float
    notes_key: str = ""
    """The key of the notes; "" for a lock without notes."""

    async def claim(self, notes: str = "") -> str | None:
        """Holds the lock for `seconds` more; returns the latest notes, or None while another owner holds it.

        `notes` replace the stored notes, unless they are empty or another owner holds the lock.
        """
        state = await self.state_after_claim(notes)
        return state.notes if state.holder == self.owner else None

    async def state_after_claim(self, notes: str = "") -> LockState:
        """Claims the lock like `claim`, and says who has it."""
        return await self._run(int(self.seconds * 1000), notes)

    async def leave(self, notes: str = "") -> None:
        """Releases the lock, if this owner holds it, and leaves notes to the next owner."""
        await self._run(0, notes)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Holds the lock inside the context; yields False if another owner holds it."""
        if await self.claim() is None:
            yield False
            return
        try:
            async with renewed(self.claim, self.seconds):
                yield True
        finally:
            with suppress(*UNAVAILABLE):
                await self.leave()

    async def _run(self, milliseconds: int, notes: str) -> LockState:
        keys = [self.key, self.notes_key] if self.notes_key else [self.key]
        call = script_call("lock", keys, owner=self.owner, ms=milliseconds, notes=notes)
        reply = await self.engine.run(call)
        return LockState(reply.holder.decode(), reply.stored.decode())


@asynccontextmanager
async def renewed(renew: Callable[[], Awaitable[object]], seconds: float) -> AsyncIterator[None]:
    """Calls `renew` inside the context, four times in `seconds`, for which one call lasts."""
    is_over = False

    async def again() -> None:
        while not is_over:
            await asyncio.sleep(seconds / 4)
            with suppress(*UNAVAILABLE):
                await renew()

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        is_over = True  # even if this task is cancelled while it waits for the other
        await ended(task)
        with suppress(asyncio.CancelledError, StoreError):  # the holder's next call says what is lost
            await task
