"""The files with the links of pages: what workers remember is read again, whatever became of the files."""

from __future__ import annotations

import logging
import os
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from webcrawl.frontier import link_memory
from webcrawl.frontier.link_memory import LinkMemory, forget, has_some, number_of, remembered

URLS = [f"https://example.org/{name}" for name in "abcdefgh"]
NUMBERS = np.array(sorted(map(number_of, URLS)), np.uint32)
IN_ORDER = sorted(URLS, key=number_of)

links = st.lists(st.sampled_from([*URLS, "https://example.org/never-fetched"]), unique=True)
fetches = st.lists(st.tuples(st.sampled_from(URLS), links), min_size=1)


def read(folder: Path) -> dict[str, list[str]]:
    """The links between pages, by URL."""
    found = remembered(folder, NUMBERS)
    assert found is not None
    first = found.first.tolist()
    between = {
        IN_ORDER[page]: [IN_ORDER[place] for place in found.targets[start:end]]
        for page, (start, end) in enumerate(zip(first, first[1:], strict=False))
    }
    assert found.known >= sum(map(bool, between.values()))
    return {page: targets for page, targets in between.items() if targets}


@given(fetches)
def test_the_links_between_pages_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, fetched: list[tuple[str, list[str]]]
) -> None:
    folder, expected = tmp_path_factory.mktemp("links"), dict[str, list[str]]()
    for place, (page, targets) in enumerate(fetched):
        # a worker after another: which fetch of a page is the last is known by the times of the files
        memory = LinkMemory(folder, f"machine:{place}:x")
        memory.remember(page, targets)
        memory.close()
        os.utime(folder / f"machine:{place}:x.links", (place, place))
        expected[page] = [one for one in targets if one in URLS and one != page]
    assert read(folder) == {page: targets for page, targets in expected.items() if targets}


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert remembered(tmp_path, NUMBERS) is None


def test_one_file_has_many_pages_and_is_opened_again(tmp_path: Path) -> None:
    memory = LinkMemory(tmp_path / "made", "machine:1:x")
    assert not has_some(tmp_path / "made")
    for page in URLS:
        memory.remember(page, URLS[:3])
        memory.close()
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["machine:1:x.links"]
    found = read(tmp_path / "made")
    assert set(found[URLS[5]]) == set(URLS[:3])
    assert set(found[URLS[0]]) == set(URLS[1:3]), "a link to the page itself does not count"


def test_a_page_that_is_read_anew_has_its_last_links(tmp_path: Path) -> None:
    memory = LinkMemory(tmp_path, "machine:1:x")
    memory.remember(URLS[0], URLS[1:6])
    memory.remember(URLS[0], URLS[6:7])
    memory.close()
    assert read(tmp_path) == {URLS[0]: URLS[6:7]}


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_record_that_a_kill_has_cut_is_left_out(tmp_path: Path, cut: int) -> None:
    memory = LinkMemory(tmp_path, "machine:1:x")
    memory.remember(URLS[0], URLS[1:3])
    memory.remember(URLS[1], URLS[2:4])
    memory.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - cut)
    assert set(read(tmp_path)) == {URLS[0]}


def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    numbers = array("I", [number_of(URLS[0]), 1, number_of(URLS[1]), number_of(URLS[2]), 2**32 - 1, 7])
    (tmp_path / "machine:1:x.links").write_bytes(numbers.tobytes())
    assert read(tmp_path) == {URLS[0]: [URLS[1]]}


def test_pages_without_links_are_known_too(tmp_path: Path) -> None:
    memory = LinkMemory(tmp_path, "machine:1:x")
    for page in URLS:
        memory.remember(page, ())
    memory.close()
    found = remembered(tmp_path, NUMBERS)
    assert found is not None
    assert (found.known, len(found.targets)) == (len(URLS), 0)
    nothing = remembered(tmp_path, NUMBERS[:0])
    assert nothing is not None
    assert nothing.first.tolist() == [0]


def test_a_worker_stops_at_its_most_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_memory, "MOST_LINKS", 10)
    monkeypatch.setattr(link_memory, "_MOST_BYTES", 80)
    for worker in range(2):
        memory = LinkMemory(tmp_path, f"machine:{worker}:x")
        for page in URLS:
            memory.remember(page, URLS[:3])
        memory.close()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [3 * 5 * 4] * 2
    assert remembered(tmp_path, NUMBERS) is None, "there are too many"


def test_a_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    memory = LinkMemory(tmp_path / "file" / "folder", "machine:1:x")
    with caplog.at_level(logging.WARNING):
        for page in URLS:
            memory.remember(page, URLS)
        memory.flush()
        memory.close()
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.text


def test_a_full_disk_ends_it_without_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "machine:1:x.links").symlink_to("/dev/full")
    memory = LinkMemory(tmp_path, "machine:1:x")
    with caplog.at_level(logging.WARNING):
        memory.remember(URLS[0], URLS)
        memory.flush()
        memory.remember(URLS[1], URLS)
        memory.close()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_files_are_forgotten_and_others_are_not(tmp_path: Path) -> None:
    memory = LinkMemory(tmp_path, "machine:1:x")
    memory.remember(URLS[0], URLS)
    memory.close()
    (tmp_path / "other").write_text("")
    forget(tmp_path)
    forget(tmp_path / "missing")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
