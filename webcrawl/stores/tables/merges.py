"""Merges small files of a table in a folder or an object store. Many workers leave many files, and a query opens all.

A merged file is stored, and then the small files are deleted. Notes prevent that killing the process duplicates rows:

    _merged-20260203060506791-00001-4711-here.merge     {"into": "merged-...parquet", "from": ["broad-...parquet", ...]}

A note is stored before the merged file, and deleted after the files that the merged file replaces.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import try_lock
from webcrawl.stores.objects.store import ObjectFile, ObjectStore
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.store import TableFile
from webcrawl.stores.warc.files import unique_name

REPLACED = b"replaced_files"
"""The key of the footer with the names of the files whose rows a merged file has, without suffix, as JSON."""
_PREFIX = "merged-"
_ASKED_SECONDS = 60.0
_LOCK = "_merge.lock"
_NOTE, _HIDDEN = ".merge", "_"


class Merged(NamedTuple):
    """The number of merged files, and the number of files that replace them."""

    before: int
    after: int


class TableMerge(NamedTuple):
    """How files of a table are merged.

    opened    opens a file of a store by its name and size
    share     the share of a full file that a file has; files with less than half are merged
    write     writes the rows of some files to a new file
    """

    opened: Callable[[ObjectStore, str, int], TableFile]
    share: Callable[[TableFile, int], float]
    write: Callable[[Sequence[TableFile], Path], None]


class MergeJob(NamedTuple):
    """The names of files to merge, and the name of the merged file, without suffix."""

    names: list[str]
    stem: str


RunJobs = Callable[[Sequence[MergeJob], TableMerge], None]
"""Calls `merge_job` for each job, here or on other machines."""


def merge(store: ObjectStore, spool: Path, how: TableMerge, run: RunJobs | None = None) -> Merged:
    """Merges the small files of a store; raises StoreError.

    `spool`: the folder of the store, or the folder of files that wait for their upload, which are not merged. Another
    merge on this machine is an error. No other machine may merge files of the same store at the same time. `run`: by
    default one job after another.
    """
    with locked_tables(spool):
        finish_merges(store, abandoned=True)
        groups = enumerate(_groups(store, spool, how), 1)
        jobs = [MergeJob(names, unique_name(_PREFIX[:-1], number)) for number, names in groups]
        if run is not None:
            run(jobs, how)
        else:
            for job in jobs:
                merge_job(store, job, how)
    return Merged(sum(len(job.names) for job in jobs), len(jobs))


def _groups(store: ObjectStore, spool: Path, how: TableMerge) -> list[list[str]]:
    """Returns the names of files to merge with each other."""
    groups, filled = [list[str]()], 0.0
    for name, size in sorted(store.objects()):
        is_table = name.endswith(SUFFIX) and "/" not in name and not name.startswith((_HIDDEN, "."))
        # a file that is also in the spool will be uploaded again
        if not is_table or (store.folder is None and (spool / name).exists()):
            continue
        share = how.share(how.opened(store, name, size), size)
        if share >= 0.5:
            continue
        groups[-1].append(name)
        filled += share
        if filled >= 1:
            groups.append([])
            filled = 0
    return [names for names in groups if len(names) > 1]


def merge_job(store: ObjectStore, job: MergeJob, how: TableMerge) -> None:
    """Merges some files; raises StoreError."""
    names, stem = job
    files = [how.opened(store, name, store.size(name) or 0) for name in names]
    into, note = stem + SUFFIX, f"{_HIDDEN}{stem}{_NOTE}"
    with store.workspace() as folder:
        path = folder / into
        how.write(files, path)
        store.put(note, json.dumps({"into": into, "from": names}).encode())
        store.move_file(into, path)
    for name in names:
        store.delete(name)
    store.delete(note)


@contextmanager
def locked_tables(folder: Path) -> Iterator[None]:
    """Prevents others from merging or rewriting the files of the store whose folder or spool this is.

    Raises StoreError if another process does so now.
    """
    path = folder / _LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure("open", path, error) from error
    try:
        if not try_lock(descriptor, path):
            raise StoreError(f"another process is merging or rewriting the files in {folder}")
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def finish_merges(store: ObjectStore, *, abandoned: bool = False) -> None:
    """Deletes files whose rows are also in a merged file, because the merging process was killed.

    `abandoned`: no process is merging, so notes about files that were never written are deleted too.
    """
    for note, into, names in _notes(store):
        if store.size(into) is not None:
            for name in names:
                store.delete(name)
        elif not abandoned:
            continue
        store.delete(note)


def merged_names(store: ObjectStore) -> set[str]:
    """Returns the names of files whose rows are also in a merged file."""
    return {name for _, into, names in _notes(store) if store.size(into) is not None for name in names}


def _notes(store: ObjectStore) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the name of each note, the merged file, and the files that it replaces."""
    for note, size in sorted(store.objects(_HIDDEN)):
        if note.endswith(_NOTE):
            try:
                note_facts = json.loads(store.read(note, 0, size))
                into, names = str(note_facts["into"]), [str(name) for name in note_facts["from"]]
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(f"{store.uri(note)} is damaged: it should name merged files") from error
            yield note, into, names


def table_file(store: ObjectStore, name: str, size: int) -> TableFile:
    """Opens a file of a table."""
    return TableFile(store.uri(name), ObjectFile(store, name, size))


def stem_of(name: str) -> str:
    """Returns the name of a file without folders and suffix."""
    return name.rpartition("/")[2].removesuffix(SUFFIX)


def replaced_by(file: TableFile) -> list[str]:
    """Returns the names of the files whose rows a merged file has, without suffix."""
    return [str(name) for name in json.loads(file.footer.get(REPLACED, b"[]"))]


class ReplacedFiles:
    """Tells whether a file of a store was merged into another; reads the footers of merged files once a minute."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._names = frozenset[str]()
        self._asked_at = -_ASKED_SECONDS

    def __contains__(self, name: object) -> bool:
        if time.monotonic() - self._asked_at >= _ASKED_SECONDS:
            self._asked_at = time.monotonic()
            try:
                self._names = frozenset(
                    replaced
                    for item in self._store.objects(_PREFIX)
                    if item.name.endswith(SUFFIX)
                    for replaced in replaced_by(table_file(self._store, *item))
                )
            except (StoreError, ValueError):
                self._names = frozenset()
        return name in self._names
