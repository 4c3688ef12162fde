"""`scrapy metrics`: prints the metrics of whole crawls for Prometheus, or serves them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, flag, option, port_number

if TYPE_CHECKING:
    from webcrawl.metrics.exposition import Exposition
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Reads the engine, so workers may run on any machine, and need not run."""

    summary = "Print or serve the metrics of a whole crawl"
    description = "Print metrics of a whole crawl for Prometheus, or serve them with --port"
    options = (
        flag("--all", "the metrics of all crawls of the engine"),
        option(
            "--port",
            "serve them at http://127.0.0.1:PORT/metrics until Ctrl-C, instead of printing",
            type=port_number,
        ),
        option("--host", "the address to serve them at, by default METRICS_HOST"),
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with suppress(KeyboardInterrupt):  # the usual way to stop
            super().run(args, opts)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.config import read
        from webcrawl.config.libraries import prometheus_client

        if opts.port is not None and not 1 <= opts.port <= 65535:
            raise UsageError("--port must be from 1 to 65535")
        if opts.host and opts.port is None:
            raise UsageError("--host needs --port")
        if opts.all and args:
            raise UsageError("--all takes no crawl id")
        prometheus_client()
        crawls = _Crawls(opened, every=opts.all)
        await crawls.find()
        if opts.port is None:
            sys.stdout.write((await crawls.metrics()).text.decode())
            return
        await _serve(crawls, opts.host or read(self.settings, "METRICS_HOST"), opts.port)


class _Crawls:
    """The opened crawl, or all crawls of its engine."""

    def __init__(self, opened: OpenedCrawl, *, every: bool) -> None:
        self._opened = opened
        self._every = every
        self._names = [opened.connection.keys.crawl]

    async def find(self) -> None:
        """Finds the crawls that exist now; raises StoreError if there is none."""
        connection = self._opened.connection
        if self._every and (names := await connection.crawls()):
            self._names = names
            connection.use(names[0])
        await self._opened.check_exists()

    async def metrics(self, accept: str = "") -> Exposition:
        from webcrawl.engine.client import UNAVAILABLE
        from webcrawl.errors import StoreError
        from webcrawl.metrics.exposition import crawls_exposition

        if self._every:
            # the last known crawls stay while the engine is unavailable, and after the last crawl was deleted
            with suppress(StoreError, *UNAVAILABLE):
                await self.find()
        connection = self._opened.connection
        return await crawls_exposition(connection.frontier, connection.crawl, self._names, accept)


async def _serve(crawls: _Crawls, host: str, port: int) -> None:
    from webcrawl.metrics.server import MetricsServer, listen

    server = MetricsServer(listen("--port", host, port), crawls.metrics)
    await server.start()
    print(f"Serving metrics at {server.url}", file=sys.stderr)
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()
