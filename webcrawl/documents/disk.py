"""Free space and full disks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from webcrawl.errors import StoreError, StoreUnavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def shortage(folder: Path, least: int) -> str:
    """Returns a message if fewer than `least` bytes are free on the disk of a folder, else ""."""
    try:
        disk = os.statvfs(folder)
    except FileNotFoundError:  # nothing has been written there yet
        return ""
    free = disk.f_bavail * disk.f_frsize
    if free >= least:
        return ""
    return f"{free / 1e6:,.0f} MB are free on the disk of {folder}, less than STORE_MIN_FREE_BYTES"


def failure(verb: str, path: Path, error: OSError) -> StoreError:
    """Returns the StoreError for an OSError: a StoreUnavailable if the disk is full."""
    kind = StoreUnavailable if error.errno in _FULL else StoreError
    return kind(f"cannot {verb} {path}: {error.strerror or error}")


def prepare(folder: Path, what: str) -> None:
    """Creates a folder unless it exists. Raises StoreError, whose message names `what` cannot be stored."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot store {what} in {folder}: {error.strerror}") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreError(f"cannot store {what} in {folder}: permission denied")


def occupied(folder: Path) -> int:
    """Returns the bytes of the files in a folder, without its subfolders."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                total += entry.stat().st_size if entry.is_file() else 0
            except FileNotFoundError:  # another process has just sent and removed the file
                continue
    return total


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, would survive a power failure."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
