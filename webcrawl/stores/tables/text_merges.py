"""Merges small files of texts, and remembers which files a merged file has replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webcrawl.config import StoreConfig
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.journal import finish_journals
from webcrawl.stores.tables.merges import (
    REPLACED,
    Merged,
    RunJobs,
    TableMerge,
    merge,
    replaced_by,
    stem_of,
    table_file,
)
from webcrawl.stores.tables.parquet import SpooledFile, pyarrow
from webcrawl.stores.tables.store import TableFile
from webcrawl.stores.tables.texts import ORDER, make_table, schema, table_writer, with_all_columns

FULL_BYTES = 200_000_000
"""The bytes of a full file, which is not merged."""


def merge_texts(config: StoreConfig, run: RunJobs | None = None) -> Merged:
    """Merges small files of texts, after journals of dead processes were finished; raises StoreError.

    `run`: see `webcrawl.stores.tables.merges`.
    """
    pyarrow()
    store = open_store(config.tables, "STORE_URI", config.object_stores)
    spool = store.folder or spool_of(config, config.tables)
    if spool.is_dir():
        finish_journals(spool, make_table)
    return merge(store, spool, TableMerge(table_file, lambda file, size: size / FULL_BYTES, _write), run)


def _write(files: Sequence[TableFile], path: Path) -> None:
    replaced = sorted({name for file in files for name in (stem_of(file.name), *replaced_by(file))})

    def opened(path: Path) -> Any:
        writer = table_writer(path)
        writer.add_key_value_metadata({REPLACED: json.dumps(replaced)})
        return writer

    merged = SpooledFile(path, schema(), ORDER, opened)
    for file in files:
        for group in file.groups:
            merged.write(with_all_columns(file.read(group, schema().names)))
    merged.close()
