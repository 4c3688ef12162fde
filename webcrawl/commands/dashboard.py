"""`scrapy dashboard`: shows the crawls of an engine as pages in a browser, and lets operators act on them."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.web.access import Access

_PORT = 8780


class Command(OpenedCrawlCommand):
    """Reads the engine while pages are open, whether crawls are running or not."""

    needs_crawl = False

    def syntax(self) -> str:
        return "[options]"

    def short_desc(self) -> str:
        return "Serve crawls, hosts, URLs and jobs to a browser"

    def long_desc(self) -> str:
        return "Serve pages that show the crawls, hosts, URLs and jobs, with actions for operators"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--bind",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="address to listen at, by default 127.0.0.1",
        )
        parser.add_argument("--port", type=int, default=_PORT, help=f"by default {_PORT}; 0 takes a free one")
        parser.add_argument(
            "--tokens",
            type=Path,
            metavar="FILE",
            help='who may look and act, as lines "operator TOKEN" and "reader TOKEN"; needed with another --bind',
        )
        parser.add_argument("--read-only", action="store_true", help="nobody may act")
        parser.add_argument(
            "--name", action="append", default=[], help="a host name of this dashboard; may be repeated"
        )
        parser.add_argument("--certificate", metavar="FILE", help="TLS certificate (PEM) for HTTPS")
        parser.add_argument("--key", metavar="FILE", help="its private key (PEM), if not in the same file")

    def crawl_id(self, args: list[str]) -> str | None:
        if args:
            raise UsageError("the dashboard shows all crawls: it takes no arguments")
        return None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.web.libraries import check_libraries

        check_libraries()
        from webcrawl.web.access import Access
        from webcrawl.web.app import create_app
        from webcrawl.web.server import Server, listening

        if opts.key and not opts.certificate:
            raise ConfigurationError("--key needs --certificate")
        access: Access = Access.for_address(
            opts.bind, opts.tokens, tuple(opts.name), read_only=opts.read_only
        )
        assert self.settings is not None
        listener = listening(opts.bind, opts.port)
        server = Server(create_app(opened, self.settings, access), opts.certificate, opts.key)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        print(f"Dashboard: {server.url(listener)} (Ctrl-C stops it)", flush=True)
        await server.run(listener)
