"""Metadata exports: atomic in every format, and as documented."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.processes import scrapy_peak
from webcrawl.documents.page import Page
from webcrawl.documents.values import memory_bytes
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.results.exports import export as module
from webcrawl.results.exports.export import MANIFEST, export
from webcrawl.results.exports.partitions import shard_folder
from webcrawl.results.exports.parts import FIELDS, FORMATS, NOT_NULL, ParquetPart, exported_rows
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore, location, open_store
from webcrawl.stores.selection import of_crawl, of_type, since, with_status

NOW = datetime(2026, 2, 3, 23, 59, 59, 789, tzinfo=UTC)
HOSTS = [f"https://{name}.example" for name in "abcdefgh"]
KINDS = [(200, "text/html"), (404, "image/gif"), (None, None), (200, "text/css"), (301, "text/htmlx")]
DAYS = [datetime(2026, 2, day, tzinfo=UTC) for day in (2, 3, 4, 5)] + [
    datetime(2026, 2, 5, 0, 0, 1, tzinfo=UTC)
]
CONDITIONS = {"crawl": of_crawl, "since": since, "status": with_status, "type": of_type}
TEXT = 'Grüße, "你好"\r\nnext line\t👋'


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Rows of 120 pages from eight hosts and three days, as read from the database."""
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
        return list(exported_rows(metadata.scan()))


def opened(where: str) -> ObjectStore:
    return open_store(location(where), "--output")


def exported(
    rows: list[dict[str, Any]], folder: Path, form: str, partition: str, **options: Any
) -> dict[str, Any]:
    return export(rows, opened(str(folder)), FORMATS[form], partition, source="the test", **options)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read(folder: Path, form: str) -> Iterator[dict[str, Any]]:
    """Yields every row of an export, with the value types of the format."""
    for path in sorted(folder.rglob(f"*.{form}")):
        if form == "parquet":
            yield from pyarrow.parquet.read_table(path, partitioning=None).to_pylist()
        elif form == "jsonl":
            yield from map(json.loads, path.read_text().splitlines())
        else:
            with path.open(newline="") as file:
                yield from csv.DictReader(file)


def expected(row: dict[str, Any], form: str) -> dict[str, Any]:
    """The expected form of a row in a format."""
    found = {name: row[name] for name in FIELDS}
    for name, kind in FIELDS.items():
        if kind.startswith("json") and form != "jsonl" and found[name] is not None:
            found[name] = json.dumps(found[name], ensure_ascii=False)
        if kind.startswith("time") and form != "parquet" and found[name] is not None:
            found[name] = found[name].isoformat()
    if form == "jsonl":
        return {name: value for name, value in found.items() if value is not None}
    return found if form == "parquet" else {name: "" if v is None else str(v) for name, v in found.items()}


def test_formulas_in_csv_are_text(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    titles = [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u3000\ufeff=1",
        "\uff1d1",
        "\uff20A1",
        "a=1",
        "'=1",
        "",
    ]
    few = [{**row, "title": title, "simhash": 7} for row, title in zip(rows, titles, strict=False)]
    for form in ("csv", "jsonl"):
        exported(few, tmp_path / form, form, "none")
    shown = {row["url"]: row["title"] for row in read(tmp_path / "csv", "csv")}
    assert shown == {
        row["url"]: f"'{row['title']}" if place < 11 else row["title"] for place, row in enumerate(few)
    }
    unchanged = {row["url"]: row["title"] for row in read(tmp_path / "jsonl", "jsonl")}
    assert unchanged == {row["url"]: row["title"] for row in few}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("partition", "folders"), [("date", 3), ("host", 8), ("none", 1)])
def test_every_row_is_exported_once_and_unchanged(
    rows: list[dict[str, Any]], tmp_path: Path, form: str, partition: str, folders: int
) -> None:
    manifest = exported(rows, tmp_path, form, partition)
    found = sorted(read(tmp_path, form), key=lambda row: str(row["url"]))
    assert found == [expected(row, form) for row in sorted(rows, key=lambda row: str(row["url"]))]
    assert files(tmp_path) == sorted([MANIFEST, *(file["name"] for file in manifest["files"])])
    assert 2 <= len(manifest["files"]) <= folders or folders == 1
    assert manifest == json.loads((tmp_path / MANIFEST).read_text())
    assert (manifest["rows"], manifest["fields"]) == (120, dict(FIELDS))


def test_rows_are_partitioned_by_day_or_host(rows: list[dict[str, Any]], tmp_path: Path) -> None:
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
    assert sorted(duckdb.sql(query).fetchall()) == [(f"example.{name}", 1) for name in "abcdefgh"]


@pytest.mark.parametrize(("partition", "column"), [("crawl", "crawl"), ("shard", "shard")])
def test_partitions_are_columns_for_readers(
    rows: list[dict[str, Any]], tmp_path: Path, partition: str, column: str
) -> None:
    crawls = [{**row, "crawl": ("news/a", "b c")[number % 2]} for number, row in enumerate(rows)]
    exported(crawls, tmp_path, "parquet", partition)
    files = duckdb.sql(f"FROM read_parquet('{tmp_path}/**/*.parquet', hive_partitioning = true)")
    values = {(row[0], row[1]) for row in files.project(f"host, {column}").fetchall()}
    if partition == "crawl":
        assert {value for _, value in values} == {"news/a", "b c"}
    else:
        assert values == {
            (host, int(shard_folder(host).removeprefix("shard="))) for host in {row["host"] for row in rows}
        }


def test_buffered_rows_and_open_files_are_limited(
    rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFERED_BYTES", 10 * min(map(memory_bytes, rows)))
    monkeypatch.setattr(module, "OPEN_PARTS", 2)
    monkeypatch.setattr(module, "ROWS_A_FILE", 25)
    now, most = set(), 0

    class Watched(ParquetPart):
        def __init__(self, path: Path, fields: Mapping[str, str]) -> None:
            nonlocal most
            super().__init__(path, fields)
            now.add(self)
            most = max(most, len(now))

        def write(self, rows: Any) -> None:
            assert len(rows) <= 10
            super().write(rows)

        def close(self) -> None:
            now.remove(self)
            super().close()

    export(rows, opened(str(tmp_path)), Watched, "date", source="the test")
    assert (most, now) == (2, set())
    assert sorted(row["url"] for row in read(tmp_path, "parquet")) == sorted(row["url"] for row in rows)
    assert max(file["rows"] for file in json.loads((tmp_path / MANIFEST).read_text())["files"]) < 35


def large_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows of pages from four days, each with a megabyte of details that compress badly."""
    for number in range(count):
        url = f"{HOSTS[number % 8]}/{number:05}"
        page = Page(url=url, host=HOSTS[number % 8], fetched_at=NOW + timedelta(days=number % 4), status=200)
        page.details = {"text": random.Random(number).randbytes(500_000).hex()}
        yield page.row()


def test_files_roll_over_at_their_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFERED_BYTES", 3_000_000)
    monkeypatch.setattr(module, "BYTES_A_FILE", 5_000_000)
    with Metadata(f"sqlite:///{tmp_path}/metadata.db") as metadata:
        metadata.upsert(list(large_rows(40)))
        exported(list(exported_rows(metadata.scan())), tmp_path / "jsonl", "jsonl", "date")
    found = list((tmp_path / "jsonl").rglob("*.jsonl"))
    assert all(5_000_000 < path.stat().st_size < 9_000_000 for path in found)
    assert len(found) >= 4
    assert len(list(read(tmp_path / "jsonl", "jsonl"))) == 40


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of 200 MB in 200 rows."""
    folder = tmp_path_factory.mktemp("large")
    with Metadata(f"sqlite:///{folder}/metadata.db") as metadata:
        rows = large_rows(200)
        while batch := list(islice(rows, 30)):
            metadata.upsert(batch)
    return folder


@pytest.mark.parametrize(
    ("form", "most"), [pytest.param("parquet", 450_000, marks=pytest.mark.slow), ("jsonl", 250_000)]
)
def test_memory_is_bounded_for_large_rows(large: Path, tmp_path: Path, form: str, most: int) -> None:
    words = ("export", "-o", str(tmp_path), "--format", form, "-s", f"DATA_DIR={large}")
    code, out, stderr, peak = scrapy_peak(*words)
    assert (code, stderr) == (0, "")
    assert out.startswith(b"200 rows in 4 files")
    assert peak < most


def test_scan_batches_are_bounded_in_bytes(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Metadata(f"sqlite:///{large}/metadata.db") as metadata:
        sizes = []
        batch = Metadata._batch

        def watched(self: Metadata, query: Any) -> Any:
            found = batch(self, query)
            sizes.append(len(found[0]))
            return found

        monkeypatch.setattr(Metadata, "_batch", watched)
        seen = [row["url"] for row in metadata.scan()]
    assert seen == sorted(f"{HOSTS[number % 8]}/{number:05}" for number in range(200))
    assert max(sizes) <= 17 and sum(sizes) == 200


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"crawl": "news"}, [1, 3]),
        ({"since": "2026-02-04"}, [2, 3, 4]),
        ({"since": "2026-02-05T01:00:00+01:00"}, [3, 4]),
        ({"since": "2026-02-05T00:00:00.000001Z"}, [4]),
        ({"status": "200"}, [0, 3]),
        ({"status": "2xx, 404"}, [0, 1, 3]),
        ({"type": "text/html"}, [0]),
        ({"type": "IMAGE/*,text/css"}, [1, 3]),
        ({"host": "https://b.example"}, [1]),
        ({"status": "2xx", "crawl": "news", "since": "2026-02-04T12:00:00"}, [3]),
        ({"type": "video/*"}, []),
    ],
)
def test_selections_filter_rows(metadata: Metadata, options: dict[str, str], numbers: list[int]) -> None:
    for number, (status, kind) in enumerate(KINDS):
        page = Page(url=f"{HOSTS[number]}/", host=HOSTS[number], fetched_at=DAYS[number], status=status)
        page.mime_type = kind
        metadata.upsert([page.row() | {"crawl": "news" if number % 2 else "broad"}])
    where = [CONDITIONS[name](value) for name, value in options.items() if name != "host"]
    found = [row["url"] for row in metadata.scan(options.get("host"), where=where)]
    assert found == [f"{HOSTS[number]}/" for number in numbers]


@cases(
    ("name", "value"),
    [
        ("since", "yesterday"),
        ("status", "20"),
        ("status", "600"),
        ("status", "200,"),
        ("type", "html"),
        ("type", "*/*"),
        ("type", "text/%"),
    ],
)
def test_invalid_selection_is_named_in_the_error(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=" is not a "):
        CONDITIONS[name](value)


def test_failed_export_leaves_no_files(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from rows[:50]
        raise StoreError("the database is away")

    with pytest.raises(StoreError, match="away"):
        export(broken(), opened(str(tmp_path / "new")), ParquetPart, "date", source="the test")
    assert files(tmp_path) == []
    exported(rows, tmp_path / "old", "parquet", "date")
    before = files(tmp_path)
    with pytest.raises(StoreError, match="away"):
        export(broken(), opened(str(tmp_path / "old")), ParquetPart, "date", source="the test", force=True)
    assert files(tmp_path) == before


def test_existing_export_is_replaced_only_with_force(rows: list[dict[str, Any]], tmp_path: Path) -> None:
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


def test_no_rows_replace_no_export(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    exported(rows, tmp_path, "parquet", "date")
    before = files(tmp_path)
    with pytest.raises(StoreError, match=r"no page is selected: .* keeps its export of 120 rows"):
        exported([], tmp_path, "parquet", "date", force=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "manifest",
    ["no JSON", "[]", "{}", '{"files": [{"name": "../../etc/passwd"}]}', '{"files": [{"name": "/etc/x"}]}'],
)
def test_foreign_manifest_is_rejected(rows: list[dict[str, Any]], tmp_path: Path, manifest: str) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(StoreError, match=re.escape(f"{tmp_path}/{MANIFEST}")):
        exported(rows, tmp_path, "csv", "none", force=True)
    assert files(tmp_path) == [MANIFEST]


def test_empty_database_gives_an_empty_export(tmp_path: Path) -> None:
    assert exported([], tmp_path, "parquet", "date")["rows"] == 0
    assert files(tmp_path) == [MANIFEST]


@pytest.mark.parametrize("where", ["ftp://host/x", "s3://", "s3://a_b/../c"])
def test_invalid_output_location_is_named_in_the_error(where: str) -> None:
    with pytest.raises(
        (StoreError, ConfigurationError), match=re.escape(where.partition("..")[0].rstrip("/"))
    ):
        opened(where)


def test_folder_that_cannot_be_created_is_named_in_the_error(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"--output .*/file/export: .*/file is not a folder"):
        exported(rows, tmp_path / "file" / "export", "csv", "none")


def test_fields_are_documented_in_order_with_their_types() -> None:
    page = (CHECKOUT / "docs" / "reference" / "exports.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \|(.*)\|$", page, re.MULTILINE)
    assert {
        name: kind + (NOT_NULL if what.endswith("never empty ") else "") for name, kind, what in documented
    } == FIELDS
    assert [name for name, _, _ in documented] == list(FIELDS)


def test_parquet_says_how_rows_are_sorted_and_what_is_never_empty(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    exported(rows, tmp_path, "parquet", "none")
    (path,) = tmp_path.glob("*.parquet")
    footer = pyarrow.parquet.read_metadata(path)
    group, names = footer.row_group(0), pyarrow.parquet.read_schema(path).names
    assert footer.num_row_groups == 1
    assert [names[column.column_index] for column in group.sorting_columns] == ["host", "url"]
    hosts = group.column(names.index("host")).statistics
    assert (hosts.min, hosts.max, hosts.null_count) == ("example.a", "example.h", 0)
    assert group.column(names.index("url")).has_offset_index
    stored = pyarrow.parquet.read_table(path)
    order = [(row["host"], row["url"]) for row in stored.select(["host", "url"]).to_pylist()]
    assert order == sorted(order)
    required = {field.name for field in stored.schema if not field.nullable}
    assert required == {name for name, kind in FIELDS.items() if kind.endswith(NOT_NULL)}
    assert {"url", "host", "origin", "fetched_at"} < required


def test_hashes_are_signed_in_every_format(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    for form in FORMATS:
        exported(rows[:1], tmp_path / form, form, "none")
        (row,) = read(tmp_path / form, form)
        number = int(row["url"].rpartition("/")[2])
        assert int(str(row["simhash"]).lstrip("'")) == -1 - number
