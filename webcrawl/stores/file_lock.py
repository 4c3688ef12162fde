"""Files that several processes look after: who locks one (flock) has it, until the process ends or closes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(path: Path) -> Iterator[int | None]:
    """An existing file, locked, as a descriptor; None when another process has it, or has removed or renamed it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield fd if lock(fd, path) else None
    finally:
        os.close(fd)


def lock(fd: int, path: Path) -> bool:
    """Take an open file for this process; False if another one has it, or has removed or renamed it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
