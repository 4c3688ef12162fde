"""The kind of POLITENESS_RULES: how the hosts that match a name are treated, in a list or in a JSON file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.kinds import Kind, Number, Whole
from webcrawl.errors import ConfigurationError, WrongEntry

_SPACE = re.compile(r"[ \t\r\n]*")


class PolitenessRule(NamedTuple):
    """A rule for the hosts that `match`. Fields that are None are left to less specific rules, and then to settings."""

    match: str
    delay: float | None = None
    """Seconds from the end of one request to the start of the next."""
    connections: int | None = None
    max_pages: int | None = None
    user_agent: str | None = None

    def __str__(self) -> str:
        fields = self._asdict()
        match = fields.pop("match")
        known = (f"{name} {value}" for name, value in fields.items() if value is not None)
        return f"{match}: {', '.join(known)}"


class _Agent(Kind):
    """The text of a User-Agent header."""

    type = "str"
    allowed = "text of printable ASCII characters"

    def parse(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isascii() or not value.isprintable():
            raise ValueError(value)
        return value


_FIELDS: dict[str, Kind] = {
    "delay": Number(),
    "connections": Whole(least=1),
    "max_pages": Whole(least=1),
    "user_agent": _Agent(),
}


class PolitenessRules(Kind):
    """A list of rules, or "@" and the path of a file with rules; the path stays text."""

    type = "list"
    allowed = 'a list of dicts, or "@" and the path of a JSON file with such a list'

    def parse(self, value: Any) -> list[dict[str, Any]] | str:
        if isinstance(value, str) and value.startswith("@"):
            return value
        entries = json.loads(value) if isinstance(value, str) else value
        if not isinstance(entries, list | tuple):
            raise TypeError(value)
        for number, entry in enumerate(entries, 1):
            politeness_rule(f"entry {number}", entry)
        return list(entries)


def politeness_rule(where: str, entry: Any) -> PolitenessRule:
    """Returns the rule of an entry; raises WrongEntry, which begins with `where`."""
    if not isinstance(entry, dict):
        raise WrongEntry(f"{where}: {entry!r} is not a dict")
    fields = dict(entry)
    match = fields.pop("match", None)
    if not isinstance(match, str) or not match:
        raise WrongEntry(
            f'{where}: "match" must be the name of a host, such as "*.example.org", not {match!r}'
        )
    values = {}
    for name, value in fields.items():
        kind = _FIELDS.get(name)
        if kind is None:
            known = ", ".join(f'"{field}"' for field in ("match", *_FIELDS))
            raise WrongEntry(f"{where}: there is no field {name!r}; the fields are {known}")
        try:
            values[name] = kind.parse(value)
        except (TypeError, ValueError, OverflowError):
            raise WrongEntry(f'{where}: "{name}" must be {kind.allowed}, not {value!r}') from None
    if not values:
        raise WrongEntry(f"{where}: it says nothing about {match!r}")
    return PolitenessRule(match, **values)


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
