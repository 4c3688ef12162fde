"""The pattern of a URL: what the URLs that one program makes have in common.

Digits, numbers in hexadecimal, ids, titles and the values of parameters are left out:

    /thread/1234?page=2         /thread/#?page
    /s/9f86d081884c7d65/a.html  /s/~/a.html
    /2026/11/23/why-it-rains    /#+/w
    /a/a/a/b                    /a+/b

Crawlers have grouped URLs by such rules since Heritrix's URI-processing filters; Koppula et al., "Learning URL patterns
for webpage de-duplication" (WSDM 2010), learn them.
"""

from __future__ import annotations

import re

REST = "*"
"""The pattern of all URLs of a host that have no group of their own."""

_RUNS = re.compile(r"[0-9A-Za-z]{8,}")
_DIGITS = re.compile(r"[0-9]+")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_ID = 16
"""Letters and digits mixed in a run of this length are an id, also if they are not hexadecimal."""
_TITLE = re.compile(r"(?<=/)[^/?;=.]*[^/?;=.0-9#~][-_+][^/?;=.]+[-_+][^/?;=.]+")
"""A segment, up to its extension, of at least three words, such as the title of an article."""
_REPEATED = re.compile(r"((?:/[^/]+){1,2}?)\1+(?=/|$)")
_MOST_CHARACTERS = 512
"""Segments beyond are ignored; paths are rarely longer, and endless ones repeat themselves."""
_MOST_NAMES = 8


def url_pattern(path: str) -> str:
    """Returns the pattern of a URL of a host by its path and query, as in "/thread/#?page".

    The names of parameters are sorted, each once, without their values. The pattern of a pattern is not defined.
    """
    path, query = path.partition("?")[::2]
    if len(path) > _MOST_CHARACTERS:  # whole segments, so that repeated ones stay the same
        path = path[:_MOST_CHARACTERS].rpartition("/")[0] or "/"
    path = _without_values(path)
    if path.count("-") > 1 or path.count("_") > 1 or path.count("+") > 1:
        path = _TITLE.sub("w", path)
    if len(path) > 3:
        path = _REPEATED.sub(r"\1+", path)
    if not query:
        return path
    names = {_without_values(part.partition("=")[0]) for part in query[:_MOST_CHARACTERS].split("&")[:32]}
    return f"{path}?{'&'.join(sorted(names)[:_MOST_NAMES])}"


def family(pattern: str) -> str:
    """Returns the wider pattern that a pattern belongs to: all parameters of one path, or all files of one folder."""
    path, mark, _ = pattern.partition("?")
    return f"{path}?*" if mark else f"{pattern.rpartition('/')[0]}/*"


def _without_values(text: str) -> str:
    """Returns text with "~" for ids and "#" for other digits."""
    if text.isalpha() or not _DIGITS.search(text):
        return text
    return _DIGITS.sub("#", _RUNS.sub(_class_of, text))


def _class_of(match: re.Match[str]) -> str:
    run = match[0]
    if run.isdigit() or run.isalpha():
        return run
    return "~" if len(run) >= _ID or _HEX.fullmatch(run) else run
