"""Written records stay readable after truncation at any byte, full disks and killed writers."""

from __future__ import annotations

import errno
import gzip
import io
import json
import multiprocessing
import os
import signal
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.processes import file_size_limit
from tests.unit.warcs import check, exchange, one_file, replay, warcs
from webcrawl.errors import StoreError
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.warc.files import OPEN, read_record
from webcrawl.stores.warc.reading import inflated, members
from webcrawl.stores.warc.records import Record
from webcrawl.stores.warc.repair import repair
from webcrawl.stores.warc.writer import WarcWriter

BODIES = st.builds(bytes.__mul__, st.binary(max_size=300), st.integers(1, 3_000))


def test_open_file_is_readable_and_ignored_by_repair(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    place = writer.write(exchange("a"))
    assert repair(tmp_path) == []
    assert (tmp_path / (place.file + OPEN)).exists()
    assert read_record(tmp_path / place.file, place.offset, place.length).payload == b"<p>body"
    writer.close()
    assert read_record(tmp_path / place.file, place.offset, place.length).payload == b"<p>body"
    assert repair(tmp_path) == []


def test_repair_keeps_the_whole_records_of_a_file_cut_anywhere(tmp_path: Path) -> None:
    with WarcWriter(tmp_path / "whole", "crawl", "x") as writer:
        first = writer.write(exchange("first"), {"via": "a"})
        rendered = replace(exchange("last"), request_head=b"", response_head=b"", status=404)
        last = writer.write(rendered, {"via": "b"})
    data = one_file(tmp_path / "whole").read_bytes()
    whole_index = next((tmp_path / "whole").glob("*.cdxj")).read_bytes()
    facts = [json.loads(line.split(b" ", 2)[2]) for line in whole_index.splitlines()]
    assert [one["status"] for one in facts] == ["200", "404"]
    whole = [offset + length for offset, length, _ in members(io.BytesIO(data))]
    ends = {end: number for number, end in enumerate(whole, 1)}
    near = [end + step for end in ends for step in range(-9, 13)]
    middles = range(first.offset, len(data) + 1, 29)
    for cut in sorted({*near, *middles} & set(range(first.offset, len(data) + 1))):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / (last.file + OPEN)).write_bytes(data[:cut])
        assert repair(folder) == [folder / last.file]
        assert repair(folder) == []
        assert sorted(p.name for p in folder.iterdir()) == [
            last.file.replace(".warc.gz", ".cdxj"),
            last.file,
        ]
        end = max(end for end in ends if end <= cut)
        assert (folder / last.file).read_bytes() == data[:end]
        assert len(replay(folder / last.file)) == ends[end]
        index = next(folder.glob("*.cdxj")).read_bytes()
        there = [place for place in (first, last) if place.offset < end]
        assert index == b"".join(whole_index.splitlines(keepends=True)[: len(there)])


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"garbage", b"\x1f\x8b\x08\0"])
def test_repair_removes_trailing_garbage(tmp_path: Path, tail: bytes) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        writer.write(exchange("a", os.urandom(200_000)))
    path = one_file(tmp_path)
    whole = path.read_bytes()
    leftover = path.with_name(path.name + OPEN)
    path.rename(leftover)
    leftover.write_bytes(whole + tail)
    assert repair(tmp_path) == [path]
    assert path.read_bytes() == whole


@given(st.lists(BODIES, max_size=6), st.integers(0, 9), st.integers(0, 30))
def test_members_finds_every_gzip_member(bodies: list[bytes], level: int, torn: int) -> None:
    whole = [b"".join(Record({}, (body,)).member(level)) for body in bodies]
    offsets = [0, *accumulate(map(len, whole))]
    data = b"".join([*whole, gzip.compress(b"torn")[:torn]]) if torn < 24 else b"".join(whole)
    found = list(members(io.BytesIO(data)))
    assert [(offset, length) for offset, length, _ in found] == [
        (offset, len(member)) for offset, member in zip(offsets, whole, strict=False)
    ]
    assert all(
        start == inflated(member)[: 1 << 16] for (_, _, start), member in zip(found, whole, strict=True)
    )


def test_repair_handles_highly_compressed_bodies(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "x") as writer:
        places = [writer.write(exchange(f"{n}", b"a" * 50_000_000)) for n in range(2)]
    path = one_file(tmp_path)
    whole = path.read_bytes()
    path.with_name(path.name + OPEN).write_bytes(whole[:-1])
    path.unlink()
    assert repair(tmp_path) == [path]
    assert whole.startswith(path.read_bytes())
    assert path.stat().st_size == places[1].offset + places[1].length


def test_repair_removes_files_without_records(tmp_path: Path) -> None:
    (tmp_path / f"crawl-1.warc.gz{OPEN}").write_bytes(b"\x1f\x8b")
    (tmp_path / f"crawl-2.warc.gz{OPEN}").touch()
    assert repair(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert repair(tmp_path / "missing") == []


def _write_until_killed(folder: Path, written: str) -> None:
    writer = WarcWriter(folder, "crawl", "x", roll_bytes=200_000)
    with open(written, "a", buffering=1) as log:
        for number in range(1_000_000):
            place = writer.write(exchange(f"{number}", os.urandom(500)))
            log.write(f"{place.file} {place.offset} {place.length} {number}\n")


def test_records_survive_a_killed_writer(tmp_path: Path) -> None:
    folder, log = tmp_path / "warc", tmp_path / "log"
    log.touch()
    process = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(folder, str(log)))
    process.start()
    try:
        while log.read_bytes().count(b"\n") < 500:
            assert process.is_alive()
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
    assert len(repair(folder)) == 1
    lines = log.read_text().splitlines()
    assert len(lines) >= 500
    for file, offset, length, number in map(str.split, lines):
        record = read_record(folder / file, int(offset), int(length))
        assert record.headers["WARC-Target-URI"] == f"http://www.example.org/{number}"
    for path in warcs(folder):
        check(path)


def test_open_file_of_a_dead_worker_is_closed_by_another_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.stores.folder_archive._REPAIR_SECONDS", 0.0)
    living = FolderArchive(tmp_path)
    dead = WarcWriter(tmp_path, "crawl", "x")
    place = dead.write(exchange("a"))
    assert living.tend() == ""
    assert warcs(tmp_path) == [], "the writer is still alive"
    assert dead._fd is not None
    os.close(dead._fd)
    assert living.tend() == ""
    assert [path.name for path in warcs(tmp_path)] == [place.file]
    assert living.closed == 1


@pytest.mark.parametrize("before", [0, 1])
def test_failed_write_leaves_a_valid_file(tmp_path: Path, before: int) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    for _ in range(before):
        writer.write(exchange("before"))
    with (
        file_size_limit(10_000),
        pytest.raises(StoreError, match=r"crawl-.*\.warc\.gz\.open: File too large"),
    ):
        writer.write(exchange("big", os.urandom(50_000)))
    after = writer.write(exchange("after"))
    writer.close()
    path = one_file(tmp_path)
    check(path)
    assert [kind for kind, _, _ in replay(path)] == ["warcinfo"] + ["response", "request"] * (before + 1)
    assert read_record(path, after.offset, after.length).headers["WARC-Target-URI"].endswith("/after")


def test_file_with_only_failed_writes_is_removed(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "crawl", "x")
    with file_size_limit(100), pytest.raises(StoreError):
        writer.write(exchange("a"))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_created_raises_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=os.strerror(errno.ENOTDIR)):
        WarcWriter(tmp_path / "file" / "warc", "crawl", "x").write(exchange())
