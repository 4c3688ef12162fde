"""Settings and arguments of `scrapy crawl` that other users of the machine must not read: they may be passwords.

Every user can read the command lines of all processes, but only the owner of a process can read its environment.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from scrapy.settings import BaseSettings

_VARIABLE = "WEBCRAWL_OPTIONS"


def private_options(settings: Mapping[str, Any], arguments: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variable that passes settings, with their types, and arguments of the spider."""
    return {_VARIABLE: json.dumps({"settings": settings, "arguments": arguments})}


def take_private(settings: BaseSettings, opts: argparse.Namespace) -> None:
    """Adds the options of the environment to those of the command line, and hides them from child processes."""
    if text := os.environ.pop(_VARIABLE, None):
        options = json.loads(text)
        settings.setdict(options["settings"], priority="cmdline")
        opts.spargs |= options["arguments"]
