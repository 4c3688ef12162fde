"""The base class of commands that look at a crawl.

Slow modules are imported where they are used, so that `scrapy pause -h` imports little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import traceback
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl.config import read
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.crawl_options import take_private
from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.misspelt_settings import misspelt
from webcrawl.errors import CrawlError, StoreError, printable

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

CommandOption: TypeAlias = Callable[[argparse._ActionsContainer], object]
"""Adds an option to a parser, or to a group of one."""


class OpenedCrawlCommand(ScrapyCommand):
    """A command that opens a crawl to look at it or to steer it, and prints errors in one line."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}
    settings: Settings
    """Set by Scrapy before `run`; with what add-ons change before `work`."""
    usage = "[options]"
    summary: ClassVar[str]
    """The line of `scrapy -h`."""
    description = ""
    """The first paragraph of the command's own help, by default the summary."""
    options: ClassVar[tuple[CommandOption, ...]] = ()
    """What `option`, `flag` and `exclusive` return, in the order of the help."""
    takes_crawl = True
    """Whether `--crawl` names a crawl. For this release, the only argument does too, as before."""
    needs_engine = True
    needs_crawl = True
    """Whether to fail if the crawl does not exist, without starting an engine."""

    def syntax(self) -> str:
        return self.usage

    def loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        """Returns what makes the event loop; None for that of asyncio."""
        return None

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        return self.description or self.short_desc()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        if self.takes_crawl:
            add_crawl(parser)
        for add in self.options:
            add(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            with asyncio.Runner(loop_factory=self.loop_factory()) as runner:
                runner.run(self._run(args, opts))
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
        except Exception as error:
            if not _is_reported(error):
                raise
            print(f"{program()} {command_name(self)}: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 1
            _free_frames(error)

    @abstractmethod
    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        """Does the command's work; a CrawlError, RedisError or OSError is printed."""

    def crawl_id(self, args: list[str]) -> str | None:
        """Returns the crawl that the arguments name, by default the only argument; None without a name."""
        if not self.takes_crawl:
            return None
        if len(args) > 1:
            raise UsageError("too many arguments: name one crawl")
        return args[0] if args else None

    async def _run(self, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.opened import OpenedCrawl

        take_private(self.settings, opts)
        self.settings = completed(self.settings)
        argument = self.crawl_id(args)
        name = getattr(opts, "crawl", None) or argument
        if name is not None:
            self.settings.set("CRAWL_ID", name, priority="cmdline")
        for mistake in misspelt(self.settings, "cmdline"):
            print(f"{program()} {command_name(self)}: {mistake}", file=sys.stderr)
        async with OpenedCrawl(self.settings) as opened:
            if self.needs_engine:
                await self._connect(opened)
            # before the work: Python then looks for no garbage among modules at exit, and frees what the work leaves
            gc.freeze()
            await self.work(opened, args, opts)

    async def _connect(self, opened: OpenedCrawl) -> None:
        """Connects to the engine, and chooses its only crawl if none is named."""
        connection = opened.connection
        if self.needs_crawl and not opened.has_engine:
            raise StoreError(f"no crawl was run in {connection.server}")
        await connection.connect()
        if not read(opened.settings, "CRAWL_ID"):
            crawls = await connection.crawls()
            if len(crawls) == 1:
                connection.use(crawls[0])


class StoresCommand(OpenedCrawlCommand):
    """A command that reads what crawls have stored, without their engine; its arguments name no crawl."""

    needs_engine = False
    takes_crawl = False


def add_crawl(parser: argparse._ActionsContainer) -> None:
    """Adds the option that names a crawl."""
    parser.add_argument(
        "--crawl", metavar="ID", help="the crawl, by default CRAWL_ID, the only crawl, or the spider's name"
    )


def _free_frames(error: BaseException | None) -> None:
    """Frees what the frames of an error hold: at exit, DuckDB lists its objects that are left, over the message."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def drop_output() -> None:
    """Drops what is printed from now on: the reader has closed the pipe, as `head` does.

    Python flushes standard output again at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_name(command: ScrapyCommand) -> str:
    """Returns the name with which users run a command: that of its module."""
    return type(command).__module__.rpartition(".")[2]


def option(names: str, description: str | None = None, **properties: Any) -> CommandOption:
    """An option with names such as "-o --output"; `properties` are those of argparse."""
    return lambda parser: parser.add_argument(*names.split(), help=description, **properties)


def port_number(text: str) -> int:
    """Returns the port in an argument; raises ArgumentTypeError. Sockets take 99999 too, and listen elsewhere."""
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 2**16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")


def flag(name: str, description: str) -> CommandOption:
    """An option without a value."""
    return option(name, description, action="store_true")


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: Container[str] = ()
) -> Iterator[str]:
    """Yields the lines of an aligned table, with control characters escaped; `right`: headings of numbers."""
    lines = [[printable(str(cell)) for cell in row] for row in [headings, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(line, widths, headings, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def exclusive(*options: CommandOption) -> CommandOption:
    """Options of which only one may be given."""

    def add(parser: argparse._ActionsContainer) -> None:
        group = parser.add_mutually_exclusive_group()
        for add_option in options:
            add_option(group)

    return add


def _is_reported(error: Exception) -> bool:
    from redis.exceptions import RedisError

    return isinstance(error, CrawlError | RedisError | OSError)
