"""`scrapy crawl`, with a plain word about settings that are wrong instead of a traceback."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import logging
import os
import signal
import sys
import threading
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.exceptions import UsageError

from webcrawl.config import data_dir, read
from webcrawl.crawler.command import crawl_settings
from webcrawl.errors import ConfigurationError, CrawlError

logger = logging.getLogger(__name__)

_OURS = ("settings", "spiders", "middlewares", "pipelines")
_FAILURES = ("cannot_start", "no_seeds", "frontier_error")
_NOBODY = ("set USER_AGENT to your own", "+https://scrapy.org")
"""What stands in a USER_AGENT that nobody has changed: ours, and Scrapy's."""


class Command(ScrapyCrawl):
    """Scrapy's command; it ends with 2 when a setting or argument is wrong, 1 when the crawl could not go on."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--stop-at-eof",
            action="store_true",
            help="stop in good order when standard input ends, as a pipe does when who holds its other end dies",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one spider")
        try:
            check_packages()
            assert self.crawler_process is not None and self.settings is not None
            _make(data_dir(crawl_settings(self.crawler_process.spider_loader, self.settings, args[0])))
        except CrawlError as error:
            print(f"scrapy crawl: {error}", file=sys.stderr)
            self.exitcode = 2
            return
        process = self.crawler_process
        crawler = process.create_crawler(args[0])
        crawler.signals.connect(self._ask_for_a_name, signals.request_scheduled)
        crawler.signals.connect(_collect_garbage_seldom, signals.spider_opened)
        if opts.stop_at_eof:
            # not sooner: Scrapy forgets a signal to stop that comes before its engine runs
            crawler.signals.connect(_stop_at_eof, signals.engine_started)
        task = process.crawl(crawler, **opts.spargs)
        if isinstance(task, asyncio.Future):
            task.add_done_callback(self._report_refusal)
        process.start()
        reason = crawler.stats.get_value("finish_reason") if crawler.spider else None
        if not self.exitcode and (process.bootstrap_failed or reason in _FAILURES):
            self.exitcode = 1
        # what a spider has found out, for scripts
        self.exitcode = self.exitcode or crawler.stats.get_value("exit_status", 0)

    def _report_refusal(self, task: asyncio.Future[None]) -> None:
        """Say in one line what the spider or a component does not accept."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, CrawlError):
            print(f"scrapy crawl: {error}", file=sys.stderr)
            self.exitcode = 2
        elif error is not None:
            logger.error("The crawl failed", exc_info=error)

    def _ask_for_a_name(self, request: Request, spider: Spider) -> None:
        """Say once, when the first host of somebody else is to be crawled, that its owner should know by whom."""
        if _is_here(urlsplit(request.url).hostname or ""):
            return
        spider.crawler.signals.disconnect(self._ask_for_a_name, signals.request_scheduled)
        if any(word in read(spider.settings, "USER_AGENT") for word in _NOBODY):
            logger.warning("Say who you are: set USER_AGENT to a name of your own with a way to reach you")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"DATA_DIR {str(folder)!r}: {error.strerror}") from error


def _is_here(hostname: str) -> bool:
    """Whether a host of this name is this machine."""
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost" or hostname.endswith(".localhost")


def _collect_garbage_seldom() -> None:
    """A page's objects are freed when nothing refers to them; looking for cycles took 0.37 ms a page.

    What is there now stays: modules, classes, settings. All else is looked through after half a million new objects at
    the latest, or what was kept of millions of hosts would stay: parsed robots.txt files are cycles.
    """
    gc.freeze()
    gc.set_threshold(100_000, 1, 1)


def _stop_at_eof() -> None:
    """From now on the end of standard input is what SIGTERM is."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


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
