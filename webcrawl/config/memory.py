"""Measures the free memory and that of child processes, and decides how much memory a command takes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_LEAST = 256_000_000
_PAGE = os.sysconf("SC_PAGE_SIZE")


def usual_memory() -> int:
    """Returns the bytes that a command takes by default: half of the free memory, because crawls may run.

    The result is never so small that DuckDB would fail.
    """
    return max(_LEAST, free_memory() // 2)


def free_memory(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int:
    """Returns the bytes that programs may still take, on the machine and in the container of this process."""
    return max(0, int(min(_on_machine(meminfo), _in_container(group))))


def _on_machine(meminfo: Path) -> int:
    try:
        available = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    except OSError:
        available = None
    if available:
        return int(available[1]) * 1024
    # all memory: macOS has no file that says how much is free
    return _PAGE * os.sysconf("SC_PHYS_PAGES")


def _in_container(group: Path) -> float:
    """Returns the bytes that control groups (version 2) leave to the container; infinity without a limit."""
    try:
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return float("inf") if limit == "max" else int(limit) - int(used)
    except (OSError, ValueError):
        return float("inf")


def child_memory() -> int | None:
    """Returns the resident memory of all descendants of this process in bytes, from Linux's /proc, or None."""
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
