"""Group commit: what several pages want to write at once goes to the disk in one piece, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batches(Generic[T, R]):
    """Calls `write` with a list of items in a thread of its own; one result per item, in order.

    While a batch is being written the next one gathers, at most `most` items. When `write` raises, everyone who waits
    for that batch gets the exception.
    """

    def __init__(self, write: Callable[[list[T]], Sequence[R]], most: int = 500) -> None:
        self._write = write
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._task: asyncio.Task[None] | None = None

    async def put(self, item: T) -> R:
        """Write one item; returns when it is written."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return await result

    async def close(self, last: Callable[[], None] | None = None) -> None:
        """Wait for what is being written, then run `last` in the thread and end it."""
        while self._task is not None:
            await asyncio.wait([self._task])
        if last is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, last)
        self._thread.shutdown(wait=False)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                results = await loop.run_in_executor(self._thread, self._write, [item for item, _ in batch])
                if len(results) != len(batch):
                    raise ValueError(f"{len(results)} results for {len(batch)} items")
            except Exception as error:
                for _, waiting in batch:
                    if not waiting.done():
                        waiting.set_exception(error)
                continue
            for (_, waiting), result in zip(batch, results, strict=True):
                if not waiting.done():
                    waiting.set_result(result)
        self._task = None
