"""Small files of texts are merged; whenever the process is killed, no text is lost, and readers see none twice."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.crawls import scrapy
from tests.unit.stores.test_text_tables import NOW, page, unchanged
from webcrawl.config import StoreConfig
from webcrawl.documents.payload import StoredRows
from webcrawl.errors import StoreError
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.tables import merges
from webcrawl.stores.tables.journal import journal_path
from webcrawl.stores.tables.merges import Merged, ReplacedFiles
from webcrawl.stores.tables.text_merges import merge_texts
from webcrawl.stores.tables.texts import ORDER, TextTable, open_text_table, schema, text_files


def config(folder: Path) -> StoreConfig:
    return StoreConfig(folder.as_uri(), "sqlite://", folder, tables=(folder / "texts").as_uri())


def fill(folder: Path, files: int = 4) -> list[StoredRows]:
    """Writes a file for each of some crawls, with two pages."""
    stored = []
    for number in range(files):
        table = TextTable(folder / "texts", f"crawl{number}")
        stored += table.write([page(number), page(number + 50)])
        table.close()
    return stored


def stored_rows(folder: Path) -> list[tuple[str, str]]:
    return sorted(
        (row["url"], row["text"])
        for opener in text_files(config(folder))
        for group in opener().groups
        for row in opener().read(group, ["url", "text"]).to_pylist()
    )


def test_small_files_become_one_that_is_sorted(tmp_path: Path) -> None:
    fill(tmp_path)
    before = stored_rows(tmp_path)
    assert merge_texts(config(tmp_path)) == Merged(4, 1)
    assert stored_rows(tmp_path) == before
    (path,) = (tmp_path / "texts").iterdir()
    table = pyarrow.parquet.read_table(path)
    assert table.schema.equals(schema())
    keys = [tuple(row.values()) for row in table.select(ORDER).to_pylist()]
    assert keys == sorted(keys) and len(keys) == 8
    assert merge_texts(config(tmp_path)) == Merged(0, 0)


def test_files_of_earlier_versions_get_the_columns_of_now(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    for path in (tmp_path / "texts").iterdir():
        rows = pyarrow.parquet.read_table(path)
        old = rows.set_column(1, "host", rows["origin"]).select(schema().names[:17])
        pyarrow.parquet.write_table(old, path)
    merge_texts(config(tmp_path))
    (path,) = (tmp_path / "texts").iterdir()
    rows = pyarrow.parquet.read_table(path)
    assert {*rows["host"].to_pylist()} == {"org.example.www"}
    assert {*rows["origin"].to_pylist()} == {"http://www.example.org"}


@pytest.mark.parametrize("changes", range(9))
def test_a_killed_merge_loses_no_text(tmp_path: Path, changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    left = changes

    def fragile(name: str) -> None:
        original = getattr(FolderStore, name)

        def changed(store: FolderStore, *values: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return original(store, *values)

        monkeypatch.setattr(FolderStore, name, changed)

    fill(tmp_path)
    before = stored_rows(tmp_path)
    with monkeypatch.context() as monkeypatch:
        for name in ("put", "move_file", "delete"):
            fragile(name)
        with suppress(Killed):
            merge_texts(config(tmp_path))
    assert stored_rows(tmp_path) == before
    merge_texts(config(tmp_path))
    assert stored_rows(tmp_path) == before
    assert len(list((tmp_path / "texts").glob("[!_]*"))) == 1


def test_an_unchanged_text_in_a_merged_file_is_not_stored_again(tmp_path: Path) -> None:
    first = fill(tmp_path)[2]
    merge_texts(config(tmp_path))
    fill(tmp_path, 1)
    merge_texts(config(tmp_path))
    assert first.file in ReplacedFiles(FolderStore((tmp_path / "texts").as_uri()))
    table = open_text_table(config(tmp_path), "again")
    (stored,) = table.write([unchanged(first)])
    table.close()
    assert stored == first
    assert "missing" not in ReplacedFiles(FolderStore((tmp_path / "texts").as_uri()))


def test_another_merge_is_an_error_and_a_damaged_note_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    with (
        merges.locked_tables(tmp_path / "texts"),
        pytest.raises(StoreError, match="another process is merging or rewriting the files in"),
    ):
        merge_texts(config(tmp_path))
    (tmp_path / "texts" / "_merged-1.merge").write_text("[]")
    with pytest.raises(StoreError, match=r"_merged-1.merge is damaged: it should name merged files"):
        text_files(config(tmp_path))


def test_the_command_finishes_journals_and_merges_what_there_is(tmp_path: Path) -> None:
    data = ("-s", f"DATA_DIR={tmp_path}")
    assert "neither links nor texts are stored" in scrapy("compact", *data, status=None).stderr
    fill(tmp_path)
    table = TextTable(tmp_path / "texts", "killed", roll_seconds=0)
    (killed,) = table.write([page(9)])
    left = journal_path(tmp_path / "texts", killed.file)
    copied = left.read_bytes()
    table.close()
    (tmp_path / "texts" / f"{killed.file}.parquet").unlink()
    left.write_bytes(copied)
    assert scrapy("compact", *data).stderr == "texts: merged 5 files into 1.\n"
    assert scrapy("compact", "texts", *data).stderr.startswith("texts: nothing to merge")
    assert "no links are stored" in scrapy("compact", "links", *data, status=None).stderr
    assert "'pages' is none of links, texts" in scrapy("compact", "pages", *data, status=None).stderr
    assert ("http://www.example.org/9", NOW) in [
        (row["url"], row["fetched_at"])
        for opener in text_files(config(tmp_path))
        for row in opener().read(0, ["url", "fetched_at"]).to_pylist()
    ]
