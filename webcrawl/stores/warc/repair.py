"""Finishes WARC files, also files that dead processes left open."""

from __future__ import annotations

import os
from pathlib import Path

from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.stores.file_lock import locked
from webcrawl.stores.warc import cdxj
from webcrawl.stores.warc.files import OPEN, RECORDS, WARC, index_name
from webcrawl.stores.warc.reading import members, parse


def repair(folder: Path) -> list[Path]:
    """Finishes the files that dead processes left open, and returns their final paths.

    Truncates each file after its last complete gzip member, then indexes and renames it. Deletes files without a
    complete member. Skips files that a living writer has locked. Several processes may call this at any time.
    """
    repaired: list[Path] = []
    for path in sorted(path for suffix in RECORDS for path in folder.glob(f"*{suffix}{OPEN}")):
        try:
            with locked(path) as fd:
                if fd is not None and _mend(fd, path):
                    repaired.append(path.with_suffix(""))
        except OSError as error:
            raise failure("repair", path, error) from error
    return repaired


def _mend(fd: int, path: Path) -> bool:
    """Finishes a file as `WarcWriter.close` would have done. Returns False if the file had no complete record."""
    lines: list[bytes] = []
    end = 0
    name = path.with_suffix("").name
    with os.fdopen(os.dup(fd), "rb") as file:
        for offset, length, start in members(file):
            end = offset + length
            try:
                line = cdxj.line(parse(start), name, offset, length)
            except StoreError:  # a complete gzip member of other software: keep it without an index line
                line = None
            if line is not None:
                lines.append(line)
    if end == 0:
        path.unlink()
        return False
    os.ftruncate(fd, end)
    os.fsync(fd)
    finish(path, lines)
    return True


def finish(path: Path, lines: list[bytes]) -> None:
    """Writes the index, then renames the file: after a crash in between, the file can be repaired."""
    final = path.with_suffix("")
    if not final.name.endswith(WARC):
        path.rename(final)
        return
    index = final.with_name(index_name(final.name))
    unfinished = index.with_name(index.name + OPEN)
    unfinished.write_bytes(b"".join(sorted(lines)))
    unfinished.replace(index)
    path.rename(final)
