"""The Bloom filter on disk: written without blocking the event loop, and without URLs that the engine may have lost."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page
from webcrawl.errors import StoreError
from webcrawl.frontier import Frontier, bloom
from webcrawl.frontier.bloom import BloomSeen

FIRST, SECOND, THIRD = ([batch * 10**6 + n for n in range(500)] for batch in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "seen" / "crawl.bloom"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints count as soon as the next one is written, without a wait."""
    monkeypatch.setattr(bloom, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(bloom, "WRITING_SHARE", 1.0)


def add(seen: BloomSeen, fingerprints: Iterable[int]) -> int:
    """Returns how many of them were new."""
    return sum(seen.add(fingerprint) for fingerprint in fingerprints)


def stored(path: Path, fingerprints: Iterable[int]) -> int:
    """Returns how many of them a new process would know."""
    seen = BloomSeen(path)
    return sum(not seen.add(fingerprint) for fingerprint in fingerprints)


async def test_a_saved_filter_is_known_to_the_next_process(path: Path) -> None:
    seen = BloomSeen(path)
    assert add(seen, FIRST) > 490
    assert add(seen, FIRST) == 0
    seen.save()
    assert stored(path, FIRST) == 500
    assert stored(path, SECOND) < 10
    seen.clear()
    assert (len(seen), stored(path, FIRST)) == (0, 0)


async def test_a_checkpoint_counts_only_after_the_settling_time(path: Path) -> None:
    """The engine may lose recently acknowledged URLs. A filter that kept them would make the crawl skip them."""
    seen = BloomSeen(path)
    add(seen, FIRST)
    await seen.checkpoint()
    await seen.checkpoint()
    assert stored(path, FIRST) == 0
    seen.reload()
    assert add(seen, FIRST) > 490, "after an outage the URLs must be sent again"


@pytest.mark.usefixtures("settled")
async def test_a_checkpoint_counts_with_the_next_one(path: Path) -> None:
    seen = BloomSeen(path)
    add(seen, FIRST)
    await seen.checkpoint()
    add(seen, SECOND)
    await seen.checkpoint()
    assert stored(path, FIRST) == 500
    assert stored(path, SECOND) < 10
    await seen.checkpoint()
    assert stored(path, SECOND) == 500, "a checkpoint without new URLs settles the previous one"
    seen.reload()
    assert add(seen, [*FIRST, *SECOND]) == 0


async def test_save_includes_unsettled_urls(path: Path) -> None:
    seen = BloomSeen(path)
    add(seen, FIRST)
    await seen.checkpoint()
    seen.save()
    assert stored(path, FIRST) == 500
    add(seen, SECOND)
    await seen.checkpoint()
    add(seen, THIRD)
    seen.save()
    assert stored(path, [*FIRST, *SECOND, *THIRD]) == 1500


@pytest.mark.usefixtures("settled")
async def test_urls_added_during_a_checkpoint_are_known_but_not_written(path: Path) -> None:
    seen = BloomSeen(path)
    add(seen, FIRST)
    path.parent.mkdir()
    pipe = path.with_suffix(".new")
    os.mkfifo(pipe)  # blocks the writing thread until the pipe is read
    writing = asyncio.create_task(seen.checkpoint())
    await asyncio.sleep(0)
    assert add(seen, SECOND) > 490, "the event loop is not blocked"
    assert (add(seen, SECOND), add(seen, FIRST)) == (0, 0)
    assert len(seen) > 980
    threading.Thread(target=pipe.read_bytes, daemon=True).start()
    with pytest.raises(StoreError):  # a pipe cannot seek; the filter stays intact
        await writing
    assert (add(seen, SECOND), add(seen, FIRST)) == (0, 0)
    pipe.unlink()
    seen.save()
    assert stored(path, [*FIRST, *SECOND]) == 1000


@pytest.mark.usefixtures("settled")
async def test_a_checkpoint_holds_the_urls_known_at_its_start(path: Path) -> None:
    """URLs added during the checkpoint may not be queued yet, so they must not be in it."""
    seen, numbers = BloomSeen(path), random.Random(1)
    before = [numbers.getrandbits(62) for _ in range(50_000)]
    known = add(seen, before)
    writing, during = asyncio.create_task(seen.checkpoint()), []
    await asyncio.sleep(0)
    while not writing.done():
        during.append(numbers.getrandbits(62))
        seen.add(during[-1])
        await asyncio.sleep(0)
    await writing
    await seen.checkpoint()
    path.with_suffix(".new").unlink(missing_ok=True)
    assert len(BloomSeen(path)) == known
    assert stored(path, before) == 50_000
    assert stored(path, during) <= max(5, len(during) // 50)
    assert add(seen, [*before, *during]) == 0


async def test_errors_name_an_unwritable_folder(path: Path) -> None:
    seen = BloomSeen(path)
    path.parent.write_text("a file is in the way")
    add(seen, FIRST)
    with pytest.raises(StoreError, match="crawl.bloom"):
        await seen.checkpoint()


def test_errors_name_a_damaged_file(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no filter")
    with pytest.raises(StoreError, match="crawl.bloom"):
        BloomSeen(path)


async def test_a_full_disk_pauses_the_crawl(frontier_of: Callable[..., Frontier], path: Path) -> None:
    frontier = frontier_of()
    consumer = Consumer(frontier, lambda url: page_with())
    # the file of a checkpoint cannot be written
    in_the_way = path.with_suffix(".new")
    in_the_way.mkdir(parents=True)
    worker = consumer.worker
    worker.intake._bloom = BloomSeen(path)
    consumer.start("http://a.test/", seeding=True)
    await consumer.until(lambda: worker.heartbeat.holds)
    assert "crawl.bloom" in worker.heartbeat.backpressure.reason
    worker.add(page("http://b.test/"))
    in_the_way.rmdir()
    worker.seeding = False
    assert await consumer.end() == "finished"
    assert consumer.fetched == {"http://a.test/": 1, "http://b.test/": 1}
    assert not worker.heartbeat.backpressure.reason
    assert len(BloomSeen(path)) == 2


async def test_a_crawl_ends_on_a_full_disk(
    frontier_of: Callable[..., Frontier], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(frontier_of(), lambda url: page_with())
    worker = consumer.worker
    worker.intake._bloom = BloomSeen(path)
    path.with_suffix(".new").mkdir(parents=True)
    consumer.start("http://a.test/")
    await consumer.until(lambda: worker.heartbeat.holds)
    await consumer.stop()
    assert worker.failure is None
    assert "The next run may fetch some pages again" in caplog.text
