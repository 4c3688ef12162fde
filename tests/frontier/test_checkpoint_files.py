"""Checkpoint files: written, damaged, replaced, and restored after an interruption."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.cases import cases
from tests.frontier.cold import cold_hosts_of
from tests.frontier.contents import Contents
from tests.frontier.copying import exporter_of
from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.checkpoint.files import load_manifest
from webcrawl.frontier.checkpoint.restore import Importer
from webcrawl.frontier.checkpoint.save import load, save
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.objects.store import location, open_store

Frontiers = Callable[..., Frontier]

URLS = [f"http://{letter}.test/{n}" for letter in "abcdef" for n in range(4)]


class Copy:
    """A crawl of four shards, its checkpoint, and the crawl "copy" restored from it."""

    def __init__(self, crawl: Frontier, copy: Frontier, folder: Path) -> None:
        self.crawl, self.copy = crawl, copy
        self.folder = folder
        self.store = FolderStore(folder.as_uri())
        self.record = Crawl(copy.engine, copy.keys, "w1")
        self.cold_hosts: ColdHosts | None = None

    async def save(self, *, force: bool = False, name: str = "x") -> list[str]:
        """Returns the names of the files."""
        exporter = exporter_of(self.crawl, name)
        await save(exporter, self.store, force=force)
        return sorted(path.name for path in self.folder.iterdir())

    async def load(self, *, force: bool = False, name: str = "r") -> None:
        importer = Importer(self.copy.engine, self.copy.keys, name)
        await load(importer, self.store, self.record, self._clear, self._begun, self._restored, force=force)

    async def _begun(self) -> None:
        assert await self.record.restoring()

    async def _restored(self) -> None:
        for shard in range(self.copy.keys.shards) if self.cold_hosts else ():
            await self.cold_hosts.move(shard)

    async def _clear(self) -> None:
        await self.copy.clear()
        await self.record.forget()

    def change_manifest(self, **changes: Any) -> None:
        path = self.folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def copy(frontier_of: Frontiers, tmp_path: Path) -> Copy:
    return Copy(frontier_of(), frontier_of("copy", shards=3), tmp_path / "a" / "folder")


async def test_a_checkpoint_is_restored_from_files(copy: Copy, valkey: Redis) -> None:
    await copy.crawl.add([page(url) for url in URLS])
    files = await copy.save()
    assert len(files) == 6
    await copy.load()
    contents = Contents.read(valkey, copy.copy.keys)
    assert sorted(f"{host}{row[0]}" for host, rows in contents.queues.items() for row in rows) == URLS
    assert (await copy.copy.counts()).seen == len(URLS)
    assert await copy.record.begin()
    assert not [key for key in valkey.scan_iter() if b"restor" in key]


async def test_idle_hosts_move_to_the_store_when_all_that_is_known_of_them_is_restored(
    copy: Copy, tmp_path: Path
) -> None:
    hosts = [f"http://{letter}.test" for letter in "abcdef"]
    for host in hosts:
        prefix = copy.crawl.keys.queue(copy.crawl.keys.shard(host))[0]
        for name, value in (("spent", "2 30"), ("trust", struct.pack("<ddI", 1.0, 1.0, 0))):
            await copy.crawl.engine.client.hset(prefix + name, host, value)
    await copy.save()
    copy.cold_hosts = cold_hosts_of(copy.copy, tmp_path)
    await copy.load()
    known = await copy.cold_hosts.read(hosts)
    assert {host: (facts["spent"], facts["trust"][-4:]) for host, facts in known.items()} == dict.fromkeys(
        hosts, (b"2 30", bytes(4))
    )
    prefixes = [copy.copy.keys.queue(shard)[0] for shard in range(copy.copy.keys.shards)]
    trusted = [await copy.copy.engine.client.get(prefix + "trusted") for prefix in prefixes]
    assert sum(float(amount or 0) for amount in trusted) == len(hosts)


async def test_a_checkpoint_is_replaced_only_with_force_and_when_complete(copy: Copy) -> None:
    await copy.crawl.add([page(URLS[0])])
    files = await copy.save()
    with pytest.raises(StoreError, match="--force replaces it"):
        await copy.save()
    await copy.crawl.add([page(url) for url in URLS])
    other = exporter_of(copy.crawl, "other")
    await other.begin()
    with pytest.raises(StoreError, match="already being copied"):
        await copy.save(force=True)
    assert sorted(path.name for path in copy.folder.iterdir()) == files
    await other.end()
    newer = await copy.save(force=True)
    assert set(newer) & set(files) == {"manifest.json"}
    assert len(newer) == len(files)
    await copy.load()
    assert (await copy.copy.counts()).queued == len(URLS)
    (copy.folder / "manifest.json").write_text("{")
    await copy.save(force=True)


async def test_a_crawl_is_replaced_only_with_force_and_without_workers(copy: Copy) -> None:
    await copy.crawl.add([page(url) for url in URLS])
    await copy.save()
    await copy.record.begin()
    await copy.copy.add([page("http://other.test/")])
    with pytest.raises(StoreError, match="--force deletes it first"):
        await copy.load()
    await copy.record.workers.beat()
    with pytest.raises(StoreError, match="has running workers .1.: stop"):
        await copy.load(force=True)
    assert (await copy.copy.counts()).queued == 1
    await copy.record.workers.leave()
    await copy.load(force=True)
    assert (await copy.copy.counts()).queued == len(URLS)


async def test_a_killed_restore_locks_the_crawl_until_it_is_repeated(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copy.crawl.add([page(url) for url in URLS])
    await copy.save()
    real, files = Importer.load, []

    async def killed(self: Importer, records: Any) -> None:
        files.append(records)
        if len(files) == 4:
            raise KeyboardInterrupt
        await real(self, records)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Importer, "load", killed)
        await copy.load()
    assert 0 < (await copy.copy.counts()).queued < len(URLS)
    with pytest.raises(ConfigurationError, match="only partly restored by r: .* run scrapy restore again"):
        await copy.record.begin()
    first = Importer(copy.copy.engine, copy.copy.keys, "first")
    await first.hold()
    with pytest.raises(StoreError, match="is being restored by first"):
        await copy.load()
    await first.release()
    await copy.load()
    assert (await copy.copy.counts()).queued == len(URLS)
    assert await copy.record.begin()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "there is no checkpoint at .* no manifest.json"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest.json at .* is damaged"),
        (lambda folder: next(folder.glob("shard-00002-*")).unlink(), "is missing"),
        (
            lambda folder: next(folder.glob("shard-00002-*")).write_bytes(gzip.compress(b"another")),
            "is damaged: its checksum differs from that in manifest.json",
        ),
    ],
)
async def test_damage_is_found_before_the_crawl_changes(
    copy: Copy, damage: Callable[[Path], object], message: str
) -> None:
    await copy.crawl.add([page(url) for url in URLS])
    await copy.save()
    damage(copy.folder)
    await copy.record.begin()
    await copy.copy.add([page("http://other.test/")])
    with pytest.raises(StoreError, match=message):
        await copy.load(force=True)
    assert (await copy.copy.counts()).queued == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"format": 99, "version": "9.1"},
            "has format 99, and .* reads 5 to 8: restore it with webcrawl 9.1",
        ),
        ({"format": 4, "version": "0.0"}, "has format 4, and .* reads 5 to 8: restore it with webcrawl 0.0"),
        ({"files": None}, "is damaged"),
        ({"files": [{"name": "../other.wcf.gz", "bytes": 1, "sha256": ""}]}, "not a file of a checkpoint"),
        ({"more": 1}, "is damaged"),
    ],
)
async def test_invalid_manifests_are_refused(copy: Copy, change: dict[str, Any], message: str) -> None:
    await copy.save()
    copy.change_manifest(**change)
    with pytest.raises(StoreError, match=message):
        await copy.load()


@pytest.mark.parametrize("lost", ["crawl", "shard-00000", "shard-00003"])
async def test_a_manifest_without_a_file_of_the_crawl_is_refused(copy: Copy, lost: str) -> None:
    await copy.save()
    await copy.copy.add([page(URLS[0])])
    files = json.loads((copy.folder / "manifest.json").read_text())["files"]
    copy.change_manifest(files=[file for file in files if not file["name"].startswith(lost)])
    with pytest.raises(StoreError, match=f"is damaged: it names no file {lost}"):
        await copy.load(force=True)
    assert (await copy.copy.counts()).queued == 1, "the crawl that there was"


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (b"\xff\xff\xff\xff", "a record has 4,294,967,295 bytes"),
        (b"\0\0\0\x09\x91", "a record is cut short"),
        (b"\0\0\0\x01\x01", "cannot be read"),
        (b"\0\0\0\x02\x91\x01", "cannot be read"),
        (b"\0\0\x20\0" + b"\x91" * 8192, "cannot be read"),
        (b"\0\0\0\x09\x92\xa5later\x91\x01", "is damaged: TypeError"),
        (b"\0\0\0\x07\x91\xa5other", "records that this version of webcrawl does not know"),
    ],
)
async def test_damaged_records_end_in_a_line(copy: Copy, frames: bytes, message: str) -> None:
    """Their checksums are right: whoever wrote them wrote the manifest too."""
    await copy.save()
    path = next(copy.folder.glob("shard-00002-*"))
    path.write_bytes(gzip.compress(frames))
    files = json.loads((copy.folder / "manifest.json").read_text())["files"]
    for file in files:
        if file["name"] == path.name:
            file["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    copy.change_manifest(files=files)
    with pytest.raises(StoreError, match=message):
        await copy.load()


def test_a_manifest_has_a_bound(tmp_path: Path) -> None:
    store = FolderStore(tmp_path.as_uri())
    for manifest, message in (
        (b"[" * 100_000, "is damaged"),
        (b" " * (2**24 + 1), "more than 16,777,216 bytes"),
    ):
        (tmp_path / "manifest.json").write_bytes(manifest)
        with pytest.raises(StoreError, match=message):
            load_manifest(store)


async def test_the_next_checkpoint_removes_what_a_killed_one_left(copy: Copy) -> None:
    left = copy.folder / ".unfinished-1"
    left.mkdir(parents=True)
    (left / "shard").touch()
    with copy.store.workspace() as in_use:
        await copy.save()
        assert not left.exists()
        assert in_use.exists()


async def test_a_checkpoint_of_the_format_before_is_restored(copy: Copy) -> None:
    await copy.crawl.add([page("http://a.test/")])
    await copy.save()
    copy.change_manifest(format=5)
    await copy.load()
    assert (await copy.copy.counts()).queued == 1


async def test_a_restore_needs_the_number_of_shards_of_the_other_crawls(copy: Copy) -> None:
    await Crawl(copy.crawl.engine, Keys("third", 5), "w1").begin()
    await copy.save()
    with pytest.raises(StoreError, match="restore with -s FRONTIER_SHARDS=5"):
        await copy.load()
    assert not await copy.record.exists()


@cases("uri", ["ftp://host/folder", "file://host/folder", "file:relative", ""])
def test_unsupported_locations_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=f"checkpoint must .* not {uri!r}"):
        open_store(location(uri), "checkpoint")


async def test_errors_name_an_unwritable_folder(copy: Copy, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(StoreError, match="/a/folder"):
        await copy.save()
    assert not await copy.crawl.engine.client.keys("*:copying")
