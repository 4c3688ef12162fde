"""The tutorial does what it says: its files and commands are taken from the page, and print what it shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.crawls import NO_NAMES
from tests.ports import free_ports
from tests.project.shown_commands import Shell
from tests.project.tutorial import PAGE, rewritten, stable


def quick(command: str) -> str:
    """A crawl of the tutorial without its delay."""
    if command.startswith("webcrawl crawl"):
        return f"{command} -s DOWNLOAD_DELAY=0.05 -s DNS_SERVERS={NO_NAMES}"
    return command


def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    page = PAGE.read_text()
    folder, notes = tmp_path / "work", tmp_path / "notes"
    folder.mkdir()
    notes.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "PYTHONPATH")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with Shell(folder, environment, notes) as shell:
        now = rewritten(page, shell, free_ports(1)[0], quick)
    assert stable(now) == stable(page), "run `make tutorial`"
    assert "pages       4 from 1 host" in page and "Nothing was left to crawl" in page
