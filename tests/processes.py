"""Facts about processes from Linux's /proc, the peak memory of a command, and a limit for the size of files."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crawls import CHECKOUT

_TELLING = """
import sys
from scrapy.cmdline import execute
try:
    execute(["scrapy", *sys.argv[1:]])
finally:
    with open("/proc/self/status") as file:
        print(*(line.split()[1] for line in file if line.startswith("VmHWM")), file=sys.stderr)
"""


def scrapy_peak(*words: str, timeout: float = 240) -> tuple[int, bytes, str, int]:
    """Run a scrapy command here; returns exit status, stdout, stderr, and peak memory in KiB."""
    run = subprocess.run(
        [sys.executable, "-c", _TELLING, *words], cwd=CHECKOUT, capture_output=True, timeout=timeout
    )
    *errors, peak = run.stderr.decode().splitlines(keepends=True)
    return run.returncode, run.stdout, "".join(errors), int(peak)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return _fields(pid)[0] != "Z"
    except (OSError, IndexError):
        return False


def cpu_ticks(pid: int) -> int:
    """CPU time of a process in clock ticks (1/100 s); 0 if it is gone."""
    try:
        return int(_fields(pid)[11])
    except (OSError, IndexError):
        return 0


def resident_megabytes(pid: int) -> int:
    """The memory of a process that is in RAM, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 2**20


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Simulates a full disk: a file may have at most `size` bytes (EFBIG, not ENOSPC); the last write is partial."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
