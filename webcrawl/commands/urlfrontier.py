"""`scrapy urlfrontier`: serves the frontier to crawlers of any kind, over gRPC (URLFrontier 2.6)."""

from __future__ import annotations

import argparse
import asyncio
import signal
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.config.libraries import optional
from webcrawl.crawler.command import OpenedCrawlCommand, flag, option, port_number
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

_PORT = 7071


class Command(OpenedCrawlCommand):
    """Needs no crawl: clients begin crawls by storing URLs."""

    needs_crawl = False
    takes_crawl = False
    default_settings = {"LOG_ENABLED": True, "LOG_LEVEL": "INFO"}
    usage = "[options]"
    summary = "Serve the frontier to other crawlers over gRPC (URLFrontier)"
    description = "Serve queues of URLs to crawlers such as StormCrawler, by the protocol of URLFrontier 2.6"
    options = (
        option(
            "--bind", "address to listen at, by default 127.0.0.1", default="127.0.0.1", metavar="ADDRESS"
        ),
        option("--port", f"by default {_PORT}; 0 takes a free one", type=port_number, default=_PORT),
        option("--certificate", "TLS certificate (PEM)", type=Path, metavar="FILE"),
        option("--key", "its private key (PEM), if not in the same file", type=Path, metavar="FILE"),
        option(
            "--client-ca", "who signs the certificates that clients need (PEM)", type=Path, metavar="FILE"
        ),
        flag("--anyone", "let every client that reaches another address than loopback read and delete URLs"),
    )

    def crawl_id(self, args: list[str]) -> str | None:
        if args:
            raise UsageError("clients name the crawls: the command takes no arguments")
        return None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        check_options(opts)
        check_libraries()
        from webcrawl.urlfrontier.queues import ClientQueues
        from webcrawl.urlfrontier.server import Certificates, FrontierServer

        certificates = None
        if opts.certificate:
            certificates = Certificates(opts.certificate, opts.key or opts.certificate, opts.client_ca)
        connection = opened.connection
        keys = connection.keys
        for crawl in await connection.crawls():
            connection.use(crawl)
            await connection.adopt_layout()
            keys = connection.keys
            break
        bind = f"[{opts.bind}]" if ":" in opts.bind else opts.bind
        queues = ClientQueues(connection.engine, keys, connection.worker)
        server = FrontierServer(queues, f"{bind}:{opts.port}", certificates)
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ending.set)
        await server.start()
        print(f"URLFrontier: {server.address} (Ctrl-C stops it)", flush=True)
        await ending.wait()
        await server.stop()


def check_options(opts: argparse.Namespace) -> None:
    """Raises ConfigurationError for options that contradict each other, or that let anyone in by mistake."""
    for name, option_value in (("--key", opts.key), ("--client-ca", opts.client_ca)):
        if option_value and not opts.certificate:
            raise ConfigurationError(f"{name} needs --certificate")
    if not 0 <= opts.port <= 65_535:
        raise ConfigurationError(f"--port {opts.port}: must be from 0 to 65535")
    if not (is_loopback(opts.bind) or opts.client_ca or opts.anyone):
        raise ConfigurationError(
            f"--bind {opts.bind}: who reaches this address could read and delete all URLs. Name who may in "
            "--client-ca, or allow it with --anyone"
        )


def is_loopback(address: str) -> bool:
    """Whether an address to listen at is reached from this machine only; raises ConfigurationError for a name."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError as error:
        raise ConfigurationError(f"--bind {address!r}: give an IP address") from error


def check_libraries() -> None:
    """Imports the libraries of the server; raises LibraryMissing."""
    optional("the open frontier", "h2", "urlfrontier", "h2", "h2.connection")
    optional("the open frontier", "protobuf", "urlfrontier", "google.protobuf.message_factory")
