"""`scrapy metrics`: prints the metrics of a whole crawl for Prometheus, or serves them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import SessionCommand, check_crawl

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Reads the engine, so workers may run on any machine, or none."""

    def syntax(self) -> str:
        return "[options] [crawl id, default: CRAWL_ID, the only crawl, or broad]"

    def short_desc(self) -> str:
        return "Print metrics of a whole crawl for Prometheus, or serve them with --port"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--port",
            type=int,
            help="serve them at http://127.0.0.1:PORT/metrics until Ctrl-C, instead of printing",
        )
        parser.add_argument("--host", help="the address to serve them at, by default METRICS_HOST")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with suppress(KeyboardInterrupt):  # the usual way to stop
            super().run(args, opts)

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.config import read
        from webcrawl.metrics.library import prometheus_client

        if opts.port is not None and not 1 <= opts.port <= 65535:
            raise UsageError("--port must be from 1 to 65535")
        if opts.host and opts.port is None:
            raise UsageError("--host needs --port")
        prometheus_client()
        await check_crawl(session)
        if opts.port is None:
            from webcrawl.metrics.exposition import crawl_exposition

            told = await crawl_exposition(session.connection.frontier, session.connection.crawl)
            sys.stdout.write(told.text.decode())
            return
        assert self.settings is not None
        await _serve(session, opts.host or read(self.settings, "METRICS_HOST"), opts.port)


async def _serve(session: Session, host: str, port: int) -> None:
    from webcrawl.metrics.exposition import Exposition, crawl_exposition
    from webcrawl.metrics.server import PATH, MetricsServer, listen

    async def metrics(accept: str) -> Exposition:
        return await crawl_exposition(session.connection.frontier, session.connection.crawl, accept)

    server = MetricsServer(listen("--port", host, port), metrics)
    await server.start()
    shown = f"[{host}]" if ":" in host else host
    print(
        f"Serving the metrics of {session.connection.keys.crawl} at http://{shown}:{port}{PATH}",
        file=sys.stderr,
    )
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()
