"""`scrapy workers N SPIDER`: runs a crawl in several processes that share a machine and an engine."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from scrapy.addons import AddonManager
from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings
from scrapy.spiderloader import get_spider_loader

from webcrawl.config import data_dir, read
from webcrawl.config.private_files import given_umask
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.crawl_options import own_options
from webcrawl.crawler.crawl_settings import crawl_settings
from webcrawl.crawler.named_components import check_early
from webcrawl.crawler.url_arguments import add_short_options, add_texts, take_urls
from webcrawl.errors import ConfigurationError, CrawlError


class Command(BaseRunSpiderCommand):
    """Starts `scrapy crawl` N times with the same options. The first process shows the progress of all.

    Each worker writes its own feed and log files. Ctrl-C stops all workers; they also stop when this process dies. The
    exit status is the first exit status of a worker that is not 0.
    """

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] <N> <URL ...> | <@file of URLs> | <spider>"

    def short_desc(self) -> str:
        return "Crawl in N processes that share one frontier"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_short_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if opts.pdb or opts.profile:
            option = "--pdb" if opts.pdb else "--profile"
            raise UsageError(f"{option} works with a single process: use scrapy crawl", print_help=False)
        assert self.settings is not None
        check_early(self.settings, opts)
        AddonManager.load_pre_crawler_settings(self.settings)
        named = args[1:]
        has_urls = take_urls(named, opts, self.settings)
        args[1:] = named
        super().process_options(args, opts)
        if has_urls:
            add_texts(opts, self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 2 or not args[0].isdigit() or int(args[0]) < 1:
            raise UsageError("give the number of workers, and a spider or URLs", print_help=False)
        try:
            count, spider = int(args[0]), args[1]
            assert self.settings is not None
            AddonManager.load_pre_crawler_settings(self.settings)
            settings = crawl_settings(get_spider_loader(self.settings), self.settings, spider)
            if count > 1 and read(settings, "SEEN_SET") == "bloom":
                raise ConfigurationError('SEEN_SET = "bloom" works with a single worker: set "exact"')
            common = [sys.executable, "-m", "scrapy", "crawl", spider, "--stop-at-eof", *given(opts)]
            commands = [
                common + own_options(settings, number if count > 1 else None) for number in range(count)
            ]
            _try_ports(settings, count)
            logs = data_dir(settings) / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            self.exitcode = asyncio.run(run_all(commands, logs))
        except CrawlError as error:
            print(f"{program()} workers: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2


def _try_ports(settings: BaseSettings, number: int) -> None:
    """Raises ConfigurationError if a worker could not serve its metrics, which otherwise only its log would report."""
    if (first := read(settings, "METRICS_PORT")) is not None:
        from webcrawl.metrics.server import listen

        for port in range(first, first + number):
            listen("METRICS_PORT", read(settings, "METRICS_HOST"), port).close()


def given(opts: argparse.Namespace) -> list[str]:
    """Returns the options that all workers share."""
    words = [word for setting in opts.set for word in ("-s", setting)]
    words += [word for name, value in opts.spargs.items() for word in ("-a", f"{name}={value}")]
    words += ["--loglevel", opts.loglevel] if opts.loglevel else []
    return [*words, "--nolog"] if opts.nolog else words


async def run_all(commands: Sequence[Sequence[str]], logs: Path) -> int:
    """Runs the workers until they end; returns the first exit status that is not 0."""
    # no data is written to the pipe: it closes when this process ends, and then the workers stop
    lifeline, ours = os.pipe()
    try:
        workers = [await _start(command, number, lifeline, logs) for number, command in enumerate(commands)]
    finally:
        os.close(lifeline)
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, _forward, workers, stop_signal)
    codes = await asyncio.gather(*(worker.wait() for worker in workers))
    os.close(ours)
    return next((abs(code) for code in codes if code), 0)


async def _start(
    command: Sequence[str], number: int, lifeline: int, logs: Path
) -> asyncio.subprocess.Process:
    # in separate process groups, because Ctrl-C in a terminal must reach the workers once, through this process
    if number == 0:
        return await asyncio.create_subprocess_exec(
            *command, stdin=lifeline, process_group=0, umask=given_umask()
        )
    with (logs / f"worker-{number}.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command, stdin=lifeline, stdout=log, stderr=log, process_group=0, umask=given_umask()
        )


def _forward(workers: list[asyncio.subprocess.Process], number: signal.Signals) -> None:
    for worker in workers:
        if worker.returncode is None:
            worker.send_signal(number)
