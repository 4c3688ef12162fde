"""The files of a table in a folder.

    broad-20260203040506789-00001-4711-worker.parquet     finished: crawl, time, serial, process, machine
    _broad-20260203050506790-00002-4711-worker.journal    being written, or left by a killed process

Programs that read a folder as one table leave out names that begin with "_".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from webcrawl.documents.disk import failure, flush
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import locked

SUFFIX = ".parquet"
Make: TypeAlias = Callable[[Path, Path], bool]
"""Makes a Parquet file, the second path, of a journal; returns False, and makes none, if the journal has no rows."""

_HIDDEN, _JOURNAL, _OPEN = "_", ".journal", ".open"


def journal_path(folder: Path, name: str) -> Path:
    """Returns the path of the journal that becomes the Parquet file `name`."""
    return folder / f"{_HIDDEN}{name}{_JOURNAL}"


def journals(folder: Path) -> list[Path]:
    """Returns the journals in a folder, by name."""
    return sorted(folder.glob(f"{_HIDDEN}*{_JOURNAL}"))


def finish_journals(folder: Path, make: Make) -> None:
    """Makes Parquet of the journals that no living process writes to, and deletes them.

    A journal that cannot be finished stays, and does not keep others from it. The last error is raised then:
    StoreError, or StoreUnavailable when the disk is full. Several processes may call this at any time.
    """
    error: StoreError | None = None
    for path in journals(folder):
        try:
            with locked(path) as fd:
                if fd is not None:
                    _finish(path, make)
        except OSError as problem:
            error = failure("make Parquet of", path, problem)
    if error is not None:
        raise error


def _finish(path: Path, make: Make) -> None:
    """Makes the Parquet file of a journal, under the same name whenever it is made.

    The journal is deleted last, so after a crash at any point the file is made again or is complete.
    """
    final = path.with_name(path.name.removeprefix(_HIDDEN).removesuffix(_JOURNAL) + SUFFIX)
    if not final.exists():
        unfinished = path.with_name(_HIDDEN + final.name + _OPEN)
        if make(path, unfinished):
            flush(unfinished)
            unfinished.rename(final)
            flush(path.parent)
    path.unlink()
