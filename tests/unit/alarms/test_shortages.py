"""Disks and spools that are nearly full, on a real file system of one megabyte."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from pathlib import Path

import pytest

from webcrawl.alarms.outbox import Notice
from webcrawl.alarms.shortages import shortages
from webcrawl.alarms.watcher import About
from webcrawl.config import StoreConfig
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.store_use import StoreUse

LEAST = 100_000
"""STORE_MIN_FREE_BYTES; nearly full is less than five times as much."""


def stores(
    folder: Path, pages: Path, *, database: Path | None = None, spool_max: int = 0, min_free: int = 0
) -> StoreConfig:
    uri = f"sqlite:///{database or folder / 'metadata.db'}"
    return StoreConfig(pages.as_uri(), uri, folder, spool_max=spool_max, min_free=min_free)


def told(stores: StoreConfig) -> list[Notice]:
    return shortages(stores, "crawler-1", About("news"))


def leave(disk: Path, free: int) -> None:
    """Fills a disk up to some bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    found = os.statvfs(disk)
    ballast.write_bytes(b"x" * (found.f_bavail * found.f_frsize - free))


def test_a_disk_is_told_before_workers_pause(small_disk: Path, tmp_path: Path) -> None:
    data = stores(small_disk, tmp_path, min_free=LEAST)
    leave(small_disk, 6 * LEAST)
    assert told(data) == []
    leave(small_disk, 4 * LEAST)
    (notice,) = told(data)
    assert (notice.kind, notice.title) == (
        "STORES",
        f"news: the disk of {small_disk} is nearly full on crawler-1",
    )
    assert re.fullmatch(
        r"39\d\.\d kB are free\. Below 100\.0 kB \(STORE_MIN_FREE_BYTES\), workers pause\.", notice.text
    )
    leave(small_disk, 0)
    assert [again.key for again in told(data)] == [notice.key], "the same notice all day"
    assert told(stores(small_disk, tmp_path)) == [], "workers do not pause for it"


def test_a_share_is_told_before_workers_pause(small_disk: Path) -> None:
    data = dataclasses.replace(stores(small_disk, small_disk), max_share=0.7)
    space = os.statvfs(small_disk)
    total = space.f_blocks * space.f_frsize
    leave(small_disk, math.ceil(0.4 * total))
    assert told(data) == []
    leave(small_disk, math.ceil(0.35 * total))
    (notice,) = told(data)
    assert notice.title == f"news: the disk of {small_disk} is nearly full on crawler-1"
    assert re.fullmatch(
        r"6[45]% are used, and \d+\.\d kB are free\. From 70% \(STORE_MAX_SHARE\) on, workers pause\.",
        notice.text,
    )


def test_a_quota_is_told_once_for_all_machines(small_disk: Path) -> None:
    pages = small_disk / "pages"
    pages.write_bytes(b"x" * 629)
    data = dataclasses.replace(stores(small_disk, small_disk), max_share=0.7, quota=1_000)
    use = StoreUse(FolderStore(small_disk.as_uri()), data.quota, data.max_share)
    assert shortages(data, "crawler-1", About("news"), use) == [], "nothing was listed yet"
    use.look()
    assert shortages(data, "crawler-1", About("news"), use) == []
    pages.write_bytes(b"x" * 631)
    use.look()
    notices = [shortages(data, machine, About("news"), use)[-1] for machine in ("crawler-1", "crawler-2")]
    assert notices[0].key == notices[1].key
    assert notices[0].title == "news: the quota of the store is nearly full"
    assert notices[0].text == (
        f"63% of the 1.0 kB for {small_disk} are used (STORE_QUOTA_BYTES). "
        "From 70% (STORE_MAX_SHARE) on, workers pause."
    )


def test_the_disk_of_the_archive_counts_too(small_disk: Path, tmp_path: Path) -> None:
    """Also in a folder whose name has a space, and once it exists."""
    archive = small_disk / "the archive"
    leave(small_disk, 4 * LEAST)
    data = stores(tmp_path, archive, min_free=LEAST)
    assert told(data) == []
    archive.mkdir()
    assert [notice.title for notice in told(data)] == [
        f"news: the disk of {archive} is nearly full on crawler-1"
    ]


def test_a_disk_is_told_once_whatever_is_on_it(small_disk: Path) -> None:
    (small_disk / "warc").mkdir()
    leave(small_disk, 4 * LEAST)
    data = stores(small_disk, small_disk / "warc", min_free=LEAST)
    assert [notice.title for notice in told(data)] == [
        f"news: the disk of {small_disk} is nearly full on crawler-1"
    ]


def test_the_disk_of_the_database_counts_too(small_disk: Path, tmp_path: Path) -> None:
    leave(small_disk, 4 * LEAST)
    (notice,) = told(stores(tmp_path, tmp_path, database=small_disk / "pages.db", min_free=LEAST))
    assert notice.title == f"news: the disk of {small_disk} is nearly full on crawler-1"
    assert notice.text.endswith(" kB are free. When it is full, workers wait: it has the database.")


@pytest.mark.parametrize(("waiting", "is_told"), [(8_000, False), (8_200, True)])
def test_a_spool_is_told_above_four_fifths(tmp_path: Path, waiting: int, *, is_told: bool) -> None:
    folder = tmp_path / "spool" / "pages" / "news"
    folder.mkdir(parents=True)
    (folder / "a.warc.gz").write_bytes(b"x" * (waiting - 100))
    (tmp_path / "spool" / "b").write_bytes(b"x" * 100)
    notices = told(stores(tmp_path, tmp_path / "warc", spool_max=10_000))
    assert [notice.title for notice in notices] == is_told * [
        f"news: the spool {tmp_path}/spool is nearly full on crawler-1"
    ]
    assert told(stores(tmp_path, tmp_path / "warc")) == [], "without a limit it cannot be full"
    if is_told:
        assert notices[0].text == (
            "8.2 kB wait to be uploaded. At 10.0 kB (STORE_SPOOL_MAX_BYTES), workers pause."
        )
