"""Builds the frozen records of this package: each field names the setting of its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from webcrawl.config.declared import DECLARED
from webcrawl.config.kinds import Number
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError


def read(settings: Settings, name: str) -> Any:
    """Returns the converted value of a declared setting; raises ConfigurationError if it is not allowed."""
    return DECLARED[name].read(settings)


def from_setting(name: str) -> Any:
    """Returns a field of a dataclass whose value is a setting."""
    return field(default=DECLARED[name].default, metadata={"setting": name})


def setting_values(record: type[Any], settings: Settings) -> dict[str, Any]:
    """Returns field -> value for the fields of `record` that are settings; raises ConfigurationError."""
    return {
        each.name: read(settings, each.metadata["setting"])
        for each in fields(record)
        if "setting" in each.metadata
    }


def check_numbers(record: Any) -> None:
    """Raises ConfigurationError if a field of `record` has a number that its setting does not allow."""
    for each in fields(record):
        if setting := DECLARED.get(each.metadata.get("setting", "")):
            value = getattr(record, each.name)
            if isinstance(setting.kind, Number) and not setting.kind.accepts(value):
                raise ConfigurationError(f"{setting.name} must be {setting.kind.allowed}, not {value!r}")


def setting_entries(setting: str, words: Sequence[str], comment: str = "#") -> Iterator[tuple[str, str]]:
    """Yields the origin and the text of each entry of a setting, and of the files that `@file` names.

    `comment` begins a comment behind an entry. Raises ConfigurationError.
    """
    for number, word in enumerate(words, 1):
        if not word.startswith("@"):
            yield f"entry {number}", word
            continue
        try:
            lines = Path(word[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{setting}: {word!r} cannot be read: {error}") from None
        for line_number, line in enumerate(lines, 1):
            text = line.partition(comment)[0].strip()
            if text and not text.startswith("#"):
                yield f"{word[1:]}, line {line_number}", text
