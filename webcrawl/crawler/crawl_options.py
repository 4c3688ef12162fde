"""The options with which commands, jobs and the dashboard start commands, besides those that the user gave.

Some settings and arguments are passwords. Every user of a machine can read the command lines of all processes, but only
the owner of a process can read its environment, so such options are passed in a variable.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from scrapy.settings import BaseSettings
from scrapy.utils.python import global_object_name

from webcrawl.config import read
from webcrawl.errors import ConfigurationError

_VARIABLE = "WEBCRAWL_OPTIONS"
# a name, then its format: ".jsonl", ":jsonlines" or both
_NAME = re.compile(r"(.*?)((?:\.[^./]+)?(?::\w+)?)", re.DOTALL)


def private_options(settings: Mapping[str, Any], arguments: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variable that passes settings, with their types, and arguments of a spider."""
    return {_VARIABLE: json.dumps({"settings": settings, "arguments": arguments})}


def take_private(settings: BaseSettings, opts: argparse.Namespace) -> None:
    """Adds the options of the environment to those of the command line, and hides them from child processes."""
    if text := os.environ.pop(_VARIABLE, None):
        options = json.loads(text)
        settings.setdict(options["settings"], priority="cmdline")
        if options["arguments"]:
            opts.spargs |= options["arguments"]


def own_name(name: str, number: int) -> str:
    """Returns the name of one worker's own file: "items-2.jsonl" for "items.jsonl"."""
    match = _NAME.fullmatch(name)
    assert match is not None
    return f"{match[1]}-{number}{match[2]}"


def own_options(settings: BaseSettings, number: int | None) -> list[str]:
    """Returns the options for a worker's own port, feed and log files; `number` is None for a single worker."""
    feeds = {str(uri): options for uri, options in settings.getdict("FEEDS").items()}
    if number is not None and any(uri.startswith("stdout:") for uri in feeds):
        raise ConfigurationError("several workers would mix their items on stdout: give -o a file name")
    words = ["-s", "PROGRESS=off"] if number else []
    if number and (port := read(settings, "METRICS_PORT")) is not None:
        words += ["-s", f"METRICS_PORT={port + number}"]
    if feeds:
        if number is not None:
            feeds = {own_name(uri, number): options for uri, options in feeds.items()}
        # classes in feed options: Scrapy also accepts their names
        words += ["-s", f"FEEDS={json.dumps(feeds, default=global_object_name)}"]
    if settings.get("LOG_FILE") and settings.getbool("LOG_ENABLED"):
        file = str(settings.get("LOG_FILE"))
        words += ["--logfile", file if number is None else own_name(file, number)]
    return words
