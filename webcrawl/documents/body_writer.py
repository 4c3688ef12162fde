"""Collects the bytes of bodies, and bounds what all of them take together."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from webcrawl.config import Spool
from webcrawl.documents.body import CHUNK, Body, SpoolFile, base32
from webcrawl.documents.disk import failure

_LEAST_CHUNK = 32 * 1024
"""The most bytes of a body in memory while those of all bodies take more than they may."""
_MOST_MEMORY = 32 * 1024 * 1024
_DISK_SHARE = 0.5


class BodyBudget:
    """What bodies may take together while they are received, and on the disk until they are gone.

    Over the budget of memory, bodies go to the disk earlier. Over that of the disk, bodies wait, all but the oldest of
    those that grow: so it ends, and then the next one. `memory` and `disk` are bytes; `held` and `spooled` are those in
    use. `add_held` and `add_spooled` may be called in any thread.
    """

    def __init__(self, memory: int = _MOST_MEMORY, disk: float = math.inf) -> None:
        self.memory, self.disk = memory, disk
        self.held = self.spooled = 0
        self._lock = threading.Lock()
        self._growing: dict[BodyWriter, None] = {}
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @classmethod
    def on_disk_of(cls, folder: Path) -> Self:
        """Returns a budget of half of the free bytes on the disk of a folder. The folder need not exist."""
        while not folder.exists():
            folder = folder.parent
        return cls(disk=shutil.disk_usage(folder).free * _DISK_SHARE)

    @property
    def chunk(self) -> int:
        """The bytes of a body in memory above which it goes to the disk."""
        return _LEAST_CHUNK if self.held > self.memory else CHUNK

    def add_held(self, size: int) -> None:
        with self._lock:
            self.held += size

    def add_spooled(self, size: int) -> None:
        with self._lock:
            self.spooled += size
        if size < 0:
            self._wake()

    async def room(self, body: BodyWriter, until: float = math.inf) -> None:
        """Waits until a body may grow on the disk; raises TimeoutError at the monotonic time `until`."""
        self._growing.setdefault(body)
        if self._has_room(body):
            return
        woken = asyncio.Event()
        self._waiting[woken] = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None if until == math.inf else until - time.monotonic()):
                while not self._has_room(body):
                    await woken.wait()
                    woken.clear()
        finally:
            del self._waiting[woken]

    def leave(self, body: BodyWriter) -> None:
        """Notes that a body does not grow any more."""
        if body in self._growing:
            del self._growing[body]
            self._wake()

    def _has_room(self, body: BodyWriter) -> bool:
        return self.spooled < self.disk or next(iter(self._growing)) is body

    def _wake(self) -> None:
        """Lets the bodies that wait look again. A file may be deleted in any thread."""
        for woken, loop in list(self._waiting.items()):
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(woken.set)


class BodyWriter:
    """Collects the chunks of a body: `add` never blocks, `spill` and `finish` may write to the disk.

    When `is_full` is true after an `add`, call `spill`, in any thread, so that little more than `CHUNK` is in memory.
    `digests`: whether to compute the SHA-1 while the body is collected. `budget`: is shared with other bodies; call
    `close` then, whatever happens. `spill` and `finish` raise StoreUnavailable if the disk is full, and StoreError if
    writing fails for another reason.
    """

    def __init__(self, spool: Spool, *, digests: bool = False, budget: BodyBudget | None = None) -> None:
        self._spool = spool
        self._budget = budget or BodyBudget()
        self._sha1 = hashlib.sha1(usedforsecurity=False) if digests else None
        self._chunks: list[bytes] = []
        self._held = 0
        self._file: SpoolFile | None = None
        self.size = 0
        """Bytes added."""

    @property
    def is_full(self) -> bool:
        return self._held >= self._budget.chunk

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        self.size += len(data)
        self._budget.add_held(len(data))

    def start(self, size: int) -> bytes:
        """Returns the first `size` bytes added so far."""
        if self._file is not None:
            return self._file.read(size, 0)
        return b"".join(self._chunks)[:size]

    def spill(self) -> None:
        """Writes the chunks in memory to the file."""
        data = b"".join(self._chunks)
        if self._sha1 is not None:
            self._sha1.update(data)
        try:
            if self._file is None:
                self._file = _new_file(self._spool.folder, self._budget.add_spooled)
            self._file.append(data)
        except OSError as error:
            raise failure("spool a body in", self._spool.folder, error) from error
        self._chunks.clear()
        self._release()

    def close(self) -> None:
        """Gives back the memory of a body that is finished or given up. Its file counts until nobody has it."""
        self._release()
        self._budget.leave(self)

    def _release(self) -> None:
        self._budget.add_held(-self._held)
        self._held = 0

    def finish(self) -> Body:
        """Returns the collected body."""
        if self._file is None and self.size <= self._spool.memory:
            return Body(b"".join(self._chunks))
        if self._held:
            self.spill()
        digest = base32(self._sha1.digest()) if self._sha1 is not None else None
        assert self._file is not None
        return Body.of_file(self._file, self.size, digest)


def _new_file(folder: Path, count: Callable[[int], None]) -> SpoolFile:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return SpoolFile(os.dup(file.fileno()), count)
