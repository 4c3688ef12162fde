"""How full a disk is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from webcrawl.errors import StoreError, StoreUnavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def shortage(folder: Path, least: int) -> str:
    """Why nothing more should be written on the disk of a folder: fewer than `least` bytes are free; "" otherwise."""
    try:
        found = os.statvfs(folder)
    except FileNotFoundError:  # nobody has written there yet
        return ""
    free = found.f_bavail * found.f_frsize
    if free >= least:
        return ""
    return f"{free / 1e6:,.0f} MB are free on the disk of {folder}, less than STORE_MIN_FREE_BYTES"


def failure(verb: str, path: Path, error: OSError) -> StoreError:
    """What an OSError means for who stores: StoreUnavailable when the disk is full."""
    kind = StoreUnavailable if error.errno in _FULL else StoreError
    return kind(f"cannot {verb} {path}: {error.strerror or error}")


def occupied(folder: Path) -> int:
    """The bytes of the files in a folder, those of folders in it not counted."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                total += entry.stat().st_size if entry.is_file() else 0
            except FileNotFoundError:  # another process has just sent it
                continue
    return total
