"""The version of the package, and the program that the user has started: `webcrawl`, or Scrapy's."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path

from webcrawl.errors import printable

VERSION = "0.1.0"
"""The version of the package, which `pyproject.toml` reads without importing this file."""
DEFAULT_SETTINGS = "webcrawl.console.default_settings"
"""The settings module of `webcrawl` in a folder without a project; child processes inherit its name."""
SHOWN = "WEBCRAWL_SHOWN_AS"
"""The variable by which who starts a crawl for a user, such as make, says what the user has to type for the program."""
_COMMAND = re.compile(r"\bscrapy (?=[a-z])")


@cache
def program() -> str:
    """Returns "webcrawl" or "scrapy", with which a user runs commands here."""
    is_ours = Path(sys.argv[0]).stem == "webcrawl"
    return "webcrawl" if is_ours or os.environ.get("SCRAPY_SETTINGS_MODULE") == DEFAULT_SETTINGS else "scrapy"


def as_typed(message: object) -> str:
    """Returns a message with its commands as this user runs them: messages are written for Scrapy's program.

    Control characters are escaped: messages may quote what servers and files from elsewhere said.
    """
    return commands_as_typed("\n".join(map(printable, str(message).split("\n"))))


def commands_as_typed(text: str) -> str:
    """Returns a text of ours with its commands as this user runs them."""
    return _COMMAND.sub(f"{os.environ.get(SHOWN) or program()} ", text)
