"""Tables of texts: rows that survive a kill become Parquet files, each page once."""

from __future__ import annotations

import errno
import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.unit.killed_writers import run_killed
from tests.unit.warcs import NOW, exchange
from webcrawl.documents.html.text import TextShares
from webcrawl.documents.page import Page
from webcrawl.documents.payload import StoredPayload, StoredRows
from webcrawl.errors import LibraryMissing, StoreError
from webcrawl.pipelines.texts import _Table
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.tables import journal as journal_module, texts
from webcrawl.stores.tables.journal import Journal, journal_path
from webcrawl.stores.tables.texts import TextTable, schema
from webcrawl.stores.uploads import Uploads

COLUMNS = [
    *("url", "host", "title", "author", "language", "mime_type", "digest", "warc_file", "crawl"),
    *("status", "warc_offset", "warc_length", "fetched_at", "published_at", "read_at"),
    *("text", "markdown", "origin", "page_text", "page_markdown", "signals"),
]


def page(number: int, **more: Any) -> Page:
    """An archived page."""
    answer = exchange(str(number))
    one = Page(url=answer.url, host="http://www.example.org", fetched_at=NOW, status=200, digest="sha1:A")
    one.archived.exchange, one.archived.record_id = answer, "<urn:uuid:1>"
    one.warc_file, one.warc_offset, one.warc_length = "a.warc.gz", number, 7
    one.main_text = f"text  {number}\n\n\ud800 é\0"
    for name, value in more.items():
        setattr(one.reading if name == "markdown" else one, name, value)
    return one


def test_signals_are_columns_on_request(tmp_path: Path) -> None:
    scored, plain = page(1, main_text="a line\na line"), page(2, main_text="text")
    scored.reading.shares, scored.reading.language_score = TextShares(0.25, 0.5), 0.98
    table = TextTable(tmp_path, "news", with_signals=True)
    table.write([scored, plain])
    table.close()
    first, second = [row["signals"] for row in rows(tmp_path)]
    assert (first["words"], first["lines"], first["duplicate_line_share"]) == (4, 2, 0.5)
    assert (first["link_share"], first["code_share"], first["language_score"]) == (0.25, 0.5, 0.98)
    assert (second["words"], second["link_share"], second["language_score"]) == (1, None, None)


def rows(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("[!_]*.parquet")):
        found += pyarrow.parquet.read_table(path).to_pylist()
    return found


def test_pages_become_rows(tmp_path: Path) -> None:
    published = datetime(2026, 1, 1, tzinfo=UTC)
    table = TextTable(tmp_path, "news")
    facts = {"title": "T\0", "author": "A\ud800", "language": "fr", "mime_type": "text/html"}
    table.write([page(1, published_at=published, **facts), page(2, markdown="# text", title="")])
    assert [path.suffix for path in tmp_path.iterdir()] == [".journal"]
    table.close()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("news-") and path.suffix == ".parquet"
    first, second = rows(tmp_path)
    assert list(first) == COLUMNS
    assert first == {
        "url": "http://www.example.org/1",
        "host": "org.example.www",
        "title": "T\ufffd",
        "author": "A?",
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
        "origin": "http://www.example.org",
        **dict.fromkeys(("page_text", "page_markdown", "signals")),
    }
    assert (second["url"], second["markdown"], second["title"]) == (
        "http://www.example.org/2",
        "# text",
        None,
    )


def test_row_groups_are_sorted_by_host_and_url(tmp_path: Path) -> None:
    table = TextTable(tmp_path, "news")
    table.write([page(3), page(1), page(2, url="http://a.org/", host="http://a.org")])
    table.close()
    assert [row["url"].rpartition("/")[2] for row in rows(tmp_path)] == ["", "1", "3"]
    (path,) = tmp_path.iterdir()
    footer, names = pyarrow.parquet.read_metadata(path), pyarrow.parquet.read_schema(path).names
    group = footer.row_group(0)
    assert [names[column.column_index] for column in group.sorting_columns] == ["host", "url", "fetched_at"]
    assert (
        group.column(names.index("host")).statistics.min,
        group.column(names.index("text")).statistics,
    ) == (
        "org.a",
        None,
    )


def test_a_journal_of_an_earlier_version_is_finished(tmp_path: Path) -> None:
    first = pyarrow.schema([field.with_nullable(True) for field in list(schema())[:17]])
    old = {
        "url": "http://www.example.org/1",
        "host": "http://www.example.org",
        "fetched_at": NOW,
        "crawl": "c",
        "text": "t",
    }
    batch = pyarrow.RecordBatch.from_pylist([old], schema=first)
    journal = Journal(journal_path(tmp_path, "c-1"))
    journal.write([bytes(batch.serialize()), b"damaged"])
    journal.close()
    TextTable(tmp_path, "news").close()
    (row,) = rows(tmp_path)
    assert row == dict.fromkeys(COLUMNS, None) | old | {"host": "org.example.www", "origin": old["host"]}


def test_a_killed_writer_loses_nothing_that_was_written(tmp_path: Path) -> None:
    program = """
        import os, sys
        from pathlib import Path
        from tests.unit.stores.test_text_tables import page
        from webcrawl.stores.tables.texts import TextTable
        table = TextTable(Path(sys.argv[1]), "news", roll_bytes=30_000)
        for number in range(0, 100, 2):
            table.write([page(number), page(number + 1)])
        os.kill(os.getpid(), 9)
    """
    run_killed(program, tmp_path)
    TextTable(tmp_path, "news").close()
    assert {path.suffix for path in tmp_path.iterdir()} == {".parquet"}
    assert sorted(row["warc_offset"] for row in rows(tmp_path)) == list(range(100))


def test_a_crash_after_the_parquet_file_makes_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TextTable(tmp_path, "news")
    table.write([page(1)])

    def crash(path: Path, missing_ok: bool = False) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", crash)
        with pytest.raises(StoreError, match=r"cannot make Parquet of .*\.journal: Input/output error"):
            table.close()
    TextTable(tmp_path, "news").close()
    assert len(list(tmp_path.iterdir())) == len(rows(tmp_path)) == 1


def test_memory_is_bounded_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "GROUP_BYTES", 10_000)
    monkeypatch.setattr(texts, "_BATCH_CHARACTERS", 1_000)
    table = TextTable(tmp_path, "news", roll_bytes=50_000)
    for start in range(0, 300, 100):
        table.write([page(number, main_text=f"{number} " * 100) for number in range(start, start + 100)])
    table.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) > 1
    assert pyarrow.parquet.ParquetFile(paths[0]).num_row_groups > 5
    assert sorted(row["warc_offset"] for row in rows(tmp_path)) == list(range(300))


def test_a_damaged_journal_is_named_and_its_sound_pages_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = TextTable(tmp_path, "news")
    for number in range(3):
        table.write([page(number)])
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"\xff")
    with caplog.at_level(logging.WARNING):
        table.close()
    assert f"{path} is damaged: the texts of 1 pages or more in it are lost" in caplog.text
    assert [row["warc_offset"] for row in rows(tmp_path)] == [1, 2]


def test_a_table_without_rows_leaves_no_file(tmp_path: Path) -> None:
    table = TextTable(tmp_path, "news")
    table.write([])
    table.write([page(1, main_text=" \n"), page(2, main_text=None)])
    table.close()
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_table_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    table = TextTable(tmp_path, "news")
    table.write([page(1)])
    (journal,) = tmp_path.iterdir()
    unfinished = tmp_path / f"{journal.name.removesuffix('.journal')}.parquet.open"
    unfinished.mkdir()
    with pytest.raises(StoreError, match=r"cannot make Parquet of .*Is a directory|Cannot open"):
        table.close()
    unfinished.rmdir()
    TextTable(tmp_path, "news").close()
    assert len(rows(tmp_path)) == 1


def test_a_missing_pyarrow_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LibraryMissing, match=r"a table in Parquet needs pyarrow: \S+ -m pip install"):
        TextTable(tmp_path, "news")
    assert os.listdir(tmp_path) == []


def test_a_page_with_a_value_that_does_not_fit_fails_alone(tmp_path: Path) -> None:
    pipeline = object.__new__(_Table)
    pipeline._table = TextTable(tmp_path, "news")
    first, second, third = pipeline._write([page(1, title=5), page(2, published_at="never"), page(3)])
    pipeline._table.close()
    assert isinstance(first, StoredRows) and isinstance(third, StoredRows)
    assert "a value of published_at does not fit" in str(second)
    assert [(row["warc_offset"], row["title"]) for row in rows(tmp_path)] == [(1, "5"), (3, None)]


def unchanged(stored: StoredRows | None, day: int = 1, url: str = "", **more: Any) -> Page:
    """Page 1, fetched again with the payload of an earlier fetch, whose text is stored so."""
    one = page(1, **more)
    one.fetched_at = NOW + timedelta(days=day)
    one.archived.stored_text = stored
    one.archived.payload = StoredPayload(url or one.url, NOW, "a.warc.gz", 1, 7)
    return one


def test_the_text_of_an_unchanged_page_is_stored_once(tmp_path: Path) -> None:
    """Also by another worker, while the text is in a journal, and by a later run."""
    table, other = TextTable(tmp_path, "news"), TextTable(tmp_path, "other")
    (stored,) = table.write([page(1)])
    assert stored.fetched_at == NOW
    assert (
        other.write([unchanged(stored)])
        == table.write([unchanged(stored), unchanged(stored, 2)])[:1]
        == [stored]
    )
    table.close()
    other.close()
    later = TextTable(tmp_path, "later")
    assert later.write([unchanged(stored, 3)]) == [stored]
    later.close()
    assert [row["fetched_at"] for row in rows(tmp_path)] == [NOW]


def test_a_text_that_is_not_known_to_be_stored_is_stored_again(tmp_path: Path) -> None:
    table = TextTable(tmp_path, "news")
    (stored,) = table.write([page(1)])
    copy = unchanged(stored, 5, url="http://www.example.org/2")  # its contents begin with this fetch
    read_again = unchanged(stored, 6)
    read_again.archived.read_at = NOW
    others = [
        unchanged(None, 1),
        unchanged(stored, 2, main_text="another text"),
        unchanged(stored, 3, markdown="# text"),
        unchanged(stored._replace(file="deleted"), 4),
        *(copy, read_again),
    ]
    written = table.write(others)
    table.close()
    assert [text.fetched_at for text in written] == [one.fetched_at for one in others]
    assert [row["fetched_at"] for row in rows(tmp_path)] == [NOW, *(one.fetched_at for one in others)]


def test_texts_in_an_object_store_are_known(tmp_path: Path) -> None:
    remote = FolderStore((tmp_path / "remote").as_uri())
    uploads = Uploads(remote, tmp_path / "spool", ".parquet")
    table = TextTable(tmp_path / "spool", "news", uploads=uploads)
    (stored,) = table.write([page(1)])
    assert table.write([unchanged(stored)]) == [stored]
    table.close()
    assert not list((tmp_path / "spool").iterdir())
    later = TextTable(tmp_path / "spool", "later", uploads=uploads)
    assert later.write([unchanged(stored, 2)]) == [stored]
    assert later.write([unchanged(stored._replace(file="deleted"), 3)]) != [stored]
    later.close()
    assert len(rows(tmp_path / "remote")) == 2


def test_rows_are_stored_once_when_a_journal_cannot_be_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    table = TextTable(tmp_path, "news", roll_bytes=1)
    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "fsync", full)
        # a worker repeats a write that raises
        table.write([page(1)])
    table.write([page(2)])
    table.close()
    assert [row["url"] for row in rows(tmp_path)] == [page(1).url, page(2).url]
    assert "No space left" in caplog.text
