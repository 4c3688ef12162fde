"""Queries with `prefix*` and `"a phrase and a pre"*`: each prefix is replaced by the words that begin with it."""

from __future__ import annotations

import re
from typing import Any

from webcrawl.errors import ConfigurationError
from webcrawl.search.schema import FORMS, NAMES
from webcrawl.search.words import forms

MOST_WORDS = 50
"""The most words of a prefix: those in the most pages."""
MOST_PREFIXES = 5
LEAST = 2
"""The characters of a prefix."""

# a text in quotation marks, with a star or not, or words joined by signs, with a star; what ends a sentence may follow
_PART = re.compile(
    r"""\"(?P<phrase>(?:[^"\\]|\\.)*)\"(?:(?P<star>\*)(?:[?!,;.]+(?=\s|$))?)?"""
    r"""|(?P<word>\w(?:[\w.'\u2019-]*\w)?)\*(?!\w)(?:[?!,;.]+(?=\s|$))?"""
)
_FIELD = re.compile(r"(\w+):$")


def has_prefix(query: str) -> bool:
    return "*" in query


def expanded(searcher: Any, query: str) -> str:
    """Returns a `searchable` query with its prefixes replaced; raises ConfigurationError for short or many prefixes."""
    number = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal number
        text = match["word"] or (match["star"] and match["phrase"])
        field = _FIELD.search(query, 0, match.start())
        if not text or (field and field[1] in NAMES):
            return match[0]
        number += 1
        if number > MOST_PREFIXES:
            raise ConfigurationError(f"the query has more than {MOST_PREFIXES} prefixes")
        return _alternatives(searcher, text) or match[0]

    return _PART.sub(replaced, query)


def _alternatives(searcher: Any, text: str) -> str:
    """Returns a group of the words or phrases for a prefix; "" if the text has no words."""
    words = forms(text)
    if not words:
        return ""
    *before, prefix = words
    if len(prefix) < LEAST and prefix.isascii():
        raise ConfigurationError(f"the prefix {prefix + '*'!r} is too short: give {LEAST} characters or more")
    terms = sorted(searcher.terms_with_prefix(FORMS, prefix), key=lambda pair: -pair[1])[:MOST_WORDS]
    phrases = [" ".join([*before, term]) for term, _ in terms] or [" ".join(words)]
    return "(" + " OR ".join(f'"{phrase}"' for phrase in phrases) + ")"
