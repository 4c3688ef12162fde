"""Tables of texts: rows that survive a kill become Parquet files, each page once."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.unit.warcs import NOW, exchange
from webcrawl.errors import StoreError
from webcrawl.page import Page
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.warc import text_table
from webcrawl.stores.warc.conversions import append_row
from webcrawl.stores.warc.files import OPEN, TABLE
from webcrawl.stores.warc.reading import members
from webcrawl.stores.warc.repair import repair

COLUMNS = [
    *("url", "host", "title", "author", "language", "mime_type", "digest", "warc_file", "crawl"),
    *("status", "warc_offset", "warc_length", "fetched_at", "published_at", "read_at"),
    *("text", "markdown"),
]


def page(number: int, **more: Any) -> Page:
    """An archived page."""
    answer = exchange(str(number))
    one = Page(url=answer.url, host="http://www.example.org", fetched_at=NOW, status=200, digest="sha1:A")
    one.exchange, one.record_id = answer, "<urn:uuid:1>"
    one.warc_file, one.warc_offset, one.warc_length = "a.warc.gz", number, 7
    one.main_text = f"text  {number}\n\n\ud800 é\0"
    for name, value in more.items():
        setattr(one, name, value)
    return one


def tables(folder: Path, **options: Any) -> FolderArchive:
    return FolderArchive(folder, prefix="news", suffix=TABLE, append=append_row, **options)


def rows(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("*.parquet")):
        found += pyarrow.parquet.read_table(path).to_pylist()
    return found


def test_pages_become_rows(tmp_path: Path) -> None:
    published = datetime(2026, 1, 1, tzinfo=UTC)
    files = tables(tmp_path)
    files.write(page(1, title="T", author="A", language="fr", mime_type="text/html", published_at=published))
    files.write(page(2, markdown="# text"))
    assert [path.suffix for path in tmp_path.iterdir()] == [OPEN]
    files.close()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("news-") and path.name.endswith(TABLE)
    first, second = rows(tmp_path)
    assert list(first) == COLUMNS
    assert first == {
        "url": "http://www.example.org/1",
        "host": "http://www.example.org",
        "title": "T",
        "author": "A",
        "language": "fr",
        "mime_type": "text/html",
        "digest": "sha1:A",
        "warc_file": "a.warc.gz",
        "crawl": "news",
        "status": 200,
        "warc_offset": 1,
        "warc_length": 7,
        "fetched_at": NOW,
        "published_at": published,
        "read_at": None,
        "text": "text 1\n? é\ufffd",
        "markdown": None,
    }
    assert (second["url"], second["markdown"], second["title"]) == (
        "http://www.example.org/2",
        "# text",
        None,
    )


def test_rows_of_a_killed_writer_are_kept(tmp_path: Path) -> None:
    files = tables(tmp_path / "whole")
    places = [files.write(page(number)) for number in range(3)]
    (path,) = (tmp_path / "whole").iterdir()
    data = path.read_bytes()
    ends = [offset + length for offset, length, _ in members(io.BytesIO(data))]
    files.close()
    for cut, kept in ((ends[1] - 1, 0), (ends[1], 1), (ends[2] + 3, 2), (len(data), 3)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / (places[0].file + OPEN)).write_bytes(data[:cut])
        assert repair(folder) == [folder / places[0].file]
        assert [row["warc_offset"] for row in rows(folder)] == list(range(kept))
        assert len(list(folder.iterdir())) == 1


def test_file_that_was_complete_before_a_crash_is_kept(tmp_path: Path) -> None:
    files = tables(tmp_path)
    place = files.write(page(1))
    left = (tmp_path / (place.file + OPEN)).read_bytes()
    files.close()
    # killed between the last two steps, and in the middle of an earlier one
    (tmp_path / (place.file + OPEN)).write_bytes(left)
    (tmp_path / f"{place.file}.unfinished").write_bytes(b"half a file")
    repair(tmp_path)
    assert len(rows(tmp_path)) == 1 and not list(tmp_path.glob(f"*{OPEN}"))
    (tmp_path / place.file).unlink()
    (tmp_path / (place.file + OPEN)).write_bytes(left)
    repair(tmp_path)
    assert [row["warc_offset"] for row in rows(tmp_path) if row["crawl"]] == [1]


def test_memory_is_bounded_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_table, "GROUP_CHARACTERS", 1_000)
    files = tables(tmp_path, roll_bytes=100_000)
    for number in range(300):
        files.write(page(number, main_text=f"{number} " * 100))
    files.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 1
    assert pyarrow.parquet.ParquetFile(paths[0]).num_row_groups > 5
    assert sorted(row["warc_offset"] for row in rows(tmp_path)) == list(range(300))


def test_damaged_records_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = tables(tmp_path)
    place = files.write(page(1, fetched_at="not a time"))
    files.write(page(2))
    files.close()
    assert [row["warc_offset"] for row in rows(tmp_path)] == [2]
    assert f"{place.file}.open is damaged: the texts of 1 pages in it are lost" in caplog.text


def test_unwritable_table_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    files = tables(tmp_path)
    place = files.write(page(1))
    (tmp_path / f"{place.file}.unfinished").mkdir()
    with pytest.raises(StoreError, match="unfinished"):
        files.close()
    (tmp_path / f"{place.file}.unfinished").rmdir()
    repair(tmp_path)
    assert len(rows(tmp_path)) == 1
