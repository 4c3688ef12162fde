"""Backpressure of full or unavailable stores, measured on real disks."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import time
from pathlib import Path

import pytest

from webcrawl.documents import disk
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.backpressure import Backpressure
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.store_use import StoreUse


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webcrawl.stores.backpressure.POLL_SECONDS", 0.2)


def test_shortage_names_a_disk_with_too_little_space(tmp_path: Path) -> None:
    assert disk.shortage(tmp_path, 1) == ""
    assert f"the disk of {tmp_path}" in disk.shortage(tmp_path, 1 << 60)
    assert disk.shortage(tmp_path / "not yet there", 1 << 60) == ""


def test_a_disk_is_short_from_its_share_on(small_disk: Path) -> None:
    """At the boundary on a real file system: one block less is no shortage."""
    space = os.statvfs(small_disk)
    most = 0.7
    blocks = math.ceil(space.f_blocks * most)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * ((blocks - 1) * space.f_frsize))
    assert disk.shortage(small_disk, 0, most) == ""
    ballast.write_bytes(b"x" * (blocks * space.f_frsize))
    reason = disk.shortage(small_disk, 0, most)
    assert reason == f"70% of the disk of {small_disk} are used: STORE_MAX_SHARE is 70%"
    ballast.write_bytes(b"x" * space.f_bavail * space.f_frsize)
    assert disk.shortage(small_disk, 0) == "", "a share of 1 is no limit"


def test_a_quota_is_used_up_from_its_share_on(tmp_path: Path) -> None:
    use = StoreUse(FolderStore(tmp_path.as_uri()), 1_000, 0.7)
    assert (use.used, use.shortage) == (None, ""), "unknown before the first look"
    (tmp_path / "texts").mkdir()
    (tmp_path / "a").write_bytes(b"x" * 600)
    (tmp_path / "texts" / "b").write_bytes(b"x" * 99)
    use.look()
    assert (use.used, use.shortage) == (699, "")
    (tmp_path / "texts" / "b").write_bytes(b"x" * 100)
    assert use.shortage == "", "listed from time to time only"
    use.look()
    assert use.shortage == (
        f"70% of the 1.0 kB for {tmp_path} are used (STORE_QUOTA_BYTES): STORE_MAX_SHARE is 70%"
    )
    assert 5 <= use.pause <= 600
    (tmp_path / "a").unlink()
    use.look()
    assert (use.used, use.shortage) == (100, "")


def test_occupied_sums_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "b").write_bytes(b"12")
    (tmp_path / "other crawl").mkdir()
    (tmp_path / "other crawl" / "c").write_bytes(b"1")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert disk.occupied(tmp_path) == 6


def test_full_disk_is_unavailable_and_other_failures_are_not(tmp_path: Path) -> None:
    full = disk.failure("write", tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(full, StoreUnavailable)
    assert str(full) == f"cannot write {tmp_path}: No space left on device"
    assert type(disk.failure("write", tmp_path, OSError(errno.EIO, "broken"))) is StoreError


def test_write_is_retried_until_the_store_is_available() -> None:
    async def main() -> None:
        backpressure, left = Backpressure(), 2

        async def work() -> str:
            nonlocal left
            left -= 1
            if left >= 0:
                raise StoreUnavailable("the disk is full")
            return "done"

        storing = asyncio.create_task(backpressure.retry_until_available(work, asyncio.Event()))
        await asyncio.sleep(0.1)
        assert backpressure.reason == "the disk is full"
        assert await storing == "done"
        assert backpressure.reason == ""
        backpressure.shortage = "too little is free"
        assert backpressure.reason == "too little is free"

    asyncio.run(main())


def test_available_store_does_not_hide_an_unavailable_one() -> None:
    async def main() -> None:
        backpressure, full = Backpressure(), True

        async def work() -> None:
            if full:
                raise StoreUnavailable("the database is away")

        async def other() -> None:
            """A store that is available."""

        waiting = asyncio.create_task(backpressure.retry_until_available(work, asyncio.Event()))
        await asyncio.sleep(0.05)
        await backpressure.retry_until_available(other, asyncio.Event())
        assert backpressure.reason == "the database is away"
        full = False
        await waiting
        assert backpressure.reason == ""

    asyncio.run(main())


def test_brief_hold_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webcrawl.stores.backpressure._REFUSED_SECONDS", 0.5)
    backpressure = Backpressure()
    backpressure.hold_briefly("no room for a body")
    assert backpressure.reason == "no room for a body"
    time.sleep(0.51)
    assert backpressure.reason == ""


def test_other_failures_are_not_retried() -> None:
    async def broken() -> None:
        raise StoreError("damaged")

    with pytest.raises(StoreError, match="damaged"):
        asyncio.run(Backpressure().retry_until_available(broken, asyncio.Event()))


def test_retries_are_limited_during_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full() -> None:
        raise StoreUnavailable("the disk is full")

    async def main() -> None:
        ending = asyncio.Event()
        storing = asyncio.create_task(Backpressure().retry_until_available(full, ending))
        await asyncio.sleep(0.05)
        ending.set()
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(storing, 60)

    monkeypatch.setattr("webcrawl.stores.backpressure.SHUTDOWN_SECONDS", 0.1)
    asyncio.run(main())
