"""`scrapy mcp`: gives an assistant the pages of a service, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.config.libraries import optional
from webcrawl.config.program import as_typed, program
from webcrawl.errors import ConfigurationError, CrawlError

_SERVICE = "http://127.0.0.1:8790"
_VARIABLE = "WEBCRAWL_TOKEN"


class Command(ScrapyCommand):
    """Speaks on its standard input and output with the program that has started it, and opens no crawl."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "[options]"

    def short_desc(self) -> str:
        return "Give an assistant the pages of a service (MCP)"

    def long_desc(self) -> str:
        return "Give an assistant tools that read and fetch pages by a running `scrapy serve` (MCP, on standard input)"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--service",
            metavar="URL",
            default=_SERVICE,
            help=f"the address of `scrapy serve`, by default {_SERVICE}",
        )
        parser.add_argument(
            "--token-file",
            metavar="FILE",
            type=Path,
            help=f"a file with a token of the service, by default the variable {_VARIABLE}",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("the command takes no arguments")
        # nothing has to be ended, and the thread that reads standard input would delay Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            check_libraries()
            asyncio.run(_serve(service_url(opts.service), read_token(opts.token_file)))
        except CrawlError as error:
            print(f"{program()} mcp: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 1


async def _serve(url: str, token: str) -> None:
    from webcrawl.client.assistant import assistant_server
    from webcrawl.client.asynchronous import AsyncClient

    async with AsyncClient(url, token=token) as client:
        await assistant_server(client).run_stdio_async()


def service_url(url: str) -> str:
    """Returns the address of a service; raises ConfigurationError."""
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"--service {url!r}: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigurationError(f"--service {url!r}: write an address such as {_SERVICE}")
    return url


def read_token(path: Path | None) -> str:
    """Returns the token of a file, else that of the environment, else ""; raises ConfigurationError."""
    if path is None:
        source, text = _VARIABLE, os.environ.get(_VARIABLE, "")
    else:
        source = f"--token-file {path}"
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{source}: cannot read it ({error})") from error
        if not text.strip():
            raise ConfigurationError(f"{source}: there is no token in it")
    token = text.strip()
    if not token.isascii() or len(token.split()) > 1:
        # without the text, which may be secret
        raise ConfigurationError(f"{source}: it must be a token alone, without its role")
    return token


def check_libraries() -> None:
    """Imports the libraries of the command; raises LibraryMissing."""
    optional("the server for assistants", "mcp", "mcp", "mcp.server.mcpserver")
    optional("the server for assistants", "httpx", "mcp", "httpx", "msgspec")
