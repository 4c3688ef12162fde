"""A scheduler whose clock a test moves: python -m tests.moved_scheduler CLOCK [-s NAME=VALUE]...

The file CLOCK has its time. Its workers are forks of it, as imports are half of a small crawl.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

from scrapy.utils.project import get_project_settings

from tests.preloaded import Forks
from webcrawl.jobs import children
from webcrawl.jobs.daemon import serve
from webcrawl.jobs.scheduler import Clock


class FileClock(Clock):
    """The time that a file has."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> datetime:
        return datetime.fromisoformat(self._path.read_text())

    async def wait(self, seconds: float, event: asyncio.Event) -> None:
        await asyncio.sleep(0.2)


def main() -> None:
    clock, *given = sys.argv[1:]
    if sys.platform == "linux":
        vars(children)["subprocess"] = SimpleNamespace(Popen=Forks().start)
    settings = get_project_settings()
    for word in given[1::2]:
        name, _, value = word.partition("=")
        settings.set(name, value, priority="cmdline")
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve(settings, given, 2, FileClock(Path(clock))))


if __name__ == "__main__":
    main()
