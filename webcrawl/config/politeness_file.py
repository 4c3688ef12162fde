"""A JSON file of politeness rules, whose errors name the line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from webcrawl.config.politeness_rules import PolitenessRule, politeness_rule
from webcrawl.errors import ConfigurationError, WrongEntry

_SPACE = re.compile(r"[ \t\r\n]*")


def read_rules(path: str) -> Iterator[tuple[str, PolitenessRule]]:
    """Yields the origin ("entry 2 (line 7)") and the rule of each entry of a file.

    Raises ConfigurationError, with the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        for number, (line, entry) in enumerate(_entries(text), 1):
            where = f"entry {number} (line {line})"
            yield where, politeness_rule(where, entry)
    except json.JSONDecodeError as error:
        why = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise ConfigurationError(f"POLITENESS_RULES, {path}, {why}") from None
    except WrongEntry as error:
        raise ConfigurationError(f"POLITENESS_RULES, {path}, {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"POLITENESS_RULES: {path!r} cannot be read: {error}") from None


def _entries(text: str) -> Iterator[tuple[int, object]]:
    """Yields the line and the value of each entry of a JSON list; raises JSONDecodeError."""
    decoder, at, line, counted = json.JSONDecoder(), _after_space(text, 0), 1, 0
    if text[at : at + 1] != "[":
        raise json.JSONDecodeError("Expecting a list of rules", text, at)
    at = _after_space(text, at + 1)
    ended = text[at : at + 1] == "]"
    while not ended:
        line, counted = line + text.count("\n", counted, at), at
        value, end = decoder.raw_decode(text, at)
        yield line, value
        at = _after_space(text, end)
        ended = text[at : at + 1] == "]"
        if not ended:
            if text[at : at + 1] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _after_space(text, at + 1)
    if (rest := _after_space(text, at + 1)) < len(text):
        raise json.JSONDecodeError("Extra data", text, rest)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
