"""Writes the definition of a job as YAML that `webcrawl.jobs.files` reads, without the library that reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./?&=%+~-]|:(?=[A-Za-z0-9/]))*")
_RESERVED = ("null", "true", "false")


def yaml_of(values: Mapping[str, Any]) -> str:
    """Returns the text of a file for plain values: text, numbers, flags, and lists and dicts of them."""
    return "".join(f"{line}\n" for line in _lines(values))


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{_scalar(key)}:"
            yield from (f"  {line}" for line in _lines(value))
        elif isinstance(value, list | tuple) and value:
            yield f"{_scalar(key)}:"
            yield from (f"  - {_scalar(entry)}" for entry in value)
        else:
            yield f"{_scalar(key)}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """Returns a value on one line. What is neither plain text nor a number has the form that JSON and YAML share."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
