"""Mining by Spark gives what DuckDB gives, with the same queries."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.crawls import scrapy
from tests.unit.links.rows import TIME
from tests.unit.mining.sites import HOST, Link, Site, mined, stored
from tests.unit.mining.test_links import newspaper
from webcrawl.mining.by_spark import spark_workspace
from webcrawl.mining.pages import collect_anchors, judge_pages, marks
from webcrawl.mining.patterns import measure, weights
from webcrawl.mining.training import learn
from webcrawl.mining.workspace import BEST_HUBS, BEST_PATTERNS, TABLES, MiningTables, Workspace, write_tables
from webcrawl.policies.mined import Mined
from webcrawl.stores.objects.store import open_store

Engine = Callable[[Path], AbstractContextManager[MiningTables]]
OF_DUCKDB_ALONE = re.compile(
    r"GROUP BY ALL|QUALIFY|::|arg_m|\bhash\(|FILTER \((?!WHERE)|any_value\([^)]*ORDER|(^|\()\s*FROM|\?"
)


class NotedWorkspace(Workspace):
    """Notes the queries that both engines run."""

    def __init__(self, folder: Path) -> None:
        self.queries: list[str] = []
        super().__init__(folder)

    def create(self, name: str, query: str) -> None:
        self.queries.append(query)
        super().create(name, query)

    def rows(self, query: str) -> Any:
        self.queries.append(query)
        return super().rows(query)

    def exported(self, query: str, name: str) -> tuple[Path, int]:
        self.queries.append(query)
        return super().exported(query, name)


def site() -> Site:
    """A newspaper, pages that only link to others of its hosts, and texts that differ in case and spaces."""
    pages = dict(newspaper(3))
    for number in range(30):
        found = [
            Link(f"{HOST}/article/{(number * 7 + n) % 40}", 5, (" see Also", "café\t", "")[n % 3])
            for n in range(4)
        ]
        pages[f"http://b.example/{number}"] = [*found, Link(f"{HOST}/new/{number}", 6, "new")]
    return pages


def results(opened: Engine, folder: Path) -> dict[str, Any]:
    """All that mining gives: its tables, what workers get, and what is printed."""
    # a page that was fetched before, and another that was read again
    stored(folder, {f"{HOST}/list/1": [Link(f"{HOST}/old", 3, "old")]}, start=TIME - 1_000_000)
    stored(
        folder,
        {f"{HOST}/list/2": [Link(f"{HOST}/again", 3, "again")]},
        start=TIME + 3_000_000,
        read_at=TIME + 9,
    )
    urls = [*site(), *(f"{HOST}/new/{number}" for number in range(30)), f"{HOST}/old"]
    values = {
        url: (None if n % 9 == 0 else 20 * n, None if n % 11 == 0 else float(n % 6))
        for n, url in enumerate(urls)
    }
    store = open_store((folder / "mined").as_uri(), "test")
    with mined(opened, folder, site(), values, unsound=urls[5:50:5]) as workspace:
        assert not workspace.is_empty
        for step in (measure, judge_pages, collect_anchors):
            step(workspace)
        rows = write_tables(workspace, store)
        lesson = learn(workspace, "text")
        given: dict[str, Any] = {
            "weights": weights(workspace),
            "marks": marks(workspace),
            "learned": (lesson.pages, lesson.explained, Mined("now", lesson.value).pack()),
            "best": [
                row
                for query in (BEST_PATTERNS, BEST_HUBS)
                for batch in workspace.rows(query)
                for row in batch
            ],
        }
        workspace.count_new_links()
        counted = workspace.rows("SELECT url, value FROM pages ORDER BY url")
        given["new links"] = [row for batch in counted for row in batch]
        if isinstance(workspace, NotedWorkspace):
            given["queries"] = workspace.queries
    for name, number in rows.items():
        given[name] = parquet.read_table(folder / "mined" / f"{name}.parquet").to_pylist()
        assert len(given[name]) == number > 0, name
    assert not (folder / "mining.tmp" / "scratch").exists()
    return given


def test_queries_have_nothing_that_duckdb_alone_reads(tmp_path: Path) -> None:
    queries: Sequence[str] = results(NotedWorkspace, tmp_path)["queries"]
    assert len(queries) > 20
    for query in queries:
        # the aggregate of lines is that of the engine
        assert not OF_DUCKDB_ALONE.search(query.strip()), query


@pytest.mark.slow
def test_tables_by_spark_are_those_by_duckdb(tmp_path: Path) -> None:
    """On two threads, with pages that were fetched or read again, and pages without values."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    here = results(Workspace, tmp_path / "duckdb")
    there = results(partial(spark_workspace, master="local[2]"), tmp_path / "spark")
    assert here.keys() == there.keys() >= TABLES.keys()
    for name in TABLES:
        assert len(here[name]) == len(there[name]), name
        for row, other in zip(here[name], there[name], strict=True):
            assert other == pytest.approx(row, nan_ok=True), name
    for name in here.keys() - TABLES.keys():
        assert there[name] == pytest.approx(here[name]) if name == "weights" else there[name] == here[name], (
            name
        )


def test_an_engine_that_is_none_is_refused(tmp_path: Path) -> None:
    refused = scrapy("mine", "--engine", "sparks", "-s", f"DATA_DIR={tmp_path}", status=None)
    assert refused.returncode != 0 and "local[2] with any number, or spark://" in refused.stderr
