"""The base class of the commands that fetch URLs for their user: `shell`, `fetch`, `view`, `parse` and `check`.

They run on a temporary crawl, with a folder and an embedded engine of its own, which are deleted at the end. So they
change nothing in DATA_DIR, in the stores or on the server of REDIS_URL, and wait for no other process.
`webcrawl.temporary` has the scheduler of such a crawl.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from scrapy.commands import ScrapyCommand
from scrapy.settings import BaseSettings

from webcrawl.errors import ConfigurationError, CrawlError

SCHEDULER = "webcrawl.scheduler.FrontierScheduler"
SHELL_URL = "SHELL_URL"
"""Key in the settings of a shell: its URL, or an empty string. The address guard lets its host pass."""
_ISOLATED: dict[str, object] = {
    "SCHEDULER": "webcrawl.temporary.TemporaryScheduler",
    "CRAWL_ID": "",
    "JOBDIR": None,
    "STORE_URI": "",
    "METADATA_URI": "",
    "FRONTIER_SPILL_URI": "",
    "LISTENERS_MAXLEN": 0,
    "PROGRESS": "off",
    # one attempt: the user waits for the answer
    "FRONTIER_MAX_ATTEMPTS": 1,
    "FRONTIER_SHARDS": 1,
    "SEEN_SET": "exact",
    "CRAWL_MAX_PAGES": 0,
    "CRAWL_MAX_BYTES": 0,
    "HOST_MAX_PAGES": 0,
    "HOST_MAX_BYTES": 0,
    # otherwise a robots.txt would add pages to fetch
    "SITEMAPS_FROM_ROBOTS": False,
}
_NO_SERVER: dict[str, object] = {
    "REDIS_URL": None,
    "REDIS_HOST": None,
    "REDIS_PORT": None,
    "REDIS_DB": None,
    "REDIS_PARAMS": {},
}
_END_SECONDS = 10.0


class TemporaryCrawlCommand(ScrapyCommand):
    """A command on a temporary crawl; the next base class is Scrapy's own class of the command.

    With a SCHEDULER other than the frontier's, it is Scrapy's command.
    """

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        if self.settings["SCHEDULER"] != SCHEDULER:
            super().run(args, opts)  # type: ignore[safe-super]
            return
        folder = Path(mkdtemp(prefix="webcrawl-"))
        try:
            isolate(self.settings, folder)
            _check(self.settings)
            super().run(args, opts)  # type: ignore[safe-super]
            self._fail_if_unanswered()
        except CrawlError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            self.exitcode = 2 if isinstance(error, ConfigurationError) else 1
        finally:
            self.end()
            _remove(folder)

    def end(self) -> None:
        """Stop what Scrapy's command left running: nothing, except in a shell."""

    def _fail_if_unanswered(self) -> None:
        from webcrawl.temporary import TemporaryScheduler

        if TemporaryScheduler.unanswered:
            self.exitcode = self.exitcode or 1


def isolate(settings: BaseSettings, folder: Path) -> None:
    """Change settings so that a crawl uses nothing but `folder`, an empty one.

    On a platform without an embedded engine, the crawl has an id of its own on the server of REDIS_URL, and is deleted
    there when it ends.
    """
    changes = {**_ISOLATED, "DATA_DIR": str(folder)}
    if _has_embedded_engine(folder):
        changes |= _NO_SERVER
    else:
        changes |= {"CRAWL_ID": f"temporary-{uuid.uuid4().hex[:12]}", "SCHEDULER_PERSIST": False}
    for name, value in changes.items():
        settings.set(name, value, priority="cmdline")


def _has_embedded_engine(folder: Path) -> bool:
    """Whether this platform has one; if so, it will delete the folder after its last use."""
    try:
        from webcrawl.engine.embedded import make_temporary, server_binary

        server_binary()
    except (ImportError, CrawlError):
        return False
    make_temporary(folder)
    return True


def _check(settings: BaseSettings) -> None:
    """Raises ConfigurationError when a setting is wrong."""
    from webcrawl.crawler.session import Session

    Session(settings, "temporary")


def _remove(folder: Path) -> None:
    """Delete the folder, or wait until the keeper of its engine has deleted it."""
    deadline = time.monotonic() + _END_SECONDS
    while (folder / "engine" / "keeper").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    if not (folder / "engine" / "keeper").exists():
        rmtree(folder, ignore_errors=True)
