"""The lake has each stored row once, whoever updates it and whenever it is killed; readers see earlier snapshots."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

from tests.metadata import NOW, at, row
from tests.postgres import PostgresServer
from webcrawl.config import StoreConfig
from webcrawl.config.extraction import extract_rules
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.lake.catalogue import check_lake, lake_store, open_catalogue
from webcrawl.lake.table import Change, LakeTable
from webcrawl.lake.update import update_lake
from webcrawl.links import arrow as links
from webcrawl.links.merging import merge_files
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.tables import texts
from webcrawl.stores.tables.text_merges import merge_texts

KILLS, WORKERS = 6, 3


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    """The stores of a crawl in a folder whose URI differs from its path."""
    return stores(tmp_path / "the crawl")


def stores(folder: Path, **settings: str) -> StoreConfig:
    for name in ("texts", "links"):
        (folder / name).mkdir(parents=True)
    return StoreConfig.from_settings({"DATA_DIR": str(folder), **settings})


def write_texts(config: StoreConfig, name: str, times: dict[str, datetime]) -> None:
    rows = [{"url": url, "fetched_at": time, "text": f"text of {url}"} for url, time in times.items()]
    write(config, f"texts/{name}.parquet", rows, texts.schema())


def write_links(config: StoreConfig, name: str, targets: list[str]) -> None:
    rows = [{"from_url": "http://a.example/", "to_url": target} for target in targets]
    write(config, f"links/{name}.parquet", rows, links.schema())


def write(config: StoreConfig, name: str, rows: list[dict[str, Any]], schema: Any) -> None:
    """Writes rows with some value in each column that must have one."""
    usual = {pyarrow.string(): "", pyarrow.bool_(): False}
    filled = {
        field.name: NOW if pyarrow.types.is_timestamp(field.type) else usual.get(field.type, 0)
        for field in schema
        if not field.nullable
    }
    table = pyarrow.Table.from_pylist([filled | row for row in rows], schema=schema)
    pyarrow.parquet.write_table(table, config.data_dir / name)


def update(config: StoreConfig, *rows: dict[str, Any], **fields: str) -> dict[str, int]:
    """Stores rows and updates the lake; returns the number of rows of each table. `fields`: types, for EXTRACT."""
    selected = {name: {"select": f"css:.{name}", "type": kind} for name, kind in fields.items()}
    rules = extract_rules([{"match": "/", "fields": selected}] if fields else [])
    with Metadata(config.metadata) as metadata:
        metadata.upsert(rows)
        return {name: state.rows for name, state in update_lake(config, metadata, "news", rules).items()}


def read(config: StoreConfig, table: str, snapshot: int | None = None) -> Any:
    """The rows of a table as pyiceberg reads them."""
    with open_catalogue(config, lake_store(config)) as catalogue:
        return catalogue.load_table(("webcrawl", table)).scan(snapshot_id=snapshot).to_arrow()


def snapshots(config: StoreConfig, table: str) -> list[Any]:
    with open_catalogue(config, lake_store(config)) as catalogue:
        return list(catalogue.load_table(("webcrawl", table)).snapshots())


def urls(rows: Any, column: str = "url") -> list[str]:
    return sorted(rows[column].to_pylist())


def test_a_table_has_the_files_of_all_runs_and_its_snapshots_those_until_then(config: StoreConfig) -> None:
    write_texts(config, "first", {"http://a.example/1": NOW})
    assert update(config, row("http://a.example/1")) == {"texts": 1, "pages": 1}
    write_texts(config, "second", {"http://a.example/2": NOW})
    assert update(config, row("http://a.example/2", simhash=(1 << 64) - 5)) == {"texts": 2, "pages": 2}
    assert urls(read(config, "texts")) == ["http://a.example/1", "http://a.example/2"]
    assert sorted(read(config, "pages")["simhash"].to_pylist(), key=str)[:1] == [-5]
    for table in ("texts", "pages"):
        first, second = snapshots(config, table)
        assert urls(read(config, table, first.snapshot_id)) == ["http://a.example/1"]
        assert first.summary["webcrawl-crawl"] == second.summary["webcrawl-crawl"] == "news"


def test_texts_are_not_copied_and_an_update_without_news_makes_no_snapshot(config: StoreConfig) -> None:
    write_texts(config, "first", {"http://a.example/1": NOW})
    update(config), update(config)
    assert len(snapshots(config, "texts")) == 1
    assert not list((config.data_dir / "lake/texts").rglob("*.parquet"))
    with open_catalogue(config, lake_store(config)) as catalogue:
        assert catalogue.load_table("webcrawl.texts").properties["gc.enabled"] == "false"


def test_unfinished_files_are_left_out(config: StoreConfig) -> None:
    for name in ("first", "_second", ".third"):
        write_texts(config, name, {f"http://a.example/{name}": NOW})
    assert update(config) == {"texts": 1}


def test_merged_links_are_counted_once(config: StoreConfig) -> None:
    write_links(config, "first", ["http://a.example/1"])
    write_links(config, "second", ["http://a.example/2"])
    assert update(config) == {"links": 2}
    assert merge_files(config).before == 2
    assert update(config) == {"links": 2}
    assert urls(read(config, "links"), "to_url") == ["http://a.example/1", "http://a.example/2"]


def test_merged_texts_are_counted_once_in_each_snapshot_that_can_be_read(config: StoreConfig) -> None:
    """The columns that a merge adds to old files are in the table too, and its folders are left alone."""
    for name in ("first", "second"):
        write_texts(config, name, {f"http://a.example/{name}": NOW})
    assert update(config, row("http://a.example/first")) == {"texts": 2, "pages": 1}
    assert merge_texts(config).before == 2
    write_texts(config, "third", {"http://a.example/third": NOW})
    assert update(config) == {"texts": 3, "pages": 1}
    assert urls(read(config, "texts")) == [
        f"http://a.example/{name}" for name in ("first", "second", "third")
    ]
    # nothing is left to merge or to add
    assert update(config) == {"texts": 3, "pages": 1} and len(snapshots(config, "texts")) == 2
    # pages are not merged, so each of their snapshots stays readable
    assert [len(read(config, "pages", snapshot.snapshot_id)) for snapshot in snapshots(config, "pages")] == [
        1
    ] * 3


def test_fields_of_extract_are_columns_with_their_types(config: StoreConfig) -> None:
    extracted = {"price": 12, "parts": ["a", "b"], "since": "2026-02-03T04:05:06+00:00"}
    page = row("http://a.example/1", extracted=extracted)
    update(config, page)
    update(config, row("http://a.example/2"), price="int", parts="list", since="date")
    first, second = snapshots(config, "pages")
    rows = {entry["url"][-1]: entry for entry in read(config, "pages", second.snapshot_id).to_pylist()}
    assert (rows["1"]["price"], rows["1"]["parts"]) == (12, ["a", "b"])
    assert rows["1"]["since"] == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert rows["2"]["price"] is rows["2"]["parts"] is None
    # the state before the fields were wanted can still be read, and they may go again
    assert len(read(config, "pages", first.snapshot_id)) == 1
    assert update(config) == {"pages": 2} and read(config, "pages")["price"].null_count == 2


def test_a_field_with_another_type_than_its_column_is_named(config: StoreConfig) -> None:
    update(config, row("http://a.example/1", extracted={"price": 12}), price="int")
    with pytest.raises(StoreError, match=r"the lake in .* Cannot change column type: price: long -> string"):
        update(config, price="str")
    assert read(config, "pages")["price"].to_pylist() == [12]
    assert len(list((config.data_dir / "lake/pages").rglob("*.parquet"))) == 1


def test_a_file_that_is_written_anew_counts_once_with_its_new_rows(config: StoreConfig) -> None:
    write_texts(config, "first", {"http://a.example/1": NOW, "http://a.example/2": NOW})
    assert update(config) == {"texts": 2}
    write_texts(config, "first", {"http://a.example/2": NOW})
    assert update(config) == {"texts": 1}
    assert urls(read(config, "texts")) == ["http://a.example/2"]


def test_columns_of_later_versions_are_added(config: StoreConfig) -> None:
    old = texts.schema().remove(texts.schema().get_field_index("markdown"))
    write(config, "texts/old.parquet", [{"url": "http://a.example/1", "fetched_at": NOW}], old)
    with open_catalogue(config, store := lake_store(config)) as catalogue:
        LakeTable(catalogue, "texts", old, store)
    write_texts(config, "new", {"http://a.example/2": NOW})
    assert update(config) == {"texts": 2}
    assert read(config, "texts")["markdown"].null_count == 2


def test_a_file_of_another_table_is_refused(config: StoreConfig) -> None:
    write(config, "texts/other.parquet", [{"other": 1}], pyarrow.schema([("other", pyarrow.int64())]))
    with pytest.raises(StoreError, match=r"lake.*more columns: other"):
        update(config)


def test_a_change_that_meets_another_is_planned_again(config: StoreConfig) -> None:
    write_texts(config, "first", {"http://a.example/1": NOW})
    path = f"file://{config.data_dir}/texts/first.parquet"
    with open_catalogue(config, store := lake_store(config)) as catalogue:
        tables = [LakeTable(catalogue, "texts", texts.schema(), store) for _ in range(2)]
        plans = 0

        def plan(table: LakeTable) -> Change:
            nonlocal plans
            plans += 1
            change = Change([path] if path not in table.known() else [])
            if plans == 1:  # the other process is faster
                tables[1].apply(lambda table: Change([path]), {})
            return change

        state = tables[0].apply(plan, {})
    assert (plans, state.rows, state.added) == (2, 1, 0)
    assert len(read(config, "texts")) == 1


def test_the_current_texts_are_those_of_the_contents_that_pages_have_now(config: StoreConfig) -> None:
    """The query of docs/guide/lake.md."""
    url, gone = "http://a.example/1", "http://a.example/gone"
    write_texts(config, "first", {url: NOW, gone: NOW})
    write_texts(config, "second", {url: at(1)})
    update(config, row(url, fetched_at=at(1), status=200), row(gone, fetched_at=at(2), status=404))
    pages, rows = read(config, "pages"), read(config, "texts")
    page = Path(__file__).parents[3] / "docs/guide/lake.md"
    query = next(part for part in page.read_text().split("```") if "row_number" in part).removeprefix("sql\n")
    tables = {"pages": pages, "texts": rows}
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    result = connection.sql(query).to_arrow_table()
    assert result.select(["url", "fetched_at"]).to_pylist() == [{"url": url, "fetched_at": at(1)}]


def killed_while(work: Callable[[], object], seconds: float) -> None:
    """Runs work in a child process that is killed after a time."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_kill_loses_nothing_and_repeats_nothing(config: StoreConfig) -> None:
    check_kills(config)


@pytest.mark.slow
def test_a_kill_loses_nothing_with_a_catalogue_in_postgresql(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.database() as uri:
        check_kills(stores(tmp_path, METADATA_URI=uri))


def check_kills(config: StoreConfig) -> None:
    chance, stored = random.Random(38), list[str]()
    for number in range(KILLS):
        stored.append(f"http://a.example/{number}")
        write_texts(config, f"{number}", {stored[-1]: NOW})
        killed_while(partial(update, config, row(stored[-1])), chance.uniform(0.05, 1.0))
    update(config, *map(row, stored))
    assert urls(read(config, "texts")) == urls(read(config, "pages")) == sorted(stored)


@pytest.mark.parametrize("server", ["sqlite", "postgresql"])
def test_workers_that_update_a_new_lake_at_once_lose_nothing(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """They create the tables of the catalogue, its namespace and the tables of the lake at the same moment."""
    with ExitStack() as stack:
        settings = {}
        if server == "postgresql":
            database = request.getfixturevalue("postgres").database()
            settings["METADATA_URI"] = stack.enter_context(database)
        config = stores(tmp_path, **settings)
        Metadata(config.metadata).close()
        start = threading.Barrier(WORKERS)

        def work(number: int) -> None:
            url = f"http://a.example/{number}"
            write_texts(config, str(number), {url: NOW})
            start.wait()
            update(config, row(url))

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(work, range(WORKERS)))
        expected = [f"http://a.example/{number}" for number in range(WORKERS)]
        for table in ("texts", "pages"):
            assert urls(read(config, table)) == expected
            # DuckDB finds the current state by this file
            hint = (config.data_dir / f"lake/{table}/metadata/version-hint.text").read_text()
            with open_catalogue(config, lake_store(config)) as catalogue:
                location = catalogue.load_table(("webcrawl", table)).metadata_location
            assert location.endswith(f"/{hint}.metadata.json")


def test_a_store_that_iceberg_cannot_read_is_refused(tmp_path: Path) -> None:
    stores = {"memory": "tests.public_types.components.Dictionary"}
    settings = {"DATA_DIR": str(tmp_path), "STORE_URI": "memory://pages", "OBJECT_STORES": stores}
    with pytest.raises(ConfigurationError, match="LAKE: .* in a folder or in S3, not in memory://pages/lake"):
        check_lake(StoreConfig.from_settings(settings))


@pytest.mark.parametrize("is_done", [True, False])
def test_a_failure_around_a_commit_deletes_no_file_in_use(
    config: StoreConfig, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    update(config, row("http://a.example/1"))
    name = "_write_hint" if is_done else "_data_file"

    def failing(table: LakeTable, *_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, name, failing)
        with pytest.raises((OSError, StoreError)):
            update(config, row("http://a.example/2"))
    assert read(config, "pages").num_rows == (2 if is_done else 1)
    # what was certainly not committed leaves no file
    assert len(list((config.data_dir / "lake" / "pages" / "data").iterdir())) == (2 if is_done else 1)
    assert update(config)["pages"] == 2


def test_texts_of_a_killed_merge_are_there_once(config: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(config, "news-1", {"http://a.example/1": NOW})
    write_texts(config, "news-2", {"http://a.example/2": NOW})
    assert update(config)["texts"] == 2

    def killed(store: FolderStore, name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            merge_texts(config)
    # as in an object store, and in a folder where this process may not write
    monkeypatch.setattr(texts, "finish_merges", lambda store: None)
    assert len(list((config.data_dir / "texts").glob("*.parquet"))) == 3
    assert update(config)["texts"] == 2
    assert sorted(read(config, "texts")["url"].to_pylist()) == ["http://a.example/1", "http://a.example/2"]
