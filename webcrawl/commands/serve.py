"""`scrapy serve`: serves pages and their metadata to other programs, by HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from webcrawl.config.libraries import opentelemetry, optional
from webcrawl.crawler.command import flag, option
from webcrawl.errors import ConfigurationError
from webcrawl.web.command import ServerCommand, server_options

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.service.service import Service
    from webcrawl.web.access import Access
    from webcrawl.web.server import Server
    from webcrawl.web.starter import CrawlStarter

_PORT = 8790


class Command(ServerCommand):
    """Reads the stores and the engine, also without running crawls."""

    summary = "Serve pages and their metadata to programs, by HTTP"
    description = "Serve pages and their metadata to other programs, by an HTTP API that it describes at /"
    name = "service"
    purpose = "serves all crawls"
    options = server_options(
        name,
        _PORT,
        "read and act",
        flag("--no-worker", "start no worker of the live lane, although no other fetches pages"),
        option("--fetches", "URLs that each token may have fetched in an hour", type=float, metavar="N"),
    )

    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        try:
            import uvloop
        except ImportError:  # Windows
            return None
        return uvloop.new_event_loop

    def check(self, opts: argparse.Namespace) -> None:
        check_libraries()
        if opts.fetches is not None and not opts.fetches > 0:
            raise ConfigurationError(f"--fetches {opts.fetches}: write a number above 0")

    def server(
        self, opened: OpenedCrawl, opts: argparse.Namespace, access: Access, starter: CrawlStarter
    ) -> Server:
        from webcrawl.config import read
        from webcrawl.service.app import create_service
        from webcrawl.service.live_worker import LiveWorker
        from webcrawl.service.server import ServiceConnection
        from webcrawl.service.service import Service
        from webcrawl.web.server import Server

        service = Service(opened, self.settings, access, starter, fetches_per_hour=opts.fetches)
        if read(self.settings, "TRACES"):
            _trace(service)
        server = Server(create_service(service), opts.certificate, opts.key, ServiceConnection)
        if not opts.no_worker:
            worker = LiveWorker(opened.connection, dict(setting.partition("=")[::2] for setting in opts.set))
            service.on_close(worker.close)
            service.run(worker.run())
        return server


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
