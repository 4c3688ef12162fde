"""`scrapy workers N SPIDER`: a crawl by several processes of one machine on one engine."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

from webcrawl.config import data_dir
from webcrawl.errors import ConfigurationError, CrawlError


class Command(BaseRunSpiderCommand):
    """Starts N times `scrapy crawl` with the same arguments; the first shows the progress of all.

    Ctrl-C reaches them all; the command ends with the first exit code that is not 0.
    """

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] <N> <spider>"

    def short_desc(self) -> str:
        return "Run a spider in N processes that share one frontier"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 2 or not args[0].isdigit() or int(args[0]) < 1:
            raise UsageError("give the number of workers, then the spider")
        try:
            if int(args[0]) > 1 and self.settings is not None and self.settings.get("SEEN_SET") == "bloom":
                raise ConfigurationError('SEEN_SET = "bloom" is for a single worker')
            self.exitcode = asyncio.run(self._run(int(args[0]), args[1], opts))
        except CrawlError as error:
            print(f"scrapy workers: {error}", file=sys.stderr)
            self.exitcode = 2

    async def _run(self, number: int, spider: str, opts: argparse.Namespace) -> int:
        assert self.settings is not None
        logs = data_dir(self.settings) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "scrapy", "crawl", spider]
        for setting in opts.set:
            command += ["-s", setting]
        for name, value in opts.spargs.items():
            command += ["-a", f"{name}={value}"]
        workers = [await self._start(command, place, logs) for place in range(number)]
        loop = asyncio.get_running_loop()
        for number_of_signal in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number_of_signal, _forward, workers, number_of_signal)
        codes = await asyncio.gather(*(worker.wait() for worker in workers))
        return next((abs(code) for code in codes if code), 0)

    @staticmethod
    async def _start(command: list[str], place: int, logs: Path) -> asyncio.subprocess.Process:
        # in groups of their own: Ctrl-C in a terminal must reach them once, through us
        if place == 0:
            return await asyncio.create_subprocess_exec(*command, process_group=0)
        with (logs / f"worker-{place}.log").open("ab") as log:
            quiet = ["-s", "PROGRESS=off"]
            return await asyncio.create_subprocess_exec(
                *command, *quiet, stdout=log, stderr=log, process_group=0
            )


def _forward(workers: list[asyncio.subprocess.Process], number: signal.Signals) -> None:
    for worker in workers:
        if worker.returncode is None:
            worker.send_signal(number)
