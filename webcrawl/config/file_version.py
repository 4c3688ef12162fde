"""Whether a file has changed since it was read."""

from __future__ import annotations

from pathlib import Path

FileVersion = tuple[int, int, int]


def file_version(path: str | Path) -> FileVersion | None:
    """Returns a value that changes when a file is written or replaced; None if the file cannot be read."""
    try:
        stat = Path(path).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
