"""Batches: group commit of concurrent calls to the disk or the engine, and parts of a long list."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Generic, NoReturn, TypeVar

from webcrawl.errors import StoreError, StoreUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")


PAUSE = 0.02
"""The seconds in which a busy worker collects pages to store: this saves 2 % of the processor time of a page."""
_TEND_SECONDS = 1.0


class GroupCommit(Generic[T, R]):
    """Calls `work` with a list of items, one call at a time; `work` returns one result per item, in order.

    Items that arrive during a call form the next batch, of at most `most` items. After a batch of several items, the
    next batch waits `pause` seconds for more items, unless nothing came for as long. After a single item, it does not
    wait. When `work` raises, all `put` calls of the batch raise. If the result of an item is an exception, its `put`
    raises it.
    """

    def __init__(
        self,
        work: Callable[[list[T]], Awaitable[Sequence[R | Exception]]],
        most: int = 500,
        pause: float = 0.0,
    ) -> None:
        self._work = work
        self._most = most
        self._pause = pause
        self._busy_at = -math.inf
        """Monotonic time at which a batch of several items ended, unless a single item came after it."""
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def put(self, item: T) -> R:
        """Returns the result of one item."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return await result

    async def finish(self) -> None:
        """Waits until all items have their results."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        while self._waiting:
            is_busy = time.monotonic() - self._busy_at < self._pause
            if is_busy and len(self._waiting) < self._most:
                await asyncio.sleep(self._pause)
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                results = await self._work([item for item, _ in batch])
                if len(results) != len(batch):
                    raise ValueError(f"{len(results)} results for {len(batch)} items")
            except Exception as error:
                for _, waiting in batch:
                    if not waiting.done():
                        waiting.set_exception(error)
                continue
            finally:
                self._busy_at = time.monotonic() if len(batch) > 1 else -math.inf
            for (_, waiting), result in zip(batch, results, strict=True):
                if waiting.done():
                    continue
                if isinstance(result, Exception):
                    waiting.set_exception(result)
                else:
                    waiting.set_result(result)
        self._task = None


def write_alone(entries: Sequence[T], write: Callable[[T], R]) -> list[R | Exception]:
    """Writes entries one by one, so that a full disk at a later entry does not repeat the earlier ones.

    Returns a result for each: what `write` returned or raised. A value that a spider or a pipeline set may raise any
    exception when it is stored, and its entry fails alone.
    """
    results: list[R | Exception] = []
    for entry in entries:
        try:
            results.append(write(entry))
        except StoreUnavailable as error:
            # the following entries would fail too
            return results + [error] * (len(entries) - len(results))
        except Exception as error:
            results.append(error)
    return results


def write_apart(entries: Sequence[T], write: Callable[[Sequence[T]], Sequence[R]]) -> Sequence[R | Exception]:
    """Writes entries together; if that fails, one by one, so that an entry that cannot be stored fails alone.

    Returns a result for each, as `write_alone` does. Raises StoreUnavailable if all must be written again.
    """
    try:
        return write(entries)
    except StoreUnavailable:
        raise
    except Exception:
        return write_alone(entries, lambda entry: write([entry])[0])


class Batches(GroupCommit[T, R]):
    """Batches for a `write` that blocks, which is called in its own thread."""

    def __init__(
        self, write: Callable[[list[T]], Sequence[R | Exception]], most: int = 500, pause: float = 0.0
    ) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        super().__init__(
            lambda items: asyncio.get_running_loop().run_in_executor(self._thread, write, items), most, pause
        )

    async def run(self, work: Callable[[], S]) -> S:
        """Returns the result of other work in the same thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def tend(self, work: Callable[[], S], use: Callable[[S], object]) -> NoReturn:
        """Passes the result of other work to `use` each second, until cancelled; logs each StoreError once."""
        failure = ""
        while True:
            try:
                use(await self.run(work))
                failure = ""
            except StoreError as error:
                if str(error) != failure:
                    logger.error("%s", error)
                failure = str(error)
            await asyncio.sleep(_TEND_SECONDS)

    async def close(self, last: Callable[[], None] | None = None) -> None:
        """Waits for all batches, runs `last` in the thread, and ends the thread."""
        await self.finish()
        try:
            if last is not None:
                await self.run(last)
        finally:
            self._thread.shutdown()  # it is idle: this does not block


def batched(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Cuts items into lists of at most `most`, in order, as itertools.batched of Python 3.12 does into tuples."""
    remaining = iter(items)
    while batch := list(islice(remaining, most)):
        yield batch
