"""The program `webcrawl`: all commands, in any folder.

In a project's folder, commands use the project's settings, elsewhere those of `default_settings`. `webcrawl new` and
`--version` need no settings, and so do not import Scrapy.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pkgutil import iter_modules

from webcrawl.config.program import DEFAULT_SETTINGS


def main(words: Sequence[str] | None = None) -> int:
    """Runs the console script `webcrawl`; returns its exit status."""
    words = sys.argv[1:] if words is None else list(words)
    if words == ["version"]:
        words = ["--version"]  # that of Scrapy prints Scrapy's
    if words[:1] in (["new"], ["--version"]):
        from webcrawl.new import main as create_project

        return create_project(words)
    return _run(words)


def _run(words: list[str]) -> int:
    """Runs a command with Scrapy's `execute`, which finds those of this package, of Scrapy and of the project."""
    # a tenth of a second of Scrapy's import was garbage collection, which finds nothing there
    gc.disable()
    from scrapy import cmdline
    from scrapy.utils.project import ENVVAR, get_project_settings, inside_project

    gc.freeze()
    gc.enable()
    if not inside_project():
        os.environ[ENVVAR] = DEFAULT_SETTINGS
    from webcrawl.entry import GROUPS, help_of_webcrawl

    name = next((word for word in words if not word.startswith("-")), None)
    if name is None:
        print(help_of_webcrawl())
        return 0
    if not any(name in names for names in GROUPS.values()):
        commands = sorted(_commands())
        if name not in commands and not get_project_settings()["COMMANDS_MODULE"]:
            print(f"webcrawl: {_unknown(name, commands)}", file=sys.stderr)
            return 2
    cmdline.execute(["webcrawl", *words])
    return 0  # not reached: `execute` exits


def _commands() -> Iterator[str]:
    """Yields the names of the commands of this package, of others, and of Scrapy."""
    from scrapy import commands

    yield from (point.name for point in entry_points(group="scrapy.commands"))
    yield from (module.name for module in iter_modules(commands.__path__))


def _unknown(name: str, commands: Sequence[str]) -> str:
    """Says that there is no such command, and which one was probably meant."""
    if "." in name or "://" in name:
        return (
            f"{name} is no command: `webcrawl crawl {name}` crawls it, `webcrawl page {name}` shows that page"
        )
    near = get_close_matches(name, commands, n=1)
    hint = f"; did you mean {near[0]}?" if near else ":"
    return f"there is no command {name!r}{hint} `webcrawl -h` lists them"
