"""`scrapy crawl`: runs a spider, or the spider `broad` on URLs.

A wrong setting or argument gets one line instead of a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.addons import AddonManager
from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.crawler import CrawlerProcessBase
from scrapy.exceptions import UsageError
from scrapy.utils.conf import closest_scrapy_cfg
from scrapy.utils.misc import load_object

from webcrawl.config import data_dir, read
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.crawl_options import take_private
from webcrawl.crawler.crawl_settings import crawl_settings
from webcrawl.crawler.named_components import check_early
from webcrawl.crawler.signals import crawl_abandoned
from webcrawl.crawler.url_arguments import add_short_options, add_texts, take_urls
from webcrawl.documents.sandbox import give_back_memory
from webcrawl.errors import ConfigurationError, CrawlError

logger = logging.getLogger(__name__)

_PACKAGES = ("settings", "spiders", "middlewares", "pipelines")
_FAILURES = ("cannot_start", "no_seeds", "start_error", "frontier_error")
_DEFAULT_AGENTS = ("set USER_AGENT to your own", "+https://scrapy.org")
"""Parts of the default USER_AGENT of this project and of Scrapy."""
_PATIENCE = 5.0
"""Seconds that abandoned tasks have to end."""
_GIVE_BACK_SECONDS = 1.0
_OPEN_FILES = 65_536


class Command(ScrapyCrawl):
    """Scrapy's command.

    Exit status: 2 when a setting or argument is wrong, 1 when the crawl failed or fetched no page.
    """

    def syntax(self) -> str:
        return "[options] <URL ...> | <@file of URLs> | <spider>"

    def short_desc(self) -> str:
        return "Crawl from URLs, or run a spider by its name"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_short_options(parser)
        parser.add_argument(
            "--stop-at-eof",
            action="store_true",
            help="shut down cleanly when standard input ends, for example because the process at its other end died",
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        allow_open_files()  # before a setting takes half of them
        check_early(self.settings, opts)
        # Scrapy reads some settings before add-ons set them
        AddonManager.load_pre_crawler_settings(self.settings)
        has_urls = take_urls(args, opts, self.settings)
        super().process_options(args, opts)
        if has_urls:
            add_texts(opts, self.settings)
        take_private(self.settings, opts)
        AddonManager.load_pre_crawler_settings(self.settings)
        if loop := self.settings["ASYNCIO_EVENT_LOOP"]:
            # otherwise Scrapy first creates the default loop and never closes it, which prints errors at the end
            asyncio.set_event_loop(load_object(loop)())

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give one spider, or URLs such as https://example.org/")
        gc.disable()  # until the spider opens: modules and components are no garbage, and searching them takes 0.06 s
        try:
            check_packages()
            assert self.crawler_process is not None and self.settings is not None
            _make_folder(data_dir(crawl_settings(self.crawler_process.spider_loader, self.settings, args[0])))
        except CrawlError as error:
            print(f"{program()} crawl: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2
            return
        process = self.crawler_process
        crawler = process.create_crawler(args[0])
        crawler.signals.connect(self._check_user_agent, signals.request_scheduled)
        crawler.signals.connect(_collect_garbage_rarely, signals.spider_opened)
        crawler.signals.connect(_give_back_memory_often, signals.spider_opened)
        if opts.stop_at_eof:
            # Scrapy loses a stop signal that arrives before its engine runs
            crawler.signals.connect(_stop_at_eof, signals.engine_started)
        task = process.crawl(crawler, **opts.spargs)
        if isinstance(task, asyncio.Future):
            task.add_done_callback(self._report_refusal)
        tell_of_forced_stop(process, read(crawler.settings, "FRONTIER_LEASE_SECONDS"), self._end_with)
        process.start()
        if process.bootstrap_failed:
            self.exitcode = self.exitcode or 1
        elif not self.exitcode:
            failed = crawler.stats.get_value("finish_reason") in _FAILURES
            # without a failure, the spider may set the status, for scripts
            self.exitcode = 1 if failed else crawler.stats.get_value("exit_status", 0)

    def _end_with(self, status: int) -> None:
        self.exitcode = status

    def _report_refusal(self, task: asyncio.Future[None]) -> None:
        """Prints the error of a spider or component in one line."""
        from webcrawl.crawler.download.reactor import reactor_is_missing, refusal

        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CrawlError) and reactor_is_missing(error):
            error = refusal(error)
        if isinstance(error, CrawlError):
            print(f"{program()} crawl: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2
        elif error is not None:
            logger.error("The crawl failed", exc_info=error)

    def _check_user_agent(self, request: Request, spider: Spider) -> None:
        """Warns about the default USER_AGENT, once, at the first request to another machine."""
        if _is_local(urlsplit(request.url).hostname or ""):
            return
        spider.crawler.signals.disconnect(self._check_user_agent, signals.request_scheduled)
        if any(word in read(spider.settings, "USER_AGENT") for word in _DEFAULT_AGENTS):
            logger.warning(
                "USER_AGENT is the default: set it to your crawler's name and a way to reach you, such as "
                "-s USER_AGENT='examplebot/1.0 (+https://example.com/bot.html)'"
            )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"DATA_DIR: cannot create the folder {str(folder)!r} ({error.strerror})"
        ) from error


def _is_local(hostname: str) -> bool:
    """Returns whether a host name denotes this machine."""
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost" or hostname.endswith(".localhost")


def _collect_garbage_rarely() -> None:
    """Makes garbage collection rare: it took 0.37 ms per page, and reference counts free the objects of pages.

    Freezes all existing objects (modules, classes, settings). New objects are still collected, because some objects of
    hosts, such as parsed robots.txt files, are reference cycles.
    """
    gc.freeze()
    gc.set_threshold(100_000, 1, 1)
    gc.enable()


def allow_open_files() -> None:
    """Raises the soft limit of open files to the hard one, up to _OPEN_FILES, as programs in Go do.

    Many accounts have 1,024, and a quarter of that would be few connections to hosts that do not answer. The low soft
    limit is for programs with select(), which no part of a crawl uses.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # macOS has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _give_back_memory_often() -> None:
    """Returns free memory to the system now, and each second from now on, which takes 0.5 ms.

    The C library keeps the memory of pages that were in work at the same time: 13 of 195 MB with all pipelines.
    """
    give_back_memory()
    asyncio.get_running_loop().call_later(_GIVE_BACK_SECONDS, _give_back_memory_often)


def _stop_at_eof() -> None:
    """Sends SIGTERM to this process when standard input ends."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def check_packages() -> None:
    """Raises ConfigurationError when an installed package hides one of the project's top-level packages.

    Scrapy appends the project's folder to sys.path, so an installed package of the same name takes precedence.
    """
    if not (config := closest_scrapy_cfg()):
        return
    home = Path(config).parent
    for name in _PACKAGES:
        if not (home / name / "__init__.py").exists():
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or Path(spec.origin).parent.parent != home:
            raise ConfigurationError(
                f"the package {name!r} is taken from {spec and spec.origin}, not from {home}: "
                "uninstall the other package, or use a separate environment"
            )


def tell_of_forced_stop(
    process: CrawlerProcessBase, lease_seconds: float, ended: Callable[[int], None]
) -> None:
    """Makes a process log the second SIGINT or SIGTERM; then calls `ended` with the exit status, 128 and its number."""

    def tell(number: int) -> None:
        logger.warning(
            "%s again: the crawl stops at once. What is being fetched or stored is given up, and nothing is lost: "
            "other workers or the next run take these URLs when their leases expire, after %g s at most.",
            signal.Signals(number).name,
            lease_seconds,
        )
        for crawler in process.crawlers:
            crawler.signals.send_catch_log(crawl_abandoned)
        # Scrapy abandons tasks, and asyncio would print a line for each task
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        ended(128 + number)
        # a task may refuse to end, and asyncio waits for all tasks
        last = threading.Timer(_PATIENCE, os._exit, (128 + number,))
        last.daemon = True
        last.start()

    # the one step of Scrapy's forced stop that runs in the event loop
    setattr(process, "_log_kill", tell)  # noqa: B010
