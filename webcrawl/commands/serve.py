"""`scrapy serve`: serves pages and their metadata to other programs, by HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.config.libraries import opentelemetry, optional
from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.service.service import Service
    from webcrawl.web.access import Access

_PORT = 8790


class Command(OpenedCrawlCommand):
    """Reads the stores and the engine, also without running crawls."""

    needs_crawl = False
    takes_crawl = False
    usage = "[options]"
    summary = "Serve pages and their metadata to programs, by HTTP"
    description = "Serve pages and their metadata to other programs, by an HTTP API that it describes at /"
    options = (
        option(
            "--bind", "address to listen at, by default 127.0.0.1", default="127.0.0.1", metavar="ADDRESS"
        ),
        option("--port", f"by default {_PORT}; 0 takes a free one", type=int, default=_PORT),
        option(
            "--tokens",
            'who may read and act, as lines "operator TOKEN" and "reader TOKEN"; needed with another --bind',
            type=Path,
            metavar="FILE",
        ),
        option("--name", "a host name of this service; may be repeated", action="append", default=[]),
        flag("--no-worker", "start no worker of the live lane, although no other fetches pages"),
        option("--fetches", "URLs that each token may have fetched in an hour", type=float, metavar="N"),
        option("--certificate", "TLS certificate (PEM) for HTTPS", metavar="FILE"),
        option("--key", "its private key (PEM), if not in the same file", metavar="FILE"),
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self._project = self.settings.copy()
        super().run(args, opts)

    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        try:
            import uvloop
        except ImportError:  # Windows
            return None
        return uvloop.new_event_loop

    def crawl_id(self, args: list[str]) -> str | None:
        if args:
            raise UsageError("the service serves all crawls: it takes no arguments")
        return None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        check_libraries()
        from webcrawl.config import read
        from webcrawl.service.app import create_service
        from webcrawl.service.live_worker import LiveWorker
        from webcrawl.service.server import ServiceConnection
        from webcrawl.service.service import Service
        from webcrawl.web.access import Access
        from webcrawl.web.server import Server, listening
        from webcrawl.web.starter import CrawlStarter

        if opts.key and not opts.certificate:
            raise ConfigurationError("--key needs --certificate")
        if opts.fetches is not None and not opts.fetches > 0:
            raise ConfigurationError(f"--fetches {opts.fetches}: write a number above 0")
        access: Access = Access.for_address(opts.bind, opts.tokens, tuple(opts.name))
        listener = listening(opts.bind, opts.port)
        starter = CrawlStarter(self._project, opts.set)
        service = Service(opened, self.settings, access, starter, fetches_per_hour=opts.fetches)
        if read(self.settings, "TRACES"):
            _trace(service)
        server = Server(create_service(service), opts.certificate, opts.key, ServiceConnection)
        if not opts.no_worker:
            worker = LiveWorker(opened.connection, dict(setting.partition("=")[::2] for setting in opts.set))
            service.on_close(worker.close)
            service.run(worker.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        print(f"Service: {server.url(listener)} (Ctrl-C stops it)", flush=True)
        await server.run(listener)


def _trace(service: Service) -> None:
    """Sends traces of requests until the service ends; raises LibraryMissing."""
    opentelemetry()
    from webcrawl.engine.keys import LIVE_CRAWL
    from webcrawl.metrics.exporting import Exporting
    from webcrawl.service.request_traces import RequestTraces

    exporting = Exporting(LIVE_CRAWL, f"service {os.getpid()}")
    service.tally.traces = RequestTraces(exporting.tracer)
    service.on_close(exporting.close)


def check_libraries() -> None:
    """Imports the libraries of the service; raises LibraryMissing."""
    optional("a web server", "starlette", "service", "starlette.applications")
    optional("a web server", "uvicorn", "service", "uvicorn")
    optional("the HTTP API", "msgspec", "service", "msgspec")
