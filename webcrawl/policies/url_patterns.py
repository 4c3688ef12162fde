"""The pattern of a URL: the common form of the URLs that one program makes.

Digits, numbers in hexadecimal, ids, titles and the values of parameters are left out. All paths in which a name occurs
twice share one pattern, because relative links that repeat a path make any number of such paths:

    /thread/1234?page=2         /thread/#?page
    /s/9f86d081884c7d65/a.html  /s/~/a.html
    /2026/11/23/why-it-rains    /#+/w
    /a/news/a/team/             /+

Crawlers have grouped URLs by such rules since Heritrix's URI-processing filters; Koppula et al., "Learning URL patterns
for webpage de-duplication" (WSDM 2010), learn them.
"""

from __future__ import annotations

import re
from functools import lru_cache

REST = "*"
"""The pattern of all URLs of a host that have no group of their own."""

_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
"""Bytes are translated in a fifth of the time of text."""
_REQUESTED = re.compile(r"%(5[BCDE]|60|7[BCD])")
"""What Scrapy escapes in normalised URLs, such as `[`. Links have the signs, pages that were requested the escapes."""
_RUNS = re.compile(r"[0-9A-Za-z]{8,}")
_HEX = re.compile(r"[0a-fA-F]{8,}")
_ID = 16
"""A run of this length with both letters and digits is an id, even if it is not hexadecimal."""
_TITLE = re.compile(r"/[^/;=.]*?[^/;=.0#~][-_+][^/;=.]+?[-_+][^/;=.]+")
"""A segment, up to its extension, of at least three words, such as the title of an article."""
_REPEATED = re.compile(r"(/[#~w])\1+(?=/|$)")
_NAMELESS = frozenset(("", "~", "w"))
_MOST_CHARACTERS = 512
"""Further segments are ignored; paths are rarely longer, and endless paths repeat themselves."""
_MOST_NAMES = 8
_MOST_SHAPES = 1 << 11


def url_pattern(path: str) -> str:
    """Returns the pattern of a URL of a host by its path and query, as in "/thread/#?page".

    The names of parameters are sorted, each once, without their values. The pattern of a pattern is not defined.
    """
    if "%" in path:
        path = _REQUESTED.sub(lambda match: chr(int(match[1], 16)), path)
    zeros = path.encode(errors="surrogatepass").translate(_ZEROS)
    return _of_shape(zeros.decode(errors="surrogatepass"))


@lru_cache(maxsize=_MOST_SHAPES)
def _of_shape(path: str) -> str:
    """Returns the pattern of a path and query whose digits are all 0."""
    path, _, query = path.partition("?")
    if len(path) > _MOST_CHARACTERS:  # whole segments, so that repeated segments stay the same
        path = path[:_MOST_CHARACTERS].rpartition("/")[0] or "/"
    path = _without_values(path)
    if path.count("-") > 1 or path.count("_") > 1 or path.count("+") > 1:
        path = _TITLE.sub("/w", path)
    segments = path[1:].split("/")
    if len(set(segments)) < len(segments):
        names = [name for name in segments if name not in _NAMELESS and "#" not in name]
        path = "/+" if len(set(names)) < len(names) else _REPEATED.sub(r"\1+", path)
    if not query:
        return path
    parameters = {
        _without_values(part.partition("=")[0]) for part in query[:_MOST_CHARACTERS].split("&")[:32]
    }
    return f"{path}?{'&'.join(sorted(parameters)[:_MOST_NAMES])}"


def family(pattern: str) -> str:
    """Returns the wider pattern of a pattern: all parameters of one path, or all files of one folder."""
    path, mark, _ = pattern.partition("?")
    return f"{path}?*" if mark else f"{pattern.rpartition('/')[0]}/*"


def _without_values(text: str) -> str:
    """Returns text whose digits are all 0 with "~" for ids and "#" for other digits."""
    if "0" not in text:
        return text
    text = _RUNS.sub(_class_of, text)
    while "00" in text:
        text = text.replace("00", "0")
    return text.replace("0", "#")


def _class_of(match: re.Match[str]) -> str:
    run = match[0]
    if "0" not in run or run.isdigit():
        return run
    return "~" if len(run) >= _ID or _HEX.fullmatch(run) else run
