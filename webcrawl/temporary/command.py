"""The base class of the commands that fetch URLs for their user: `shell`, `fetch`, `view`, `parse` and `check`.

They run on a temporary crawl, with a folder and an embedded engine of its own, which are deleted at the end. So they
change nothing in DATA_DIR, in the stores or on the server of REDIS_URL, and wait for no other process. They also open
the local file that the command line names. `webcrawl.temporary.scheduler` is the scheduler of a temporary crawl.
"""

from __future__ import annotations

import argparse
import sys

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import CloseSpider
from scrapy.settings import BaseSettings
from scrapy.utils.url import guess_scheme
from w3lib.url import any_to_uri

from webcrawl.config import read
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.command import command_name
from webcrawl.errors import ConfigurationError, CrawlError
from webcrawl.temporary.isolation import isolate, name_file, temporary_folder

_FRONTIER = "webcrawl.scheduler.FrontierScheduler"


class TemporaryCrawlCommand(ScrapyCommand):
    """A command on a temporary crawl; the next base class is Scrapy's own class of the command.

    With a SCHEDULER other than the frontier's, it works like Scrapy's command.
    """

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        if read(self.settings, "SCHEDULER") != _FRONTIER:
            super().run(args, opts)  # type: ignore[safe-super]
            return
        with temporary_folder() as folder:
            try:
                isolate(self.settings, folder)
                if args and (url := any_to_uri(guess_scheme(args[0]))).startswith("file:"):
                    name_file(self.settings, url)
                check_temporary(self.settings)
                self._check_spider(getattr(opts, "spider", None))
                super().run(args, opts)  # type: ignore[safe-super]
                self.conclude()
            except CrawlError as error:
                print(f"{program()} {command_name(self)}: {as_typed(error)}", file=sys.stderr)
                self.exitcode = 2 if isinstance(error, ConfigurationError) else 1
            except CloseSpider:
                # the scheduler, whose engine did not start, has logged it
                self.exitcode = 1
            finally:
                self.end()

    def _check_spider(self, name: str | None) -> None:
        """Raises ConfigurationError if the spider of `--spider` lacks the add-on or a safeguard."""
        from webcrawl.crawler.crawl_settings import crawler_of
        from webcrawl.crawler.safeguards import check_addon, check_safeguards

        assert self.crawler_process is not None and self.settings is not None
        loader = self.crawler_process.spider_loader
        if name in loader.list():
            crawler = crawler_of(self.settings, loader.load(name))
            check_addon(crawler)
            check_safeguards(crawler.settings)

    def conclude(self) -> None:
        """Sets the exit status to 1 if a request had no response."""
        from webcrawl.temporary.scheduler import TemporaryScheduler

        if TemporaryScheduler.unanswered:
            self.exitcode = self.exitcode or 1

    def end(self) -> None:
        """Stops what Scrapy's command left running: nothing, except in a shell."""


def check_temporary(settings: BaseSettings) -> None:
    """Raises ConfigurationError if a setting is wrong."""
    from webcrawl.crawler.session import Session

    Session(settings, "temporary")
