"""Checkpoints that are written from time to time: the latest are kept, and one process at a time writes.

<uri>/20260327T053000Z/     a checkpoint, as `scrapy checkpoint` writes it; `scrapy restore` reads it
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.lock import EngineLock, renewed
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.files import MANIFEST, Manifest
from webcrawl.frontier.checkpoint.hold import HOLD_SECONDS
from webcrawl.stores.objects.store import ObjectStore

STAMP = "%Y%m%dT%H%M%SZ"
KEPT = 3
"""The number of latest checkpoints that are kept."""
_RETRY_SECONDS = 60.0
"""The longest pause after a failure; a shorter interval between checkpoints is its own pause."""
_WRITER = "checkpointer"
_NOTES = "checkpoint"


def complete(store: ObjectStore) -> list[str]:
    """Returns the names of the complete checkpoints, the oldest first."""
    names = [info.name for info in store.objects()]
    return sorted(name.partition("/")[0] for name in names if name.endswith(f"/{MANIFEST}"))


def prune(store: ObjectStore, keep: int = KEPT) -> None:
    """Deletes all but the latest checkpoints, and the remains of earlier checkpoints that were never completed."""
    kept = complete(store)[-keep:]
    begun = {info.name.partition("/")[0] for info in store.objects()}
    for stamp in sorted(stamp for stamp in begun if kept and stamp < kept[0]):
        # the manifest first: a checkpoint without a manifest is not restored
        store.delete(f"{stamp}/{MANIFEST}")
        store.delete_folder(stamp)


def time_of(stamp: str) -> datetime:
    """Returns the time in the name of a checkpoint; raises StoreError."""
    try:
        return datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError as error:
        raise StoreError(f"{stamp!r} is not the time of a checkpoint") from error


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """How the checkpoints of a crawl are doing. Times are seconds since 1970, 0 for never.

    every     seconds from one checkpoint to the next
    since     when the crawl began to have them
    at        when the last complete checkpoint began; `uri` is where it is, `urls` how many URLs it has to crawl
    seconds   how long it took; `size` is its bytes
    failed    since when no checkpoint could be written, and `error` why; 0 if the last attempt succeeded
    """

    every: float = 0.0
    since: float = 0.0
    at: float = 0.0
    uri: str = ""
    urls: int = 0
    seconds: float = 0.0
    size: int = 0
    failed: float = 0.0
    error: str = ""

    def age(self, now: float) -> float:
        """Returns the seconds of work that would be lost: since the last checkpoint, or since there should be one."""
        return max(0.0, now - (self.at or self.since)) if self.every else 0.0

    @classmethod
    def decoded(cls, text: str | bytes | None) -> CheckpointState | None:
        """Returns the state in JSON; None without one, or for a state of another version."""
        try:
            return cls(**json.loads(text)) if text else None
        except (ValueError, TypeError):
            return None

    def encoded(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


async def checkpoint_state(engine: Engine, keys: Keys) -> CheckpointState | None:
    """Returns how the checkpoints of a crawl are doing; None if it has never had CHECKPOINT_EVERY."""
    return CheckpointState.decoded(await engine.client.get(keys.own(_NOTES)))


@dataclass
class PeriodicCheckpoints:
    """Writes checkpoints every `every` seconds below `store`, while no other process does.

    The engine holds the lock and the state. When a process is killed while it writes, another one writes after
    HOLD_SECONDS. `write` writes the checkpoint of a name.
    """

    engine: Engine
    keys: Keys
    process: str
    store: ObjectStore
    every: float
    write: Callable[[str], Awaitable[Manifest]]
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _retry_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._lock = EngineLock(
            self.engine, self.keys.own(_WRITER), self.process, HOLD_SECONDS, self.keys.own(_NOTES)
        )

    async def look(self) -> CheckpointState | None:
        """Writes a checkpoint if one is due, and returns the state after it; None if none is due here.

        Raises StoreError if it cannot be written, which the state says too, and the errors of UNAVAILABLE.
        """
        notes = await self._lock.claim()
        if notes is None:
            return None
        now = self.clock()
        known = CheckpointState.decoded(notes)
        state = replace(known or await self._first(now), every=self.every)
        if state != known:
            await self._lock.claim(state.encoded())
        if now < max((state.at or state.since) + self.every, self._retry_at):
            return None
        return await self._write(state, now)

    async def leave(self) -> None:
        """Lets another process write."""
        await self._lock.leave()

    async def _first(self, now: float) -> CheckpointState:
        """Returns the state of a crawl in an engine that has none; the store may have checkpoints of another engine."""
        done = await asyncio.to_thread(complete, self.store)
        at = time_of(done[-1]).timestamp() if done else 0.0
        return CheckpointState(since=now, at=at, uri=self.store.uri(done[-1]) if done else "")

    async def _write(self, state: CheckpointState, now: float) -> CheckpointState:
        stamp = f"{datetime.fromtimestamp(now, UTC):{STAMP}}"
        try:
            async with renewed(self._lock.claim, HOLD_SECONDS):
                manifest = await self.write(stamp)
        except StoreError as error:
            self._retry_at = self.clock() + min(_RETRY_SECONDS, self.every)
            failed = replace(state, failed=state.failed or now, error=str(error))
            await self._lock.claim(failed.encoded())
            raise
        written = CheckpointState(
            every=self.every,
            since=state.since,
            at=now,
            uri=self.store.uri(stamp),
            urls=manifest.counts["open"],
            seconds=self.clock() - now,
            size=sum(file.bytes for file in manifest.files),
        )
        await self._lock.claim(written.encoded())
        await asyncio.to_thread(prune, self.store)
        return written
