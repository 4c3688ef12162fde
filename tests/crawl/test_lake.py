"""A run of a crawl with LAKE leaves tables of Iceberg; the next run and the command bring them up to date."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, CrawlResult, scrapy
from tests.web import LocalWeb

SITE = "127.0.1.1"
HERE = Project(CHECKOUT)
TABLES = ("pages", "texts", "links")


def counts(folder: Path) -> dict[str, list[int]]:
    """The rows of each table in each of its snapshots, as pyiceberg reads them."""
    from pyiceberg.catalog.sql import SqlCatalog  # slow, and every process of tests imports this file

    catalogue = SqlCatalog("webcrawl", uri=f"sqlite:///{folder / 'metadata.db'}")
    try:
        tables = {name: catalogue.load_table(("webcrawl", name)) for name in TABLES}
        return {
            name: [len(table.scan(snapshot_id=entry.snapshot_id).to_arrow()) for entry in table.history()]
            for name, table in tables.items()
        }
    finally:
        catalogue.close()


def present_rows(folder: Path, name: str) -> int:
    from pyiceberg.catalog.sql import SqlCatalog

    catalogue = SqlCatalog("webcrawl", uri=f"sqlite:///{folder / 'metadata.db'}")
    try:
        return len(catalogue.load_table(("webcrawl", name)).scan().to_arrow())
    finally:
        catalogue.close()


def test_each_run_leaves_a_snapshot_of_pages_texts_and_links(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>first</title><p>A text.</p><a href=/second>second</a>")
    web.put(SITE, "/second", "<title>second</title><p>Another text.</p><a href=/>first</a>")
    settings: dict[str, Any] = {"LAKE": "iceberg", "TEXT": "parquet", "LINKS": True}
    result = crawl([web.url(SITE)], DEPTH_LIMIT=1, **settings)
    assert result.returncode == 0, result.stderr
    assert "statistics missing" not in result.stdout + result.stderr
    assert counts(result.data_dir) == {"pages": [2], "texts": [2], "links": [2]}
    printed = HERE.scrapy("export", "--format", "iceberg", "-s", f"DATA_DIR={result.data_dir}")
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["texts", "links", "pages"]
    # pages are written whole, files of texts and links only once
    assert counts(result.data_dir) == {"pages": [2, 2], "texts": [2], "links": [2]}
    # merged files replace those that the tables had
    (stored,) = (result.data_dir / "texts").glob("*.parquet")
    shutil.copy(stored, stored.with_name("more.parquet"))
    HERE.scrapy("compact", "texts", "-s", f"DATA_DIR={result.data_dir}", "-s", "LAKE=iceberg")
    assert present_rows(result.data_dir, "texts") == 4
    (result.data_dir / "texts" / "damaged.parquet").write_bytes(b"PAR1")
    words = ("export", "--format", "iceberg", "-s", f"DATA_DIR={result.data_dir}")
    refused = scrapy(*words, status=1).stderr
    assert "texts/damaged.parquet cannot be read: " in refused and "Move it away to leave it out" in refused
