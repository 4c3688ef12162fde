"""The kind of POLITENESS_RULES: how the hosts that match a name are treated."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from webcrawl.config.kinds import Kind, Number, Whole
from webcrawl.errors import WrongEntry


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
