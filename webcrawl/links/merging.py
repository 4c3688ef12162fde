"""Merges small files of a link store. Short crawls and many workers leave many files, and a query opens all of them.

The merged file is stored, and then the small files are deleted. A note about both (`webcrawl.links.sources`) prevents
that killing the process duplicates rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.links.arrow import GROUP_ROWS, ORDER, footer_of, pyarrow, schema, writer
from webcrawl.links.sources import LinkFile, finish_merges, note_about, note_of
from webcrawl.stores.archive import spool_of
from webcrawl.stores.file_lock import try_lock
from webcrawl.stores.objects.registry import open_store
from webcrawl.stores.objects.store import ObjectFile, ObjectStore
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.parquet import ascending
from webcrawl.stores.warc.files import unique_name

FULL_ROWS = 500_000
"""The rows of a full file, which is not merged: a long crawl writes this many rows into a file."""
_LOCK = "_merge.lock"


class Merged(NamedTuple):
    """The number of merged files, and the number of files that replace them."""

    before: int
    after: int


def merge_files(config: StoreConfig) -> Merged:
    """Merges small files of the link store; raises StoreError."""
    pyarrow()
    store = open_store(config.links, "STORE_URI", config.object_stores)
    return merge(store, store.folder or spool_of(config, config.links))


def merge(store: ObjectStore, spool: Path) -> Merged:
    """Merges the files of a store that have less than half of FULL_ROWS; raises StoreError.

    `spool`: the folder of the store, or the folder of files that wait for their upload, which are not merged. Another
    merge on this machine is an error. No other machine may merge files of the same store at the same time.
    """
    before = after = 0
    with _locked(spool):
        finish_merges(store, abandoned=True)
        for number, names in enumerate(_groups(store, spool), 1):
            _merge(store, names, unique_name("merged", number))
            before, after = before + len(names), number
    return Merged(before, after)


def _groups(store: ObjectStore, spool: Path) -> list[list[str]]:
    """Returns the names of files to merge with each other."""
    groups, rows = [list[str]()], 0
    for name, size in sorted(store.objects()):
        # a file that is also in the spool will be uploaded again
        if not name.endswith(SUFFIX) or "/" in name or (store.folder is None and (spool / name).exists()):
            continue
        number = len(LinkFile(store.uri(name), ObjectFile(store, name, size)))
        if number >= FULL_ROWS // 2:
            continue
        groups[-1].append(name)
        rows += number
        if rows >= FULL_ROWS:
            groups.append([])
            rows = 0
    return [names for names in groups if len(names) > 1]


def _merge(store: ObjectStore, names: Sequence[str], stem: str) -> None:
    tables = []
    for name in names:
        file = LinkFile(store.uri(name), ObjectFile(store, name, store.size(name) or 0))
        tables += [
            file.read(group, schema().names).select(schema().names).cast(schema()) for group in file.groups
        ]
    table = pyarrow().concat_tables([schema().empty_table(), *tables])
    rows = table.sort_by(ascending(ORDER))
    into, note = stem + SUFFIX, note_of(stem)
    with store.workspace() as folder:
        path = folder / into
        with writer(path, schema()) as made:
            made.write_table(rows, GROUP_ROWS)
            fetches = rows.group_by(["from_url", "time", "read_at"]).aggregate([])["from_url"]
            made.add_key_value_metadata(footer_of(fetches.unique().to_pylist(), fetches=len(fetches)))
        store.put(note, note_about(into, names))
        store.move_file(into, path)
    for name in names:
        store.delete(name)
    store.delete(note)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    path = folder / _LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure("open", path, error) from error
    try:
        if not try_lock(descriptor, path):
            raise StoreError(f"another process is merging the files in {folder}")
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
