"""Writes what the commands of docs/tutorial.md print into the page: `make tutorial`.

A block `text` has the output of the block of commands above it; one that ends with `...` has its first lines.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.project.shown_commands import Shell, shown_blocks

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "tutorial.md"
PORT = 8000
INSTALLATION = ("make wheel", "python3 -m venv", ". venv", "pip install")
"""Commands that the environment of this Python makes needless."""
_REST = "...\n"
# a line of the progress in a log; a terminal has a panel instead
_PROGRESS = re.compile(r"^\d+ pages? \([^\n]*\n", re.MULTILINE)
_CHANGING = re.compile(r"\d+\.\d s \(\d+\.\d/s\)|\d+ links, \d+\.\d% known to a worker")


def rewritten(page: str, shell: Shell, port: int = PORT, typed: Callable[[str], str] = str) -> str:
    """Returns the page with the output of its commands, which run in `shell`; raises RuntimeError if one fails.

    The site of the page is served at `port`. `typed` changes commands before they run.
    """
    parts, at, printed = [], 0, ""
    for block in shown_blocks(page):
        if block.file:
            shell.write(block.file, block.code)
        elif block.language == "sh":
            lines = [line.replace(str(PORT), str(port)) for line in block.commands]
            printed = "".join(_output(shell, typed(line), port) for line in lines if not _is_needless(line))
            printed = _PROGRESS.sub("", printed).replace(str(port), str(PORT))
        elif block.language == "text":
            parts += [page[at : block.start], _fitted(block.code, printed)]
            at = block.end
    return "".join([*parts, page[at:]])


def stable(page: str) -> str:
    """Returns a page without the numbers in it that differ from run to run."""
    return _CHANGING.sub("", page)


def _is_needless(command: str) -> bool:
    return command.startswith(INSTALLATION)


def _output(shell: Shell, command: str, port: int) -> str:
    done = shell.serve(command, lambda _: _listens(port)) if command.endswith("&") else shell.run(command)
    if done.failed:
        raise RuntimeError(f"{command}\nexit status {done.status}\n{done.output}")
    return done.output


def _fitted(before: str, printed: str) -> str:
    """Returns as much of the output as the block has lines, if it ends with dots."""
    if not before.endswith(_REST):
        return printed
    lines = printed.splitlines(keepends=True)
    return "".join(lines[: before.count("\n") - 1]) + _REST


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    """Rewrites the page."""
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as notes,
        Shell(Path(folder), environment, Path(notes)) as shell,
    ):
        PAGE.write_text(rewritten(PAGE.read_text(), shell))


if __name__ == "__main__":
    main()
