"""Programs that write a journal and are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.crawls import CHECKOUT


def run_killed(program: str, folder: Path) -> None:
    """Runs a program that kills itself; its last journal in the folder then looks as if it was killed amid a write."""
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program), folder], cwd=CHECKOUT, timeout=60)
    assert run.returncode == -signal.SIGKILL
    (left, *_) = [path for path in folder.iterdir() if path.suffix == ".journal"]
    with left.open("ab") as file:
        file.write(b"\x50\0\0\0torn")
