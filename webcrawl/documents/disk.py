"""Free space and full disks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from webcrawl.errors import StoreError, StoreUnavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskSpace(NamedTuple):
    """The free bytes of a disk for users without special rights, and the share of what they may use that is used.

    The share is the `Use%` of `df`, from 0 to 1.
    """

    free: int
    used_share: float

    @classmethod
    def of(cls, folder: Path) -> DiskSpace:
        """Measures the disk of a folder; raises OSError."""
        disk = os.statvfs(folder)
        used = disk.f_blocks - disk.f_bfree
        return cls(disk.f_bavail * disk.f_frsize, used / max(used + disk.f_bavail, 1))


def shortage(folder: Path, least: int, most_share: float = 1.0) -> str:
    """Returns a message if a disk has no room, else "".

    It has none if fewer than `least` bytes are free, or, with a `most_share` below 1, from this used share on.
    """
    try:
        free, used_share = DiskSpace.of(folder)
    except FileNotFoundError:  # nothing has been written there yet
        return ""
    if free < least:
        return f"{free / 1e6:,.0f} MB are free on the disk of {folder}, less than STORE_MIN_FREE_BYTES"
    if used_share >= most_share < 1:
        return f"{used_share:.0%} of the disk of {folder} are used: STORE_MAX_SHARE is {most_share:.0%}"
    return ""


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
