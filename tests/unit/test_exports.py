"""Exports of the metadata: complete or not there, whatever the format, and as the documentation says."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from tests.crawls import CHECKOUT
from webcrawl.errors import StoreError
from webcrawl.exports import export as module
from webcrawl.exports.export import export
from webcrawl.exports.fields import FIELDS
from webcrawl.exports.parts import FORMATS, ParquetPart
from webcrawl.exports.places import MANIFEST, open_place
from webcrawl.page import Page
from webcrawl.stores.metadata import Metadata

NOW = datetime(2026, 2, 3, 23, 59, 59, 789, tzinfo=UTC)
HOSTS = [f"https://{name}.example" for name in "abcdefgh"]
TEXT = 'Grüße, "你好"\r\nnext line\t👋'


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """120 pages of eight hosts and three days, as the database gives them."""
    pages = []
    for number in range(120):
        host = HOSTS[number % 8]
        page = Page(
            url=f"{host}/{number}",
            host=host,
            fetched_at=NOW + timedelta(days=number % 3),
            status=200 if number % 10 else None,
            title=TEXT,
            simhash=2**64 - 1 - number,
            length=2**40,
            latency=0.25,
            published_at=NOW - timedelta(days=400),
            redirects=["https://a.example/x,y"] if number == 7 else None,
            details={"n": number, "deep": [{"a": None}]} if number % 2 else None,
            error=None if number % 10 else "TimeoutError",
        )
        pages.append(page.row())
    with Metadata(f"sqlite:///{tmp_path_factory.mktemp('rows')}/metadata.db") as metadata:
        metadata.upsert(pages)
        return list(metadata.scan())


def exported(
    rows: list[dict[str, Any]], folder: Path, form: str, partition: str, **options: Any
) -> dict[str, Any]:
    return export(rows, open_place(str(folder)), FORMATS[form], partition, source="the test", **options)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read(folder: Path, form: str) -> Iterator[dict[str, Any]]:
    """Every row of an export, values as the format has them."""
    for path in sorted(folder.rglob(f"*.{form}")):
        if form == "parquet":
            yield from pyarrow.parquet.read_table(path, partitioning=None).to_pylist()
        elif form == "jsonl":
            yield from map(json.loads, path.read_text().splitlines())
        else:
            with path.open(newline="") as file:
                yield from csv.DictReader(file)


def expected(row: dict[str, Any], form: str) -> dict[str, Any]:
    """A row as a format should have it."""
    found = {name: row[name] for name in FIELDS}
    for name, kind in FIELDS.items():
        if kind == "json" and form != "jsonl" and found[name] is not None:
            found[name] = json.dumps(found[name], ensure_ascii=False)
        if kind == "time" and form != "parquet" and found[name] is not None:
            found[name] = found[name].isoformat()
    if form == "jsonl":
        return {name: value for name, value in found.items() if value is not None}
    return found if form == "parquet" else {name: "" if v is None else str(v) for name, v in found.items()}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("partition", "folders"), [("date", 3), ("host", 8), ("none", 1)])
def test_every_row_once_as_it_is(
    rows: list[dict[str, Any]], tmp_path: Path, form: str, partition: str, folders: int
) -> None:
    manifest = exported(rows, tmp_path, form, partition)
    found = sorted(read(tmp_path, form), key=lambda row: str(row["url"]))
    assert found == [expected(row, form) for row in sorted(rows, key=lambda row: str(row["url"]))]
    assert files(tmp_path) == sorted([MANIFEST, *(file["name"] for file in manifest["files"])])
    assert 2 <= len(manifest["files"]) <= folders or folders == 1
    assert manifest == json.loads((tmp_path / MANIFEST).read_text())
    assert (manifest["rows"], manifest["fields"]) == (120, dict(FIELDS))


def test_rows_are_in_the_folder_of_their_day_and_host(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    exported(rows, tmp_path / "days", "parquet", "date")
    query = (
        f"SELECT date, count(*) FROM read_parquet('{tmp_path}/days/**/*.parquet') GROUP BY ALL ORDER BY ALL"
    )
    assert [(str(date), count) for date, count in duckdb.sql(query).fetchall()] == [
        ("2026-02-03", 40),
        ("2026-02-04", 40),
        ("2026-02-05", 40),
    ]
    exported(rows, tmp_path / "hosts", "parquet", "host")
    query = (
        f"SELECT host, count(DISTINCT part) FROM read_parquet('{tmp_path}/hosts/**/*.parquet') GROUP BY ALL"
    )
    assert sorted(duckdb.sql(query).fetchall()) == [(host, 1) for host in HOSTS]


def test_few_rows_and_few_files_are_open_at_once(
    rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFERED_ROWS", 10)
    monkeypatch.setattr(module, "OPEN_PARTS", 2)
    monkeypatch.setattr(module, "ROWS_A_FILE", 25)
    now, most = set(), 0

    class Watched(ParquetPart):
        def __init__(self, path: Path) -> None:
            nonlocal most
            super().__init__(path)
            now.add(self)
            most = max(most, len(now))

        def write(self, rows: Any) -> None:
            assert len(rows) <= 10
            super().write(rows)

        def close(self) -> None:
            now.remove(self)
            super().close()

    export(rows, open_place(str(tmp_path)), Watched, "date", source="the test")
    assert (most, now) == (2, set())
    assert sorted(row["url"] for row in read(tmp_path, "parquet")) == sorted(row["url"] for row in rows)
    assert max(file["rows"] for file in json.loads((tmp_path / MANIFEST).read_text())["files"]) < 35


def test_an_export_that_breaks_off_leaves_nothing(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from rows[:50]
        raise StoreError("the database is away")

    with pytest.raises(StoreError, match="away"):
        export(broken(), open_place(str(tmp_path / "new")), ParquetPart, "date", source="the test")
    assert files(tmp_path) == []
    exported(rows, tmp_path / "old", "parquet", "date")
    before = files(tmp_path)
    with pytest.raises(StoreError, match="away"):
        export(
            broken(), open_place(str(tmp_path / "old")), ParquetPart, "date", source="the test", force=True
        )
    assert files(tmp_path) == before


def test_an_export_is_replaced_only_when_that_is_said(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    exported(rows, tmp_path, "parquet", "date")
    (tmp_path / "date=2026-02-03" / "mine.txt").write_text("not ours")
    with pytest.raises(StoreError, match=r"has an export of 120 rows of 20\d\d-.*--force"):
        exported(rows[:1], tmp_path, "csv", "none")
    exported(rows[:1], tmp_path, "csv", "none", force=True)
    assert len(list(read(tmp_path, "csv"))) == 1
    assert [name for name in files(tmp_path) if not name.endswith(".csv")] == [
        MANIFEST,
        "date=2026-02-03/mine.txt",
    ]
    assert not (tmp_path / "date=2026-02-04").exists()


@pytest.mark.parametrize(
    "manifest",
    ["no JSON", "[]", "{}", '{"files": [{"name": "../../etc/passwd"}]}', '{"files": [{"name": "/etc/x"}]}'],
)
def test_a_manifest_of_somebody_else_is_not_believed(
    rows: list[dict[str, Any]], tmp_path: Path, manifest: str
) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(StoreError, match=re.escape(f"{tmp_path}/{MANIFEST}")):
        exported(rows, tmp_path, "csv", "none", force=True)
    assert files(tmp_path) == [MANIFEST]


def test_an_empty_database_is_an_empty_export(tmp_path: Path) -> None:
    assert exported([], tmp_path, "parquet", "date")["rows"] == 0
    assert files(tmp_path) == [MANIFEST]


@pytest.mark.parametrize("where", ["ftp://host/x", "s3://", "s3://a_b/../c"])
def test_a_place_that_is_none_is_named(where: str) -> None:
    with pytest.raises(StoreError, match=re.escape(where.partition("..")[0].rstrip("/"))):
        open_place(where)


def test_a_folder_that_cannot_be_made_is_named(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot export to .*file/export: Not a directory"):
        exported(rows, tmp_path / "file" / "export", "csv", "none")


def test_the_fields_are_documented_with_their_types_and_in_their_order() -> None:
    page = (CHECKOUT / "docs" / "exports.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE) == list(FIELDS.items())
