"""The program `webcrawl` as a user runs it, in a folder without a project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.crawls import NO_NAMES, TRUSTED, run_python

PROGRAM = (sys.executable, "-P", "-m", "webcrawl.console")
"""The program in a Python of its own, for tests that need more than its output."""
OPTIONS = ("-s", f"DNS_SERVERS={NO_NAMES}", "-s", "DOWNLOAD_DELAY=0", "-s", "SOFT_404=False")
"""Options of crawls and fetches in tests."""


def webcrawl(*words: str | Path, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `webcrawl WORDS` in a folder; it must exit with `code`."""
    return run("webcrawl.console", words, folder, code)


def scrapy(*words: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `scrapy WORDS` in a folder; it must exit with `code`."""
    return run("scrapy", words, folder, code)


def run(
    module: str, words: tuple[str | Path, ...], folder: Path, code: int
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a folder without the settings of this process."""
    ours = ("REDIS_", "STORE_", "METADATA_", "SCRAPY_", "DATA_DIR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | TRUSTED
    return run_python(module, [str(word) for word in words], folder, environment, timeout=120, status=code)
