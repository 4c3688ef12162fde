"""What `scrapy dashboard` and `scrapy serve` share: the options of a server, and the server until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import CommandOption, OpenedCrawlCommand, option, port_number
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.web.access import Access
    from webcrawl.web.server import Server
    from webcrawl.web.starter import CrawlStarter


def server_options(name: str, port: int, acts: str, *own: CommandOption) -> tuple[CommandOption, ...]:
    """Returns the options of a server. `acts`: what holders of a token may do; `own` are those of this server alone."""
    return (
        option(
            "--bind", "address to listen at, by default 127.0.0.1", default="127.0.0.1", metavar="ADDRESS"
        ),
        option("--port", f"by default {port}; 0 takes a free one", type=port_number, default=port),
        option(
            "--tokens",
            f'who may {acts}, as lines "operator TOKEN" and "reader TOKEN"; needed with another --bind',
            type=Path,
            metavar="FILE",
        ),
        option("--name", f"a host name of this {name}; may be repeated", action="append", default=[]),
        *own,
        option("--certificate", "TLS certificate (PEM) for HTTPS", metavar="FILE"),
        option("--key", "its private key (PEM), if not in the same file", metavar="FILE"),
    )


class ServerCommand(OpenedCrawlCommand):
    """Serves all crawls of an engine, also without running crawls."""

    needs_crawl = False
    takes_crawl = False
    name: ClassVar[str]
    purpose: ClassVar[str]
    """What the server does, for the error about arguments."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self._project = self.settings.copy()
        super().run(args, opts)

    def crawl_id(self, args: list[str]) -> str | None:
        if args:
            raise UsageError(f"the {self.name} {self.purpose}: it takes no arguments")
        return None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        self.check(opts)
        if opts.key and not opts.certificate:
            raise ConfigurationError("--key needs --certificate")
        from webcrawl.web.access import Access
        from webcrawl.web.server import listening
        from webcrawl.web.starter import CrawlStarter

        read_only = bool(getattr(opts, "read_only", False))
        access: Access = Access.for_address(opts.bind, opts.tokens, tuple(opts.name), read_only=read_only)
        listener = listening(opts.bind, opts.port)
        server = self.server(opened, opts, access, CrawlStarter(self._project, opts.set))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        print(f"{self.name.capitalize()}: {server.url(listener)} (Ctrl-C stops it)", flush=True)
        await server.run(listener)

    @abstractmethod
    def check(self, opts: argparse.Namespace) -> None:
        """Raises LibraryMissing, or ConfigurationError for a wrong option of this server."""

    @abstractmethod
    def server(
        self, opened: OpenedCrawl, opts: argparse.Namespace, access: Access, starter: CrawlStarter
    ) -> Server:
        """Returns the server of an opened engine."""
