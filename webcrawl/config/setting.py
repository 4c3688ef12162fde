"""A setting and a group of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from webcrawl.config.kinds import Dict, Flag, Kind, Number, String, Whole, Words
from webcrawl.errors import ConfigurationError, WrongEntry, brief

IN_PARTS: Final = object()
"""Stands for the default of a setting that names classes; `webcrawl.config.parts` has the value."""

_SAME: Final = object()
_KINDS: Mapping[type, Kind] = {
    bool: Flag(),
    int: Whole(),
    float: Number(),
    str: String(),
    list: Words(),
    dict: Dict(),
    type(IN_PARTS): Dict(),
}


class Settings(Protocol):
    """The part of Scrapy's settings object that is used here, so that this package does not import Scrapy."""

    def get(self, name: str, default: Any, /) -> Any: ...


@dataclass(frozen=True)
class Setting:
    """The one declaration of a setting.

    `about` explains it in one or two sentences of Markdown. `values` are what it takes, if not all values of the
    default's type. `example` is a value that docs/reference/settings.md shows; a flag has no other than its default's
    opposite. `unset` is its value in a project that does not use our settings and does not set it, if not the default.
    """

    name: str
    default: Any
    about: str
    values: Kind | None = None
    example: Any = None
    unset: Any = _SAME

    def __post_init__(self) -> None:
        if self.example is None and isinstance(self.default, bool):
            object.__setattr__(self, "example", not self.default)

    @cached_property
    def kind(self) -> Kind:
        """What the setting takes, with the words for it."""
        return self.values or _KINDS[type(self.default)]

    def read(self, settings: Settings) -> Any:
        """Returns the converted value; raises ConfigurationError, which names the setting and the allowed values."""
        value = settings.get(self.name, self.default if self.unset is _SAME else self.unset)
        return self.parse(None if value is IN_PARTS else value)

    def parse(self, value: Any) -> Any:
        """Converts a value; None stays None if it means "not set"."""
        if value is None and self.default in (None, IN_PARTS):
            return None
        try:
            return self.kind.parse(value)
        except WrongEntry as error:
            raise ConfigurationError(f"{self.name}, {error}") from None
        except (TypeError, ValueError, OverflowError, RecursionError):  # a list in a list in a list ...
            raise ConfigurationError(
                f"{self.name} must be {self.kind.allowed}, not {brief(repr(value))}"
            ) from None


class SettingGroup:
    """Settings that serve one task; `intro` is Markdown."""

    def __init__(self, title: str, *settings: Setting, intro: str = "") -> None:
        self.title, self.settings, self.intro = title, settings, intro
