"""Locks on files (flock) that several processes use. A lock ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[int | None]:
    """Locks an existing file; yields its descriptor, or None if another process has locked, deleted or renamed it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield fd if try_lock(fd, path) else None
    finally:
        os.close(fd)


def try_lock(fd: int, path: Path) -> bool:
    """Locks an open file. Returns False if another process has locked, deleted or renamed it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
