"""Group commit: each caller gets the result of its own item, also with concurrency, failures and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.errors import StoreUnavailable
from webcrawl.stores.group_commit import Batches, write_alone, write_apart


def run(coroutine: Coroutine[Any, Any, None], seconds: float = 60.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await coroutine

    asyncio.run(bounded())


class Disk:
    """A `write` that blocks until `free` is set, squares its items, and fails for -1 (the batch) and -2 (the item)."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.threads: set[str] = set()
        self.free = threading.Event()
        self.free.set()
        self.busy = threading.Event()

    def write(self, items: list[int]) -> list[int | Exception]:
        self.busy.set()
        assert self.free.wait(60)
        self.written.append(items)
        self.threads.add(threading.current_thread().name)
        if -2 in items:
            return [ValueError("not this one") if item == -2 else item * item for item in items]
        if -1 in items:
            raise OSError("the disk is full")
        return [item * item for item in items]


@settings(max_examples=50)
@given(st.lists(st.integers(-1, 9), max_size=60), st.integers(1, 7), st.lists(st.booleans(), max_size=60))
def test_each_caller_gets_its_own_result(items: list[int], most: int, pauses: list[bool]) -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write, most)
        tasks = []
        for item, pause in zip(items, pauses + [False] * len(items), strict=False):
            tasks.append(asyncio.create_task(batches.put(item)))
            if pause:
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await batches.close()
        failed = [item for batch in disk.written if -1 in batch for item in batch]
        for item, result in zip(items, results, strict=True):
            if isinstance(result, OSError):
                failed.remove(item)
            else:
                assert result == item * item
        assert not failed

    run(crawl())
    assert [item for batch in disk.written for item in batch] == items  # each item once, in order
    assert all(0 < len(batch) <= most for batch in disk.written)
    assert len(disk.threads) <= 1


def test_items_put_during_a_write_form_one_batch() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write)
        disk.free.clear()
        first = asyncio.create_task(batches.put(0))
        await asyncio.to_thread(disk.busy.wait, 5)
        rest = [asyncio.create_task(batches.put(number)) for number in range(1, 6)]
        await asyncio.sleep(0)
        assert not first.done()  # the write did not block the event loop
        disk.free.set()
        assert await asyncio.gather(first, *rest) == [0, 1, 4, 9, 16, 25]
        await batches.close()

    run(crawl())
    assert disk.written == [[0], [1, 2, 3, 4, 5]]
    (thread,) = disk.threads
    assert thread != threading.main_thread().name


def test_failed_write_raises_only_for_its_batch() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write, most=2)
        results = await asyncio.gather(*map(batches.put, [1, 2, 3, -1, 5, 6]), return_exceptions=True)
        assert [type(result) for result in results] == [int, int, OSError, OSError, int, int]
        assert await batches.put(7) == 49
        await batches.close()

    run(crawl())


def test_cancelled_caller_does_not_affect_the_others() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write)
        disk.free.clear()
        tasks = [asyncio.create_task(batches.put(number)) for number in range(4)]
        await asyncio.to_thread(disk.busy.wait, 5)
        tasks[1].cancel()
        tasks.append(asyncio.create_task(batches.put(-1)))
        await asyncio.sleep(0)
        tasks[-1].cancel()
        disk.free.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [results[0], *results[2:4]] == [0, 4, 9]
        assert isinstance(results[1], asyncio.CancelledError)
        assert await batches.put(5) == 25
        await batches.close()

    run(crawl())


def test_close_waits_for_pending_writes() -> None:
    disk = Disk()
    ended: list[int] = []

    async def crawl() -> None:
        batches = Batches(disk.write, most=1)
        disk.free.clear()
        tasks = [asyncio.create_task(batches.put(number)) for number in range(3)]
        await asyncio.sleep(0)
        end = asyncio.create_task(batches.close(lambda: ended.append(len(disk.written))))
        await asyncio.to_thread(disk.busy.wait, 5)
        assert not end.done()
        disk.free.set()
        await end
        assert [task.result() for task in tasks] == [0, 1, 4]
        with pytest.raises(RuntimeError):
            await batches.put(3)

    run(crawl())
    assert ended == [3]


def test_close_without_a_write_runs_its_callback() -> None:
    ended: list[str] = []

    async def crawl() -> None:
        batches: Batches[int, int] = Batches(Disk().write)
        await batches.close(lambda: ended.append(threading.current_thread().name))

    run(crawl())
    assert ended[0].startswith("store")


def test_error_of_the_close_callback_is_raised() -> None:
    def last() -> None:
        raise OSError("the disk is full")

    async def crawl() -> None:
        batches = Batches(Disk().write)
        await batches.put(1)
        with pytest.raises(OSError, match="full"):
            await batches.close(last)

    before = threading.enumerate()
    run(crawl())
    new = set(threading.enumerate()) - set(before)
    assert not [thread for thread in new if thread.name.startswith("store")]


@pytest.mark.parametrize("answers", [[], [1, 2, 3]])
def test_wrong_number_of_results_raises_for_every_caller(answers: list[int]) -> None:
    async def crawl() -> None:
        batches: Batches[int, int] = Batches(lambda items: answers)
        for _ in range(2):
            results = await asyncio.gather(batches.put(1), batches.put(2), return_exceptions=True)
            assert [type(result) for result in results] == [ValueError] * 2
        await batches.close()

    run(crawl(), 5)


def test_error_of_one_item_raises_only_for_its_caller() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write)
        answers = await asyncio.gather(*map(batches.put, [2, -2, 3]), return_exceptions=True)
        assert [str(answer) for answer in answers] == ["4", "not this one", "9"]
        assert await batches.run(lambda: threading.current_thread().name) in disk.threads
        await batches.close()

    run(crawl())


def test_a_busy_store_collects_items_and_a_single_one_does_not_wait() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write, pause=0.05)
        for item in (1, 2):
            await batches.put(item)
        assert disk.written == [[1], [2]]
        await asyncio.gather(batches.put(3), batches.put(4))
        waiting = [asyncio.create_task(batches.put(5))]
        for item in (6, 7):
            await asyncio.sleep(0)
            waiting.append(asyncio.create_task(batches.put(item)))
        await asyncio.gather(*waiting)
        assert disk.written == [[1], [2], [3, 4], [5, 6, 7]]
        await batches.close()

    run(crawl())


def test_an_item_waits_for_no_others_when_nothing_came_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, now = Disk(), 0.0
    monkeypatch.setattr("webcrawl.stores.group_commit.time", SimpleNamespace(monotonic=lambda: now))

    async def crawl() -> None:
        nonlocal now
        batches = Batches(disk.write, pause=600.0)
        await asyncio.gather(batches.put(1), batches.put(2))
        now = 601.0
        assert await batches.put(3) == 9
        await batches.close()

    run(crawl())
    assert disk.written == [[1, 2], [3]]


def test_a_full_batch_does_not_wait_for_more() -> None:
    disk = Disk()

    async def crawl() -> None:
        batches = Batches(disk.write, 2, pause=60.0)
        await asyncio.gather(*map(batches.put, range(6)))
        assert disk.written == [[0, 1], [2, 3], [4, 5]]
        await batches.close()

    run(crawl())


def recorded(entry: int) -> int:
    """Returns the square of an entry; raises for bad values, and for 0 because there is no room."""
    if entry == 0:
        raise StoreUnavailable("no room")
    if entry < 0:
        raise OverflowError("too large")
    return entry * entry


def test_a_value_that_cannot_be_stored_fails_its_entry_alone() -> None:
    good, bad, after = write_alone([2, -1, 3], recorded)
    assert (good, type(bad), after) == (4, OverflowError, 9)
    together: list[list[int]] = []

    def write(entries: Sequence[int]) -> list[int]:
        together.append(list(entries))
        return [recorded(entry) for entry in entries]

    assert write_apart([2, 3], write) == [4, 9]
    assert together == [[2, 3]]
    good, bad, after = write_apart([2, -1, 3], write)
    assert (good, type(bad), after) == (4, OverflowError, 9)
    assert together[1:] == [[2, -1, 3], [2], [-1], [3]]
    with pytest.raises(StoreUnavailable):
        write_apart([2, 0, -1], write)
    # what is written by then is not written again
    good, bad, *rest = write_apart([2, -1, 0, 3], write)
    assert (good, type(bad)) == (4, OverflowError)
    assert [type(error) for error in rest] == [StoreUnavailable, StoreUnavailable]
