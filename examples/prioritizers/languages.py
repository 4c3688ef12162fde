"""Prefers pages in the languages that a crawl is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self

from webcrawl import ConfigurationError, Prospect, Term

_LANGUAGE = re.compile(r"/([a-z]{2})(?:-[a-z]{2})?/", re.IGNORECASE)


class Languages(Term):
    """A URL with one of these languages as a segment: 1; with another one: -1. Key: URL_LANGUAGES, such as "de,fr"."""

    why = "The crawl is for pages in these languages."

    def __init__(self, languages: frozenset[str]) -> None:
        self._languages = languages

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        languages = str(config.get("URL_LANGUAGES") or "").lower().split(",")
        for language in languages:
            if language and not re.fullmatch("[a-z]{2}", language):
                raise ConfigurationError(f"URL_LANGUAGES must be codes of two letters, not {language!r}")
        return cls(frozenset(languages)) if any(languages) else None

    def weight(self, prospect: Prospect) -> float:
        match = _LANGUAGE.match(prospect.path)
        if match is None:
            return 0.0
        return 1.0 if match[1].lower() in self._languages else -1.0
