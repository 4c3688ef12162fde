"""The folder of reparse plans, `DATA_DIR/reparse`, and the locks of the processes that work on a plan."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.reparse.plan import Plan, remove
from webcrawl.stores.file_lock import try_lock

_LOCK, _WORKERS = "lock", "workers"


def open_plan(data_dir: Path, mark: str, *, again: bool) -> Plan:
    """Returns the plan of a command by its mark; a new plan if `again`. Deletes finished plans of other commands."""
    folder = _folder(data_dir)
    path = folder / f"{mark}.db"
    for other in folder.glob("?" * len(mark) + ".db"):
        if again if other == path else _is_finished(other):
            remove(other)
    return Plan(path)


def _is_finished(path: Path) -> bool:
    with suppress(StoreError), Plan(path) as plan:
        return plan.finished_at is not None
    return False


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Keeps other reparses out of this folder during the block; raises StoreError if a reparse is running.

    A killed reparse counts as running until all its processes have ended.
    """
    folder = _folder(data_dir)
    with _file(folder / _LOCK) as own, _file(folder / _WORKERS) as workers:
        for descriptor, path in ((own, folder / _LOCK), (workers, folder / _WORKERS)):
            if not try_lock(descriptor, path):
                raise StoreError(
                    f"another reparse is running in {data_dir}, or its processes have not ended yet"
                )
        fcntl.flock(workers, fcntl.LOCK_UN)
        yield


@contextmanager
def working(plan: Path) -> Iterator[None]:
    """Marks this process as working on a plan during the block; see `locked`."""
    with _file(plan.parent / _WORKERS) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


@contextmanager
def _file(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure("open", path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder(data_dir: Path) -> Path:
    folder = data_dir / "reparse"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure("create", folder, error) from error
    return folder
