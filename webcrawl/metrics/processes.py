"""Measures the memory of this process's descendants, from Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def child_memory() -> int | None:
    """Returns the resident memory of all descendants of this process in bytes; None if it is unknown."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return None
    return sum(_resident(pid) for pid in _descendants(os.getpid()))


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):  # the process has ended meanwhile
        for task in os.scandir(f"/proc/{pid}/task"):
            for child in map(int, Path(task.path, "children").read_text().split()):
                yield child
                yield from _descendants(child)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
