"""Processes that use an embedded engine, and checks whether processes are alive."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from webcrawl.engine.server_folder import command, socket_path

USER = """
import sys
from pathlib import Path
from webcrawl.engine.embedded import EmbeddedEngine
engine = EmbeddedEngine(Path(sys.argv[1]))
print(engine.start(), engine.first, flush=True)
sys.stdin.read()
"""


class User:
    """A process that uses the engine of a data folder until it is stopped."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def started(self) -> tuple[str, bool]:
        """Wait for its engine to start; returns (URL, whether this process was the first user)."""
        assert self.process.stdout
        url, first = self.process.stdout.readline().split()
        return url, first == "True"

    def stop(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


def process_of(folder: Path) -> int:
    """The pid of the server of an engine folder."""
    lines = command(socket_path(folder), b"INFO server").decode().splitlines()
    return int(next(line.partition(":")[2] for line in lines if line.startswith("process_id:")))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition; returns whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    """Whether a process has ended; zombies count as ended."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    return True
