"""What Linux tells of processes."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process runs: it is neither gone nor a zombie."""
    try:
        return _fields(pid)[0] != "Z"
    except (OSError, IndexError):
        return False


def cpu_ticks(pid: int) -> int:
    """Hundredths of a second that a process has computed; 0 when it is gone."""
    try:
        return int(_fields(pid)[11])
    except (OSError, IndexError):
        return 0


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
