"""Merges small files of a link store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from webcrawl.config import StoreConfig
from webcrawl.links.arrow import GROUP_ROWS, ORDER, footer_of, pyarrow, schema, writer
from webcrawl.links.sources import LinkFile
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import ObjectFile, ObjectStore, open_store
from webcrawl.stores.tables.merges import Merged, RunJobs, TableMerge, merge as merge_table
from webcrawl.stores.tables.parquet import ascending
from webcrawl.stores.tables.store import TableFile

FULL_ROWS = 500_000
"""The rows of a full file, which is not merged: a long crawl writes this many rows into a file."""


def merge_files(config: StoreConfig, run: RunJobs | None = None) -> Merged:
    """Merges small files of the link store; raises StoreError. `run`: see `webcrawl.stores.tables.merges`."""
    pyarrow()
    store = open_store(config.links, "STORE_URI", config.object_stores)
    return merge(store, store.folder or spool_of(config, config.links), run)


def merge(store: ObjectStore, spool: Path, run: RunJobs | None = None) -> Merged:
    """Merges the files of a store that have less than half of FULL_ROWS; see `webcrawl.stores.tables.merges`."""
    how = TableMerge(_opened, lambda file, size: len(file) / FULL_ROWS, _write)
    return merge_table(store, spool, how, run)


def _opened(store: ObjectStore, name: str, size: int) -> LinkFile:
    return LinkFile(store.uri(name), ObjectFile(store, name, size))


def _write(files: Sequence[TableFile], path: Path) -> None:
    names = schema().names
    tables = [file.read(group, names).select(names).cast(schema()) for file in files for group in file.groups]
    rows = pyarrow().concat_tables([schema().empty_table(), *tables]).sort_by(ascending(ORDER))
    with writer(path, schema()) as made:
        made.write_table(rows, GROUP_ROWS)
        fetches = rows.group_by(["from_url", "time", "read_at"]).aggregate([])["from_url"]
        made.add_key_value_metadata(footer_of(fetches.unique().to_pylist(), fetches=len(fetches)))
