"""`scrapy workers N SPIDER`: a crawl by several processes of one machine on one engine."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.python import global_object_name

from webcrawl.config import data_dir, read
from webcrawl.crawler.command import crawl_settings
from webcrawl.errors import ConfigurationError, CrawlError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# NAME, then what tells its format: ".jsonl", ":jsonlines" or both
_NAME = re.compile(r"(.*?)((?:\.[^./]+)?(?::\w+)?)", re.DOTALL)


class Command(BaseRunSpiderCommand):
    """Starts N times `scrapy crawl` with the same options; the first shows the progress of all.

    Feeds and log files, which only one process may write, become one file a worker. Ctrl-C reaches all workers; they
    stop in good order too when this process dies. The command ends with the first exit code that is not 0.
    """

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] <N> <spider>"

    def short_desc(self) -> str:
        return "Run a spider in N processes that share one frontier"

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if opts.pdb or opts.profile:
            option = "--pdb" if opts.pdb else "--profile"
            raise UsageError(f"{option} is for a single process: use scrapy crawl", print_help=False)
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 2 or not args[0].isdigit() or int(args[0]) < 1:
            raise UsageError("give the number of workers, then the spider", print_help=False)
        try:
            number, spider = int(args[0]), args[1]
            assert self.settings is not None
            settings = crawl_settings(get_spider_loader(self.settings), self.settings, spider)
            if number > 1 and read(settings, "SEEN_SET") == "bloom":
                raise ConfigurationError('SEEN_SET = "bloom" is for a single worker')
            common = [sys.executable, "-m", "scrapy", "crawl", spider, "--stop-at-eof", *_given(opts)]
            commands = [common + (_own(settings, place) if number > 1 else []) for place in range(number)]
            logs = data_dir(settings) / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            self.exitcode = asyncio.run(_run(commands, logs))
        except CrawlError as error:
            print(f"scrapy workers: {error}", file=sys.stderr)
            self.exitcode = 2


def own_name(name: str, place: int) -> str:
    """The file of one worker in place of one for all: "items-2.jsonl" for "items.jsonl"."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return f"{match[1]}-{place}{match[2]}"


def _given(opts: argparse.Namespace) -> list[str]:
    """The options that are the same for every worker."""
    words = [word for setting in opts.set for word in ("-s", setting)]
    words += [word for name, value in opts.spargs.items() for word in ("-a", f"{name}={value}")]
    words += ["--loglevel", opts.loglevel] if opts.loglevel else []
    return [*words, "--nolog"] if opts.nolog else words


def _own(settings: BaseSettings, place: int) -> list[str]:
    """The options that give a worker files of its own, wherever the common ones were named."""
    feeds = {str(uri): options for uri, options in settings.getdict("FEEDS").items()}
    if any(uri.startswith("stdout:") for uri in feeds):
        raise ConfigurationError(
            "the items of several workers would be mixed up on stdout: give -o the name of a file"
        )
    words = [] if place == 0 else ["-s", "PROGRESS=off"]
    if feeds:
        feeds = {own_name(uri, place): options for uri, options in feeds.items()}
        # item classes and the like: Scrapy takes their names too
        words += ["-s", f"FEEDS={json.dumps(feeds, default=global_object_name)}"]
    if settings.get("LOG_FILE") and settings.getbool("LOG_ENABLED"):
        words += ["--logfile", own_name(str(settings.get("LOG_FILE")), place)]
    return words


async def _run(commands: Sequence[Sequence[str]], logs: Path) -> int:
    """Run the workers to their end; the first exit code that is not 0."""
    # never written to: its end tells the workers that this process is gone, however it went
    lifeline, ours = os.pipe()
    try:
        workers = [await _start(command, place, lifeline, logs) for place, command in enumerate(commands)]
    finally:
        os.close(lifeline)
    loop = asyncio.get_running_loop()
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number_of_signal, _forward, workers, number_of_signal)
    codes = await asyncio.gather(*(worker.wait() for worker in workers))
    os.close(ours)
    return next((abs(code) for code in codes if code), 0)


async def _start(command: Sequence[str], place: int, lifeline: int, logs: Path) -> asyncio.subprocess.Process:
    # in groups of their own: Ctrl-C in a terminal must reach them once, through us
    if place == 0:
        return await asyncio.create_subprocess_exec(*command, stdin=lifeline, process_group=0)
    with (logs / f"worker-{place}.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command, stdin=lifeline, stdout=log, stderr=log, process_group=0
        )


def _forward(workers: list[asyncio.subprocess.Process], number: signal.Signals) -> None:
    for worker in workers:
        if worker.returncode is None:
            worker.send_signal(number)
