"""The Lua scripts in `webcrawl/engine/lua`: one file for each atomic step on the engine.

A step is added as one file there, and run with `Call(<its name>, keys, arguments)`. A script includes only those
functions of `lua/common` that it uses, because each one costs time whenever the script runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple


class Call(NamedTuple):
    """One run of a script: its file name in `lua` without ".lua", its keys and its arguments."""

    script: str
    keys: Sequence[str]
    arguments: Sequence[str | bytes | int | float]


_COMMON = (
    "entries",
    "conf",
    "credit",
    "records",
    "units",
    "sunk",
    "ready",
    "queues",
    "hosts",
    "seen_set",
    "leases",
    "turns",
    "changes",
)
"""The files of `lua/common`; each uses only those before it."""


@cache
def script_source(name: str) -> tuple[str, str]:
    """Returns (SHA-1, text) of a script, read by importlib because a deployed egg is imported zipped.

    A script that begins with `#!lua flags=allow-oom` frees memory or needs little, so a full server runs it too.
    """
    folder = resources.files("webcrawl.engine") / "lua"
    common = "\n\n".join((folder / "common" / f"{part}.lua").read_text() for part in _COMMON)
    first, end, rest = (folder / f"{name}.lua").read_text().partition("\n")
    if first.startswith("#!"):
        text = f"{first}{end}{_with_dependencies(rest, common)}"
    else:
        text = _with_dependencies(f"{first}{end}{rest}", common)
    return hashlib.sha1(text.encode()).hexdigest(), text


def _with_dependencies(script: str, common: str) -> str:
    """Puts the common functions that a script uses, directly or not, before it."""
    text, words = script, _words(script)
    for block in reversed(re.split(r"\n\n(?=\S)", common)):
        names = re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", block, re.MULTILINE)
        if not words.isdisjoint(name for group in names for name in group.split(", ")):
            text, words = f"{block}\n{text}", words | _words(block)
    return text


def _words(script: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"--.*", "", script)))
