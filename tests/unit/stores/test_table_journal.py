"""The journal: complete entries survive whatever happens to what follows them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.tables.journal import Journal, JournalReader

ENTRIES = [b"", b"one\n", bytes(range(256)) * 3]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """A journal of ENTRIES, and where each one ends."""
    path = tmp_path_factory.mktemp("journal") / "journal"
    journal, ends = Journal(path), []
    for one in ENTRIES:
        journal.write([one])
        ends.append(journal.size)
    journal.close()
    return path.read_bytes(), ends


def read(data: bytes) -> tuple[list[bytes], int]:
    reading = JournalReader(io.BytesIO(data))
    return list(reading), reading.damaged


def test_entries_are_read_as_they_were_written(written: tuple[bytes, list[int]]) -> None:
    assert read(written[0]) == (ENTRIES, 0)


def test_a_torn_tail_costs_only_the_last_entry(written: tuple[bytes, list[int]]) -> None:
    data, ends = written
    for size in range(len(data) + 1):
        complete = sum(end <= size for end in ends)
        assert read(data[:size]) == (ENTRIES[:complete], 0)


@given(st.data())
def test_changed_bytes_never_make_other_entries(
    written: tuple[bytes, list[int]], data: st.DataObject
) -> None:
    sound, ends = written
    place = data.draw(st.integers(0, len(sound) - 1))
    changed = bytearray(sound)
    changed[place] ^= data.draw(st.integers(1, 255))
    found, damaged = read(bytes(changed))
    hit = sum(end <= place for end in ends)
    assert found[:hit] == ENTRIES[:hit]
    assert [one for one in found[hit:] if one not in ENTRIES[hit + 1 :]] == []
    assert damaged or len(found) == hit


@given(st.binary(max_size=300))
def test_any_bytes_may_follow(written: tuple[bytes, list[int]], tail: bytes) -> None:
    assert read(written[0] + tail)[0] == ENTRIES


def test_a_journal_is_new(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.touch()
    with pytest.raises(StoreError, match=f"cannot create {path}"):
        Journal(path)


def test_a_full_disk_leaves_the_entries_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(ENTRIES[:1])

    def write(fd: int, data: memoryview) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return kernel(fd, data[: len(data) // 2])

    kernel = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(StoreUnavailable, match="No space left"):
            journal.write(ENTRIES[1:])
    assert not journal.is_broken
    journal.write(ENTRIES[2:])
    journal.close()
    assert read((tmp_path / "journal").read_bytes()) == ([ENTRIES[0], ENTRIES[2]], 0)
