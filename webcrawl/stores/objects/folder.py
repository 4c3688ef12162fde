"""Files that are there as a whole or not at all, also after a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def unfinished(path: Path) -> Path:
    """A file before it has its name; what a killed process leaves."""
    return path.with_name(path.name + ".new")


def write(path: Path, data: bytes) -> None:
    """Write a file, or replace it in one step, in a folder that is there; it is on the disk. Raises OSError."""
    new = unfinished(path)
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """New names in a folder outlive a power failure only when the folder, too, is written. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
