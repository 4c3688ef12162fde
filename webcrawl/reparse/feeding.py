"""Reads the pages of a plan ahead of their processing, and records the results."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from webcrawl.errors import StoreError
from webcrawl.reparse.archived import Archived, ArchivedPages
from webcrawl.reparse.plan import BLOCK, Plan, Reading, Work

T = TypeVar("T")

_SETTLE_SECONDS = 0.5
_GONE = "gone"


class Feeding:
    """Takes blocks of the plan in its own thread, and reads the next block while a block is processed.

    `wake` is called when a page is ready or no page is left.
    """

    def __init__(self, plan: Plan, pages: Callable[[], ArchivedPages], wake: Callable[[], None]) -> None:
        self._plan = plan
        self._make_pages = pages
        self._pages: ArchivedPages | None = None
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")
        self._ready: deque[tuple[Work, Archived]] = deque()
        self._has_room = asyncio.Event()
        self._done: dict[int, Reading | None] = {}
        self._failures: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        """Counts to add to the totals of the plan."""
        self.is_over = False
        """Whether all pages were taken."""
        self.error: StoreError | None = None
        """The error because of which no further page can be taken."""
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._tasks = [asyncio.create_task(work) for work in (self._feed(), self._settle())]

    def next(self) -> tuple[Work, Archived] | None:
        """Returns the next page that was read from the archive; None if no page is ready."""
        if len(self._ready) <= BLOCK:
            self._has_room.set()
        return self._ready.popleft() if self._ready else None

    @property
    def is_empty(self) -> bool:
        """Whether no page is left."""
        return self.is_over and not self._ready

    def finish(self, work: Work, reason: str = "", reading: Reading | None = None) -> None:
        """Records a finished page, with the `reason` why it could not be read, or the `reading` that was stored."""
        self._done[work.position] = reading
        self.counts["done"] += 1
        if reason:
            self.counts["failed"] += 1
            self._failures[work.url] = reason

    async def end(self) -> None:
        """Records finished pages and closes the files. Pages that were taken but not finished stay in the plan."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._note()
        if self._pages is not None:
            await self._run(self._pages.close)
        await self._run(self._plan.close)
        self._thread.shutdown()

    async def _feed(self) -> None:
        try:
            while block := await self._run(self._load):
                for work, page in block:
                    if isinstance(page, Archived):
                        self._ready.append((work, page))
                    elif page is None:
                        self.counts[_GONE] += 1
                        self.finish(work)
                    else:
                        self.finish(work, str(page))
                self._wake()
                while len(self._ready) > BLOCK:
                    self._has_room.clear()
                    await self._has_room.wait()
        except StoreError as error:
            self.error = error
        self.is_over = True
        self._wake()

    async def _settle(self) -> None:
        try:
            while True:
                await asyncio.sleep(_SETTLE_SECONDS)
                await self._note()
        except StoreError as error:
            self.error = error
            self._wake()

    def _load(self) -> list[tuple[Work, Archived | StoreError | None]]:
        if self._pages is None:
            self._pages = self._make_pages()
        block = self._plan.take()
        pages = self._pages.load([work.url for work in block])
        return [(work, pages[work.url]) for work in block]

    async def _note(self) -> None:
        done, self._done = self._done, {}
        failures, self._failures = self._failures, {}
        counts = self.counts.copy()
        self.counts.clear()
        if done or failures or counts:
            await self._run(lambda: self._plan.settle(done, failures, counts))

    async def _run(self, work: Callable[[], T]) -> T:
        # shielded: if its task is cancelled, the work for the thread would be lost
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
