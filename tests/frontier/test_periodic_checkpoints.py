"""Checkpoints from time to time: one process writes, another continues, the latest are kept, failures are noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.copying import exporter_of
from tests.frontier.pages import page
from webcrawl.errors import StoreError
from webcrawl.frontier import Frontier
from webcrawl.frontier.checkpoint.files import Manifest
from webcrawl.frontier.checkpoint.periodic import (
    KEPT,
    CheckpointState,
    PeriodicCheckpoints,
    checkpoint_state,
    complete,
)
from webcrawl.frontier.checkpoint.save import save
from webcrawl.stores.objects.folder import FolderStore

EVERY = 100.0


@dataclass
class Crawled:
    """A crawl whose processes may write checkpoints, at a time that tests set. `broken`: why none can be written."""

    frontier: Frontier
    folder: Path
    now: float = 1_800_000_000.0
    broken: str = ""

    def process(self, name: str) -> PeriodicCheckpoints:
        async def write(stamp: str) -> Manifest:
            if self.broken:
                raise StoreError(self.broken)
            store = FolderStore((self.folder / stamp).as_uri())
            return await save(exporter_of(self.frontier, name), store, force=True)

        frontier = self.frontier
        store = FolderStore(self.folder.as_uri())
        clock = lambda: self.now  # noqa: E731
        return PeriodicCheckpoints(frontier.engine, frontier.keys, name, store, EVERY, write, clock=clock)

    async def state(self) -> CheckpointState:
        state = await checkpoint_state(self.frontier.engine, self.frontier.keys)
        assert state is not None
        return state

    @property
    def written(self) -> list[str]:
        return complete(FolderStore(self.folder.as_uri()))


@pytest.fixture
def crawled(frontier: Frontier, tmp_path: Path) -> Crawled:
    return Crawled(frontier, tmp_path)


async def test_one_process_writes_when_it_is_time_and_keeps_the_latest(crawled: Crawled) -> None:
    await crawled.frontier.add([page("http://a.test/1"), page("http://a.test/2")])
    assert await checkpoint_state(crawled.frontier.engine, crawled.frontier.keys) is None
    writer, other = crawled.process("one"), crawled.process("two")
    assert await writer.look() is None, "not at once"
    assert await crawled.state() == CheckpointState(every=EVERY, since=crawled.now)
    crawled.now += EVERY - 1
    assert await writer.look() is None and await other.look() is None
    for number in range(1, KEPT + 3):
        crawled.now += EVERY
        assert await other.look() is None, "another process has the lock"
        state = await writer.look()
        assert state == await crawled.state()
        assert state is not None and (state.at, state.urls, state.failed) == (crawled.now, 2, 0)
        assert await writer.look() is None, "once"
        assert len(crawled.written) == min(number, KEPT)
        assert state.uri == str(crawled.folder / crawled.written[-1])


async def test_another_process_continues_when_the_writer_is_gone(crawled: Crawled, valkey: Redis) -> None:
    writer, other = crawled.process("one"), crawled.process("two")
    await writer.look()
    (lock,) = valkey.keys("*:checkpointer")
    assert 50_000 < valkey.pttl(lock) <= 60_000
    valkey.delete(lock)  # it expires after a kill
    crawled.now += EVERY
    assert await other.look() is not None
    assert await writer.look() is None
    await other.leave()
    crawled.now += EVERY
    assert await writer.look() is not None, "at once after a process that ended"


async def test_a_failure_is_noted_and_tried_again(crawled: Crawled) -> None:
    writer = crawled.process("one")
    await writer.look()
    crawled.now += EVERY
    began, crawled.broken = crawled.now, "no access"
    for _ in range(3):
        with pytest.raises(StoreError, match="no access"):
            await writer.look()
        assert await writer.look() is None, "not before a pause"
        state = await crawled.state()
        assert (state.failed, state.error, state.at) == (began, "no access", 0)
        crawled.now += 60
    crawled.broken = ""
    state = await writer.look() or CheckpointState()
    assert (state.failed, state.error, state.at) == (0, "", crawled.now)


async def test_a_new_engine_counts_from_the_last_checkpoint_of_the_store(
    crawled: Crawled, frontier_of: Callable[..., Frontier]
) -> None:
    writer = crawled.process("one")
    await writer.look()
    crawled.now += EVERY
    await writer.look()
    crawled.frontier = frontier_of("restored")
    crawled.now += EVERY - 1
    again = crawled.process("two")
    assert await again.look() is None
    assert (await crawled.state()).uri == str(crawled.folder / crawled.written[-1])
    crawled.now += 1
    assert await again.look() is not None


async def test_a_state_of_another_version_begins_anew(crawled: Crawled, valkey: Redis) -> None:
    key = crawled.frontier.keys.own("checkpoint")
    valkey.set(key, '{"unknown":1}')
    assert await checkpoint_state(crawled.frontier.engine, crawled.frontier.keys) is None
    await crawled.process("one").look()
    assert (await crawled.state()).since == crawled.now
