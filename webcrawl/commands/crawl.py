"""`scrapy crawl`, with a plain word about settings that are wrong instead of a traceback."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import sys
from pathlib import Path

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError

from webcrawl.errors import ConfigurationError, CrawlError
from webcrawl.session import Session

logger = logging.getLogger(__name__)

_OURS = ("settings", "spiders", "middlewares", "pipelines")
_FAILURES = ("cannot_start", "no_seeds", "frontier_error")


class Command(ScrapyCrawl):
    """Scrapy's command; it ends with 2 when a setting or argument is wrong, 1 when the crawl could not go on."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one spider")
        try:
            check_packages()
            self._check_settings(args[0])
        except CrawlError as error:
            print(f"scrapy crawl: {error}", file=sys.stderr)
            self.exitcode = 2
            return
        process = self.crawler_process
        assert process is not None
        crawler = process.create_crawler(args[0])
        task = process.crawl(crawler, **opts.spargs)
        if isinstance(task, asyncio.Future):
            task.add_done_callback(self._report_refusal)
        process.start()
        reason = crawler.stats.get_value("finish_reason") if crawler.spider else None
        if not self.exitcode and (process.bootstrap_failed or reason in _FAILURES):
            self.exitcode = 1

    def _report_refusal(self, task: asyncio.Future[None]) -> None:
        """Say in one line what the spider or a component does not accept."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CrawlError):
            print(f"scrapy crawl: {error}", file=sys.stderr)
            self.exitcode = 2
        elif error is not None:
            logger.error("The crawl failed", exc_info=error)

    def _check_settings(self, spider: str) -> None:
        """Read every setting as the crawl will, so that what is wrong is said before anything starts."""
        process, settings = self.crawler_process, self.settings
        assert process is not None and settings is not None
        loader = process.spider_loader
        if spider not in loader.list():
            raise ConfigurationError(f"there is no spider {spider!r}: scrapy list shows those there are")
        settings = settings.copy()
        loader.load(spider).update_settings(settings)
        Session(settings, spider)


def check_packages() -> None:
    """Raise ConfigurationError when an installed package hides one of the project's four top-level packages.

    Scrapy appends the project's folder to sys.path, so anything installed under one of these names comes first.
    """
    import webcrawl

    home = Path(webcrawl.__file__).parent.parent
    for name in _OURS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or Path(spec.origin).parent.parent != home:
            raise ConfigurationError(
                f"the package {name!r} is taken from {spec and spec.origin}, not from {home}: "
                "uninstall what hides it, or run in an environment of its own"
            )
