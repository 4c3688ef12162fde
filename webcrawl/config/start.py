"""The check of all settings at the start of a crawl or a command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Protocol

from webcrawl.config.declared import DECLARED
from webcrawl.errors import ConfigurationError

logger = logging.getLogger(__name__)

FAMILIES = (
    "CRAWL_",
    "DOCUMENT_",
    "FRONTIER_",
    "HOST_",
    "METADATA_",
    "MIME_",
    "POLITENESS_",
    "STORE_",
    "WARC_",
)
"""Prefixes that neither Scrapy nor scrapy-redis uses."""
_SIMILAR = 0.85


class SettingsMapping(Protocol):
    """Scrapy's settings object."""

    def __iter__(self) -> Iterator[str]: ...
    def get(self, name: str, default: Any, /) -> Any: ...


def check(settings: SettingsMapping) -> None:
    """Raises ConfigurationError for a value that is not allowed, or a name that is probably misspelt."""
    for setting in DECLARED.values():
        setting.read(settings)
    for name in settings:
        if near := _declared_like(name):
            raise ConfigurationError(f"{name} is not a setting; did you mean {near}?")


def warn_of_mistakes(settings: SettingsMapping) -> None:
    """Logs a warning for each allowed value that can only be a mistake; leaves other values to `check`."""
    for name, setting in DECLARED.items():
        with suppress(ConfigurationError):
            for mistake in setting.kind.mistakes(setting.read(settings)):
                logger.warning("%s, %s.", name, mistake)
    for name, (needed, is_met, words) in _NEEDS.items():
        with suppress(ConfigurationError):
            value = DECLARED[name].read(settings)
            if value != DECLARED[name].default and not is_met(DECLARED[needed].read(settings)):
                logger.warning("%s = %r has no effect %s.", name, value, words)


def _is_postgresql(uri: str | None) -> bool:
    return (uri or "").startswith("postgresql")


_RECRAWLS = "RECRAWL", bool, "without RECRAWL = True"
_NEEDS: dict[str, tuple[str, Callable[[Any], bool], str]] = {
    "METADATA_PARTITIONS": (
        "METADATA_URI",
        _is_postgresql,
        "with SQLite, which has no partitions: set METADATA_URI to a PostgreSQL database",
    ),
    "RECRAWL_MIN_INTERVAL": _RECRAWLS,
    "RECRAWL_MAX_AGE": _RECRAWLS,
    "RECRAWL_WEIGHTS": _RECRAWLS,
}
"""Setting -> the setting without which it has no effect, whether a value of that is enough, and words for a warning."""


def _declared_like(name: str) -> str | None:
    """Returns the declared name that `name` probably misspells, or None."""
    if name in DECLARED or not name.startswith(FAMILIES):
        return None
    return next(iter(get_close_matches(name, DECLARED, n=1, cutoff=_SIMILAR)), None)
