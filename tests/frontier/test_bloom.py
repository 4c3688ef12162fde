"""The Bloom filter on disk: written beside the event loop, and never knowing what the frontier may have lost."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from webcrawl.errors import StoreError
from webcrawl.frontier import bloom
from webcrawl.frontier.bloom import BloomSeen

FIRST, SECOND, THIRD = ([batch * 10**6 + n for n in range(500)] for batch in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "seen" / "crawl.bloom"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written counts with the next checkpoint."""
    monkeypatch.setattr(bloom, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(bloom, "WRITING_SHARE", 1.0)


def add(seen: BloomSeen, fingerprints: Iterable[int]) -> int:
    """How many of them were new."""
    return sum(seen.add(fingerprint) for fingerprint in fingerprints)


def stored(path: Path, fingerprints: Iterable[int]) -> int:
    """How many of them a process that starts now would know."""
    seen = BloomSeen(path)
    return sum(not seen.add(fingerprint) for fingerprint in fingerprints)


async def test_what_was_saved_is_known_to_the_next_process(path: Path) -> None:
    seen = BloomSeen(path)
    assert add(seen, FIRST) > 490
    assert add(seen, FIRST) == 0
    seen.save()
    assert stored(path, FIRST) == 500
    assert stored(path, SECOND) < 10
    seen.clear()
    assert (len(seen), stored(path, FIRST)) == (0, 0)


async def test_a_checkpoint_counts_only_when_the_engine_had_time_to_keep_its_urls(path: Path) -> None:
    """The engine may lose what it acknowledged in the last moments; a filter that knew it would have it skipped."""
    seen = BloomSeen(path)
    add(seen, FIRST)
    await seen.checkpoint()
    await seen.checkpoint()
    assert stored(path, FIRST) == 0
    seen.reload()
    assert add(seen, FIRST) > 490, "the engine was away: they are to be sent again"


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
    assert stored(path, SECOND) == 500, "nothing new had to be written for that"
    seen.reload()
    assert add(seen, [*FIRST, *SECOND]) == 0


async def test_the_last_save_takes_in_what_had_not_settled(path: Path) -> None:
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
async def test_what_is_added_during_a_checkpoint_is_remembered_but_not_in_it(path: Path) -> None:
    seen = BloomSeen(path)
    add(seen, FIRST)
    path.parent.mkdir()
    pipe = path.with_suffix(".new")
    os.mkfifo(pipe)  # the writing thread waits until somebody reads
    writing = asyncio.create_task(seen.checkpoint())
    await asyncio.sleep(0)
    assert add(seen, SECOND) > 490, "the loop goes on"
    assert (add(seen, SECOND), add(seen, FIRST)) == (0, 0)
    assert len(seen) > 980
    threading.Thread(target=pipe.read_bytes, daemon=True).start()
    with pytest.raises(StoreError):  # a pipe cannot be wound back; the filter is whole nevertheless
        await writing
    assert (add(seen, SECOND), add(seen, FIRST)) == (0, 0)
    pipe.unlink()
    seen.save()
    assert stored(path, [*FIRST, *SECOND]) == 1000


@pytest.mark.usefixtures("settled")
async def test_a_checkpoint_holds_what_was_known_when_it_began(path: Path) -> None:
    """However the two run against each other: what is added during it has not been queued yet."""
    seen, numbers = BloomSeen(path), random.Random(1)
    before = [numbers.getrandbits(62) for _ in range(150_000)]
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
    assert stored(path, before) == 150_000
    assert stored(path, during) <= max(5, len(during) // 50)
    assert add(seen, [*before, *during]) == 0


async def test_a_folder_that_cannot_be_written_is_named(path: Path) -> None:
    seen = BloomSeen(path)
    path.parent.write_text("a file is in the way")
    add(seen, FIRST)
    with pytest.raises(StoreError, match="crawl.bloom"):
        await seen.checkpoint()


def test_a_damaged_file_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no filter")
    with pytest.raises(StoreError, match="crawl.bloom"):
        BloomSeen(path)
