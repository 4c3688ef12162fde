"""The commands as Scrapy finds them in every folder: by the entry points `scrapy.commands`.

Without the add-on, a command is Scrapy's own of that name, or says in one sentence what is missing.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
from contextlib import redirect_stdout
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from itertools import takewhile
from typing import Any, ClassVar

from scrapy import cmdline
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings
from scrapy.utils.project import get_project_settings, inside_project

from webcrawl.config.program import as_typed, program
from webcrawl.errors import ConfigurationError

ADDON = "webcrawl.addon.WebcrawlAddon"
GROUPS = {
    "Crawl": ("crawl", "workers", "reparse", "list", "check", "shell", "fetch", "parse", "view"),
    "Look": (
        *("status", "crawls", "stuck", "host", "urls", "checkurl", "metrics", "settings"),
        "dashboard",
    ),
    "Results": (
        *("page", "pages", "search", "index", "copies", "export", "links", "compact", "graph", "mine"),
        *("listen", "serve", "mcp"),
    ),
    "Operate": (
        *(
            "pause",
            "resume",
            "stop",
            "checkpoint",
            "restore",
            "runs",
            "jobs",
            "alarms",
            "urlfrontier",
            "plan",
        ),
    ),
}
"""Group -> its commands, as `scrapy -h` and docs/reference/commands.md list them."""
FORMER = {
    "deadletters": "stuck --kind DEAD_LETTER",
    "frontier": "status",
    "scheduler": "jobs run",
    "wacz": "export --format wacz",
}
"""Former name of a command -> its present name. In this release, both work."""
EXAMPLES = {
    "Crawl": "crawl https://example.org/ --max-pages 100 -o pages.jsonl",
    "Look": "status",
    "Results": "page https://example.org/",
    "Operate": "pause",
}
"""Group -> a command line that the list of commands shows, without the program."""
_NEW_OBJECTS = 10_000
_LISTED = re.compile(r"^  (\S+) +\S.*\n", re.MULTILINE)


def __getattr__(name: str) -> type[Entry]:
    if name.startswith("_") or find_spec(f"webcrawl.commands.{name}") is None:
        raise AttributeError(name)
    return type(name, (Entry,), {"name": name})


class Entry:
    """Stands for the command `name`, and imports it when Scrapy uses it: Scrapy makes all commands to run one."""

    name: ClassVar[str]

    @staticmethod
    def named(name: str) -> Entry:
        """Returns the entry of a command."""
        return __getattr__(name)()

    def __init__(self) -> None:
        if uses_webcrawl():
            _collect_garbage_rarely()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._command, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._command, name, value)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = as_typed(parser.usage)
        if uses_webcrawl():
            # first: `parse` has a -d of its own, which replaces this one
            parser.add_argument(
                "-d", "--data-dir", metavar="FOLDER", help="folder of the results, as -s DATA_DIR=FOLDER"
            )
        self._command.add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if uses_webcrawl():
            before = takewhile(lambda word: word != "--", args)
            if unknown := next((word for word in before if word.startswith("-") and word != "-"), None):
                raise UsageError(f"there is no option {unknown}", print_help=False)
            if opts.data_dir is not None:
                opts.set = [*opts.set, f"DATA_DIR={opts.data_dir}"]
            if now := FORMER.get(self.name):
                print(f"{program()} {self.name} is now: {program()} {now}", file=sys.stderr)
        try:
            self._command.process_options(args, opts)
        except ConfigurationError as error:
            print(f"{program()} {self.name}: {as_typed(error)}", file=sys.stderr)
            sys.exit(2)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            self._command.run(args, opts)
        except UsageError as error:
            raise UsageError(as_typed(error), print_help=error.print_help) from error

    @cached_property
    def _command(self) -> Any:
        if uses_webcrawl():
            return import_module(f"webcrawl.commands.{self.name}").Command()
        if find_spec(f"scrapy.commands.{self.name}"):
            command = import_module(f"scrapy.commands.{self.name}").Command()
            if inside_project() or not command.requires_project:
                return command
        return Missing(self.name)


@cache
def uses_webcrawl() -> bool:
    """Whether the settings of the current project name the add-on. It is not imported here, which would take time."""
    for addon, order in get_project_settings().getdict("ADDONS").items():
        path = addon if isinstance(addon, str) else f"{addon.__module__}.{addon.__qualname__}"
        if path == ADDON and order is not None:
            return True
    return False


def _collect_garbage_rarely() -> None:
    """Looks for garbage after 10,000 new objects, and never in Scrapy's modules.

    With Python's 700, a tenth of a start was spent on modules that stay, and another tenth of a second on them at exit.
    """
    gc.freeze()
    number, *others = gc.get_threshold()
    if 0 < number < _NEW_OBJECTS:
        gc.set_threshold(_NEW_OBJECTS, *others)


def grouped(listing: str) -> str:
    """Returns Scrapy's list of commands in groups, commands of Scrapy and of the project last."""
    head, title, commands = listing.partition("Available commands:\n")
    lines = {line[1]: line[0] for line in _LISTED.finditer(commands)}
    groups = [(group, [name for name in names if name in lines]) for group, names in GROUPS.items()]
    known = {name for _, names in groups for name in names}
    groups.append(("Others", [name for name in lines if name not in known | set(FORMER)]))
    shown = "\n".join(
        f"{group}:\n{''.join(lines[name] for name in names)}{_example(group)}"
        for group, names in groups
        if names
    )
    return head + title + "\n" + shown + _LISTED.sub("", commands).removeprefix(" \n")


def _example(group: str) -> str:
    return f"  such as: {program()} {EXAMPLES[group]}\n" if group in EXAMPLES else ""


def without_missing(listing: str) -> str:
    """Returns Scrapy's list where webcrawl is not used: without its commands, but with a line that names it."""
    ours = [*FORMER, *(name for names in GROUPS.values() for name in names)]
    missing = {name for name in ours if isinstance(Entry.named(name)._command, Missing)}
    kept = _LISTED.sub(lambda line: "" if line[1] in missing else line[0], listing)
    more = (
        f'This project does not use webcrawl: ADDONS = {{"{ADDON}": 100}} in its settings changes that'
        if inside_project()
        else "Crawls and more without a project: `webcrawl crawl https://example.org/`, `webcrawl -h`"
    )
    end = '\n Use "scrapy <command> -h"'
    return kept.replace(end, f"   [ webcrawl ]  {more}\n{end}")


def help_of_webcrawl() -> str:
    """Returns what `webcrawl -h` prints: its commands in groups, each with an example."""
    lines = ["Usage: webcrawl <command> [options] [args]", ""]
    for group, names in GROUPS.items():
        lines.append(f"{group}:")
        lines += [f"  {name:<13} {Entry.named(name).short_desc()}" for name in names]
        lines += [_example(group)]
    lines.append("webcrawl new FOLDER creates a project, for spiders and settings of your own.")
    lines.append("webcrawl <command> -h explains a command. Results are in ./data, or in the folder of -d.")
    return "\n".join(lines)


def _print_commands(settings: BaseSettings, inproject: bool) -> None:
    with redirect_stdout(StringIO()) as printed:
        _print_all(settings, inproject)
    arrange = grouped if uses_webcrawl() else without_missing
    print(arrange(printed.getvalue()), end="")


_print_all = cmdline._print_commands
# Scrapy imports this module by its entry points before it prints the commands
cmdline._print_commands = _print_commands


class Missing(ScrapyCommand):
    """Stands for a command of webcrawl where it cannot work."""

    requires_crawler_process = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def short_desc(self) -> str:
        return "(in projects with the add-on webcrawl)"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if inside_project():
            reason = f'this project does not use webcrawl: add ADDONS = {{"{ADDON}": 100}} to its settings'
        else:
            without = "webcrawl crawl URL" if self._name == "crawl" else f"webcrawl {self._name}"
            reason = f"there is no project here: change to its folder, or run `{without}`, which needs none"
        print(f"{program()} {self._name}: {reason}", file=sys.stderr)
        self.exitcode = 2
