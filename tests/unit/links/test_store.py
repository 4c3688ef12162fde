"""The link store in a folder: rolling, killed writers, damaged files."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from scrapy import Request

from tests.crawls import CHECKOUT
from tests.project.documentation import blocks
from tests.unit.killed_writers import run_killed
from tests.unit.links.rows import TIME, entry, table
from webcrawl.documents.html.link_rows import ELEMENTS, pack_rows, plain_rows
from webcrawl.errors import LibraryMissing, StoreError, StoreUnavailable
from webcrawl.links.store import JournalRows, LinkStore, make_table
from webcrawl.stores.tables.journal import finish_journals, journals

A, B, C = "http://a.example/", "http://b.example/", "http://www.c.example:8080/x"


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_rows_have_what_is_documented(tmp_path: Path) -> None:
    store = LinkStore(tmp_path, "broad")
    header = pack_rows(plain_rows([B], "header"))
    (body,) = entry("", C, A, C, text="Grüße  \x1b[31m", rel="me nofollow").rows
    store.write([entry(A, rows=(body, header), depth=3), entry(B, A, crawl="Ü/2", nofollow=True, read_at=7)])
    store.close()
    first, second, third, fourth, fifth = table(tmp_path)
    assert first == {
        "from_host": "example.a",
        "from_url": A,
        "to_host": "example.c.www:8080",
        "to_url": C,
        "text": "Grüße  \x1b[31m",
        "rel": "me nofollow",
        "element": "a",
        "block": 77,
        "place": 0,
        "nofollow": True,
        "depth": 3,
        "crawl": "broad",
        "time": datetime.fromtimestamp(0, UTC) + timedelta(microseconds=TIME),
        "read_at": None,
    }
    assert [row["place"] for row in (second, third, fourth)] == [1, 2, 3]
    assert [row["to_url"] for row in (second, third, fourth)] == [A, C, B]
    bare = {"text": None, "rel": None, "element": "header", "block": None, "nofollow": False}
    assert {**fourth, **bare} == fourth
    assert (fifth["nofollow"], fifth["rel"], fifth["crawl"]) == (True, None, "Ü/2")
    assert fifth["read_at"] == datetime.fromtimestamp(0, UTC) + timedelta(microseconds=7)
    assert ELEMENTS[0] == "a"


def test_other_programs_read_all_files_as_one_sorted_table(tmp_path: Path) -> None:
    for crawl, urls in (("one", [C, A]), ("two", [B])):
        store = LinkStore(tmp_path, crawl)
        store.write([entry(url, C, B, A, crawl=crawl) for url in urls])
        store.close()
    store = LinkStore(tmp_path, "three")
    store.write([entry(A, A)])
    query = f"SELECT crawl, to_url FROM '{tmp_path}/*.parquet'"
    found = duckdb.sql(query).fetchall()
    assert sorted(found) == sorted(
        [("one", url) for url in (A, B, C)] * 2 + [("two", url) for url in (A, B, C)]
    )
    one = [url for crawl, url in found if crawl == "one"]
    assert one == [A, A, B, B, C, C]
    assert len(table(tmp_path)) == 9  # a folder as one table, while a journal is in it
    store.close()
    assert len(table(tmp_path)) == 10


def test_targets_are_spelt_as_pages_are(tmp_path: Path) -> None:
    queries = ["?f[0]=a|b&g={1}", "?f%5B0%5D=a%7Cb&g=%7B1%7D", "?", "", "?a=?", "?a=^`"]
    damaged = "http://[::1:x/a|b"
    store = LinkStore(tmp_path, "broad")
    store.write([entry(A, *(A + query for query in queries), "http://[::1]/[x]", damaged)])
    store.close()
    filtered = f"{A}?f%5B0%5D=a%7Cb&g=%7B1%7D"
    requested = [filtered, filtered, A, A, f"{A}?a=?", f"{A}?a=%5E%60"]
    assert [row["to_url"] for row in table(tmp_path)] == [*requested, "http://[::1]/%5Bx%5D", damaged]
    assert [Request(A + query).url for query in queries] == requested


def test_documented_queries_run(tmp_path: Path) -> None:
    store = LinkStore(tmp_path / "links", "broad")
    store.write([entry(A, B, C), entry("http://x.org.example/", "https://example.org/", text="x")])
    store.close()
    (tmp_path / "export").mkdir()
    with duckdb.connect() as database:
        database.sql(f"COPY (SELECT '{B}' AS url) TO '{tmp_path}/export/pages.parquet'")
        pages = (CHECKOUT / "docs" / folder / "links.md" for folder in ("guide", "reference"))
        texts = [text for page in pages for text in blocks(page, "sql")]
        queries = [query for text in texts for query in text.split(";") if query.strip()]
        found = []
        for query in queries:
            query = query.replace("'data/", f"'{tmp_path}/").replace("'export/", f"'{tmp_path}/export/")
            answer = database.sql(query)
            found.append(None if answer is None else len(answer))
    assert found == [0, 1, 1, 0, 0, 3]


def test_a_store_rolls_by_size_and_by_age(tmp_path: Path) -> None:
    store = LinkStore(tmp_path, "broad", roll_bytes=1)
    for number in range(3):
        store.write([entry(f"{A}{number}", B)])
    eventually(lambda: names(tmp_path) == [".parquet"] * 3)
    store.close()
    store = LinkStore(tmp_path, "broad", roll_seconds=0.01)
    store.write([entry(A, B)])
    eventually(lambda: names(tmp_path) == [".parquet"] * 4)
    store.close()
    assert len(table(tmp_path)) == 4


def test_a_store_without_links_leaves_no_file(tmp_path: Path) -> None:
    LinkStore(tmp_path / "links", "broad").close()
    store = LinkStore(tmp_path / "links", "broad")
    store.write([entry(A)])
    store.close()
    assert list((tmp_path / "links").iterdir()) == []


def test_a_killed_writer_loses_nothing_that_was_written(tmp_path: Path) -> None:
    program = """
        import os, sys
        from pathlib import Path
        from tests.unit.links.rows import entry
        from webcrawl.links.store import LinkStore
        store = LinkStore(Path(sys.argv[1]), "broad", roll_bytes=3000)
        for number in range(100):
            store.write([entry(f"http://a.example/{number}", "http://b.example/")])
        os.kill(os.getpid(), 9)
    """
    run_killed(program, tmp_path)
    LinkStore(tmp_path, "broad").close()
    assert names(tmp_path) == [".parquet"] * len(names(tmp_path))
    assert {row["from_url"] for row in table(tmp_path)} == {f"http://a.example/{n}" for n in range(100)}
    assert len(table(tmp_path)) == 100


def test_a_crash_after_the_parquet_file_makes_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LinkStore(tmp_path, "broad")
    store.write([entry(A, B)])

    def crash(path: Path, missing_ok: bool = False) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", crash)
        with pytest.raises(StoreError, match=r"cannot make Parquet of .*\.journal: Input/output error"):
            store.close()
    assert names(tmp_path) == [".journal", ".parquet"]
    finish_journals(tmp_path, make_table)
    assert names(tmp_path) == [".parquet"]
    assert len(table(tmp_path)) == 1


def test_a_full_disk_keeps_the_journal_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LinkStore(tmp_path, "broad")
    store.write([entry(A, B)])

    def full(rows: JournalRows, path: Path) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JournalRows, "write", full)
        with pytest.raises(StoreUnavailable, match="No space left"):
            store.close()
    assert table(tmp_path) == []
    LinkStore(tmp_path, "broad").close()
    assert [path.name[0] for path in tmp_path.iterdir()] == ["b"]
    assert len(table(tmp_path)) == 1


def test_a_journal_in_use_is_left_alone(tmp_path: Path) -> None:
    store = LinkStore(tmp_path, "broad")
    store.write([entry(A, B)])
    finish_journals(tmp_path, make_table)
    LinkStore(tmp_path, "other").close()
    assert names(tmp_path) == [".journal"]
    store.close()


def test_a_damaged_journal_is_named_and_its_sound_pages_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = LinkStore(tmp_path, "broad")
    store.write([entry(A, B), entry(B, rows=(b"taken over",)), entry(C, A)])
    (path,) = tmp_path.iterdir()
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    with caplog.at_level(logging.WARNING):
        store.close()
    assert f"{path} is damaged: the links of 2 pages or more in it are lost" in caplog.text
    assert [row["from_url"] for row in table(tmp_path)] == [C]


def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"cannot store links in {tmp_path}/file/links"):
        LinkStore(tmp_path / "file" / "links", "broad")


def test_pyarrow_has_no_memory_pool_of_its_own() -> None:
    program = "from webcrawl.links.arrow import pyarrow; print(pyarrow().default_memory_pool().backend_name)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60) == "system\n"


def test_a_missing_pyarrow_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LibraryMissing, match=r"LINKS needs pyarrow: \S+ -m pip install 'pyarrow"):
        LinkStore(tmp_path, "broad")
    assert journals(tmp_path) == []
    assert os.listdir(tmp_path) == []
