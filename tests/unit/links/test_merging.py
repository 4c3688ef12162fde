"""Small files are merged; whenever the process is killed, no row is lost, and readers of the store see none twice."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.links.rows import entry, table
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links import merging
from webcrawl.links.merging import merge, merge_files
from webcrawl.links.questions import links_from, links_to
from webcrawl.links.sources import LinkFile, link_files
from webcrawl.links.store import LinkStore
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.tables import merges

HOME = "http://a.example/"


class Killed(BaseException):
    """Ends a merge where a kill would."""


class Fragile(FolderStore):
    """A folder whose process is killed after some changes."""

    def __init__(self, folder: Path, changes: int) -> None:
        super().__init__(folder.as_uri())
        self._left = changes

    def put(self, name: str, data: bytes) -> None:
        self._change()
        super().put(name, data)

    def move_file(self, name: str, path: Path) -> None:
        self._change()
        super().move_file(name, path)

    def delete(self, name: str) -> None:
        self._change()
        super().delete(name)

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


def config(folder: Path) -> StoreConfig:
    return StoreConfig(folder.as_uri(), "sqlite://", folder, links=folder.as_uri())


def fill(folder: Path, sizes: list[int]) -> None:
    """Writes a file for each size: as many pages, each with a link to HOME and one to a page of its own."""
    for number, size in enumerate(sizes):
        store = LinkStore(folder, f"crawl{number}")
        urls = [f"{HOME}{number}/{page}" for page in range(size)]
        store.write([entry(url, HOME, f"{url}/x", crawl=f"crawl{number}", text=f"to {url}") for url in urls])
        store.close()


def parquet(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


@settings(max_examples=15)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(0, 12), st.integers(0, 12))
def test_a_killed_merge_is_finished_by_the_next_reader(sizes: list[int], first: int, second: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        patch.setattr(merging, "FULL_ROWS", 12)
        folder = Path(name)
        fill(folder, sizes)
        before = table(folder)
        for changes in (first, second):
            try:
                merge(Fragile(folder, changes), folder)
            except Killed:
                seen = links_to(link_files(config(folder)).openers, [HOME])
                assert sorted(seen["from_url"].to_pylist()) == sorted(
                    row["from_url"] for row in before if row["to_url"] == HOME
                )
                assert table(folder) == before, "a reader that knows no notes sees each row once"
        merge_files(config(folder))
        assert table(folder) == before
        small = [path for path in parquet(folder) if len(LinkFile(str(path), path)) < 6]
        assert len(small) <= 1
        assert {path.suffix for path in folder.iterdir()} == {".parquet"}
        assert merge_files(config(folder)) == (0, 0)


def test_a_merged_file_is_sorted_and_answers_like_the_others(tmp_path: Path) -> None:
    fill(tmp_path, [3, 2, 4])
    questions: list[Any] = [
        lambda: links_to(link_files(config(tmp_path)).openers, [HOME]).to_pylist(),
        lambda: links_from(link_files(config(tmp_path)).openers, [f"{HOME}1/0"]).to_pylist(),
    ]
    before = [ask() for ask in questions]
    assert merge_files(config(tmp_path)) == (3, 1)
    (path,) = parquet(tmp_path)
    assert path.name.startswith("merged-")
    assert [ask() for ask in questions] == before
    found = duckdb.sql(f"SELECT to_host, to_url, epoch_us(time) FROM '{path}'").fetchall()
    assert found == sorted(found)
    assert not LinkFile(str(path), path).may_have_page([f"{HOME}9/9"])
    kinds = duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()
    fill(tmp_path, [1])
    assert duckdb.sql(f"DESCRIBE FROM '{parquet(tmp_path)[0]}'").fetchall() == kinds


def test_two_merges_at_once_and_damaged_notes_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, [1, 1])
    store = FolderStore(tmp_path.as_uri())
    with (
        merges.locked_tables(tmp_path),
        pytest.raises(StoreError, match="another process is merging or rewriting the files in"),
    ):
        merge_files(config(tmp_path))
    store.put("_merged-1.merge", b"[]")
    with pytest.raises(StoreError, match=r"_merged-1\.merge is damaged"):
        link_files(config(tmp_path))
    store.delete("_merged-1.merge")
    parquet(tmp_path)[0].write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="cannot be read"):
        merge_files(config(tmp_path))
