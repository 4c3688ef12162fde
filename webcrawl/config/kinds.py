"""Kinds of settings: how a value is read from Scrapy's settings or a command line, and which values are allowed."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from webcrawl.errors import WrongEntry

_DOMAIN = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_TYPES = re.compile(r"[\w.+-]+/(?:[\w.+-]+|\*)|\*/\*")


# What a comma does not end: an escape, a class of an expression with what is in it, and other brackets.
_LIST_PART = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|[(){},]", re.DOTALL)
_WHITE_SPACE = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|(\s)", re.DOTALL)


def listed(text: str) -> list[str]:
    """Returns the entries of a list on a command line: a JSON list, or text between commas outside of brackets.

    The commas of `a{1,3}` and `(a,b)` end no entry. If brackets are not closed, each comma does.
    """
    if text.startswith("["):
        with suppress(ValueError):
            entries = json.loads(text)
            if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
                return entries
    entries, start, depth = [], 0, 0
    for part in _LIST_PART.finditer(text):
        if part[0] == "," and depth == 0:
            entries.append(text[start : part.start()])
            start = part.end()
        elif len(part[0]) == 1:
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(part[0], 0)
    entries = [*entries, text[start:]] if depth == 0 else text.split(",")
    return [entry.strip() for entry in entries if entry.strip()]


class Kind(ABC):
    """The values that a setting allows."""

    type: ClassVar[str]
    """The Python type, for the documentation."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed values, as the end of the sentence "NAME must be ..."."""

    @abstractmethod
    def parse(self, value: Any) -> Any:
        """Converts a value, which may be text; raises WrongEntry, ValueError, TypeError or OverflowError."""

    def mistakes(self, value: Any) -> Iterator[str]:
        """Yields what in an allowed value can only be a mistake, as the end of the sentence "NAME, ..."."""
        yield from ()


LARGEST = 1e10
"""The largest number of a setting without a bound: 300 years of seconds. Lua prints larger times as 1e+14."""


@dataclass(frozen=True)
class Number(Kind):
    """A number from `least` to `most`, and to `largest` if it has no other bound."""

    least: float = 0
    most: float = math.inf
    largest: ClassVar[float] = LARGEST
    type = "float"

    @property
    def allowed(self) -> str:
        return f"a number {self._range()}"

    def _range(self) -> str:
        least = f"{self.least:,}".removesuffix(".0")
        return f"of at least {least}" if self.most == math.inf else f"from {least} to {self.most:,}"

    def accepts(self, value: object) -> bool:
        """Whether a number, already converted, is within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return math.isfinite(value) and self.least <= value <= min(self.most, self.largest)

    def parse(self, value: Any) -> Any:
        number = float(value)
        if self.largest < number <= self.most:
            raise WrongEntry(f"{value!r} is too large: at most {self.largest:,.0f}")
        if isinstance(value, bool) or not self.accepts(number):
            raise ValueError(value)
        return number


@dataclass(frozen=True)
class Whole(Number):
    """A whole number from `least` to `most`; with `or_zero` also 0."""

    or_zero: bool = False
    largest: ClassVar[float] = 9e18
    type = "int"

    @property
    def allowed(self) -> str:
        return f"{'0 or ' if self.or_zero else ''}a whole number {self._range()}"

    def accepts(self, value: object) -> bool:
        return (value == 0 and self.or_zero) or (super().accepts(value) and float(str(value)).is_integer())

    def parse(self, value: Any) -> Any:
        return int(super().parse(value))


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TIME_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")


@dataclass(frozen=True)
class Seconds(Number):
    """A number of seconds, also as text with a unit: `90s`, `5m`, `2h` or `7d`."""

    @property
    def allowed(self) -> str:
        return f"seconds {self._range()}, or such as 90s, 5m, 2h or 7d"

    def parse(self, value: Any) -> Any:
        if isinstance(value, str) and (match := _TIME_SPAN.fullmatch(value.strip())):
            value = float(match[1]) * _UNITS[match[2] or "s"]
        return super().parse(value)


@dataclass(frozen=True)
class Flag(Kind):
    """True or False; on a command line also 1 and 0, or true and false."""

    type = "bool"
    allowed = "True or False"

    def parse(self, value: Any) -> Any:
        words = {"True": True, "true": True, "False": False, "false": False}
        return words[value] if value in ("True", "true", "False", "false") else bool(int(value))


@dataclass(frozen=True)
class String(Kind):
    """A string."""

    type = "str"
    allowed = "a string"

    def parse(self, value: Any) -> Any:
        return str(value)


@dataclass(frozen=True)
class Choice(Kind):
    """A word of a short list."""

    words: tuple[str, ...]
    type = "str"

    @property
    def allowed(self) -> str:
        *others, last = (f'"{word}"' for word in self.words)
        return f"{', '.join(others)} or {last}"

    def parse(self, value: Any) -> Any:
        if value not in self.words:
            raise ValueError(value)
        return value


@dataclass(frozen=True)
class Words(Kind):
    """A list of strings; on a command line as `listed` reads it."""

    type = "list"
    allowed = "a list of strings"

    def parse(self, value: Any) -> Any:
        words = listed(value) if isinstance(value, str) else list(value)
        if not all(isinstance(word, str) for word in words):
            raise TypeError(value)
        return [stripped for word in words if (stripped := word.strip())]


@dataclass(frozen=True)
class SecretWords(Words):
    """A list of strings that hold secrets, which no error message quotes."""

    def parse(self, value: Any) -> Any:
        try:
            return super().parse(value)
        except TypeError:
            raise WrongEntry(f"which holds secrets: it must be {self.allowed}") from None


@dataclass(frozen=True)
class Choices(Kind):
    """Some of a few words, as text with commas or as a list; the value is text with commas."""

    words: tuple[str, ...]
    type = "str"

    @property
    def allowed(self) -> str:
        return f"some of {', '.join(self.words)}, separated by commas"

    def parse(self, value: Any) -> Any:
        chosen = Words().parse(value)
        if unknown := set(chosen).difference(self.words):
            raise ValueError(unknown)
        return ",".join(word for word in self.words if word in chosen)


@dataclass(frozen=True)
class Expressions(Kind):
    """A list of regular expressions; on a command line as `listed` reads it."""

    type = "list"
    allowed = "a list of regular expressions"

    def parse(self, value: Any) -> Any:
        patterns = listed(value) if isinstance(value, str) else list(value)
        for number, pattern in enumerate(patterns, 1):
            try:
                expression(pattern)
            except (re.error, TypeError) as error:
                raise WrongEntry(
                    f"entry {number}: {pattern!r} is not a regular expression: {error}"
                ) from None
        return patterns

    def mistakes(self, value: Any) -> Iterator[str]:
        for number, pattern in enumerate(value, 1):
            if not pattern:
                yield f"entry {number} is empty and matches every URL"
            elif "(?x" not in pattern and any(match[1] for match in _WHITE_SPACE.finditer(pattern)):
                yield f"entry {number}: {pattern!r} has white space, which no URL has"


@lru_cache(maxsize=100_000)
def expression(pattern: str) -> re.Pattern[str]:
    """Returns a compiled expression. Lists of thousands are read several times at the start; `re` caches only 512."""
    return re.compile(pattern)


@dataclass(frozen=True)
class Dict(Kind):
    """A dict; on a command line JSON."""

    type = "dict"
    allowed = "a dict"

    def parse(self, value: Any) -> Any:
        table = json.loads(value) if isinstance(value, str) else value
        if not isinstance(table, Mapping):
            raise TypeError(value)
        return dict(table)


@dataclass(frozen=True)
class TimesByRule(Dict):
    """A dict from text to seconds."""

    allowed = "a dict from a host or URL pattern to seconds, or such as 90s, 5m, 2h or 7d"

    def parse(self, value: Any) -> Any:
        table = super().parse(value)
        for rule, seconds in table.items():
            if not isinstance(rule, str):
                raise WrongEntry(f"entry {rule!r} is no host or URL pattern")
            try:
                table[rule] = Seconds().parse(seconds)
            except (ValueError, TypeError, OverflowError) as error:
                raise WrongEntry(f"entry {rule!r}: {seconds!r} is not {Seconds().allowed}") from error
        return table


@dataclass(frozen=True)
class ChoiceByRule(Kind):
    """A dict from text to one of a few words; a word alone is for all, which `*` means."""

    words: tuple[str, ...]
    type = "dict"

    @property
    def allowed(self) -> str:
        return f"{Choice(self.words).allowed}, or a dict from a host or URL pattern to such a word"

    def parse(self, value: Any) -> Any:
        if value in self.words:
            return {"*": value}
        table = Dict().parse(value)
        for rule, word in table.items():
            if word not in self.words:
                raise WrongEntry(f"entry {rule!r}: {word!r} is not {Choice(self.words).allowed}")
        return table


@dataclass(frozen=True)
class PartsOfWhole(Kind):
    """A dict from some of a few words to their parts of a whole of any size, and from a domain to a dict of its own."""

    words: tuple[str, ...]
    type = "dict"

    @property
    def allowed(self) -> str:
        return f"a dict from {Choice(self.words).allowed} to a number, and from a domain to a dict of its own"

    def parse(self, value: Any) -> Any:
        table = Dict().parse(value)
        domains = {name: part for name, part in table.items() if isinstance(part, Mapping)}
        shares = self._parts("", {name: part for name, part in table.items() if name not in domains})
        if domains and not shares:
            raise WrongEntry("which has shares of domains only: it needs those of all other hosts too")
        for name in domains:
            if not _DOMAIN.fullmatch(str(name)):
                raise WrongEntry(f"{name!r} is not a domain in small letters, such as example.org")
        return {**shares, **{name: self._parts(f"{name}: ", parts) for name, parts in domains.items()}}

    def _parts(self, where: str, parts: Mapping[str, Any]) -> dict[str, float]:
        for name, part in parts.items():
            if name not in self.words:
                raise WrongEntry(f"{where}{name!r} is not {Choice(self.words).allowed}")
            if not Number().accepts(part):
                raise WrongEntry(f"{where}{name!r} must be {Number().allowed}, not {part!r}")
        if not any(parts.values()) and (where or parts):
            raise WrongEntry(f"{where}at least one share must be above 0")
        return {name: float(part) for name, part in parts.items()}


@dataclass(frozen=True)
class SizesByType(Dict):
    """A dict from MIME type, "text/*" or "*/*" to a number of bytes, where 0 means no limit."""

    allowed = 'a dict from a MIME type, "text/*" or "*/*" to a number of bytes (0: no limit)'

    def parse(self, value: Any) -> Any:
        sizes = {str(name).lower(): size for name, size in super().parse(value).items()}
        for name, size in sizes.items():
            if not _TYPES.fullmatch(name) or not isinstance(size, int) or size < 0:
                raise ValueError(name)
        return sizes
