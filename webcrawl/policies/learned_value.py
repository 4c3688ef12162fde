"""Predicts the value of a URL before it is fetched: a linear model of features of the URL and of the link to it.

The features are texts, such as the pattern of the URL or a word of the link. The hash of a feature gives its index in a
table of weights, and a sign (Weinberger, Dasgupta, Langford, Smola, Attenberg, "Feature Hashing for Large Scale
Multitask Learning", ICML 2009). So the size of the table does not depend on the web. `scrapy mine` learns the weights;
workers only add them up. Both use the functions of this module.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar

from xxhash import xxh3_64_intdigest

from webcrawl.policies.url_patterns import url_pattern
from webcrawl.urls.canonical import split

_Number = TypeVar("_Number", int, float)

BITS = 18
"""The table has 2**BITS weights, which take a megabyte."""
MOST_LEVELS = 3.0
"""The most levels by which the learned value makes a URL better or worse."""

_LEVELS = 2.0
"""Levels for each standard deviation of the value among the pages of the training."""
_DEEPEST = 10
_MOST_WORDS = 12
_MOST_LINK_WORDS = 8
_SEGMENTS = 3
_WORD = re.compile(r"[^\W\d_]{2,30}")
_MASK = (1 << BITS) - 1
_CACHED = 1 << 14


def features(host: str, path: str, depth: int, source: str, text: str) -> list[str]:
    """Returns the features of a URL: of its pattern, its words, its link, the page with the link, and its depth.

    `host` is scheme, name and port, `path` has the query, `depth` is the number of links from a seed, `source` the page
    with the link, `text` the text of the link. The last two may be empty.
    """
    pattern = url_pattern(path)
    parent_host, parent = _host_and_pattern(source)
    near = parent if parent_host == host else "elsewhere" if parent else ""
    names = [
        *_of_pattern(host, pattern),
        f"depth {depth if depth < _DEEPEST else _DEEPEST}",
        f"parent {parent_host}{parent}",
        f"step {near} {pattern}",
    ]
    names += [f"word {word}" for word in _WORD.findall(path.lower())[:_MOST_WORDS]]
    if text:
        names += [f"text {word}" for word in _WORD.findall(text.lower())[:_MOST_LINK_WORDS]]
    return names


def bucket(feature: str) -> tuple[int, int]:
    """Returns the index of a feature in the table, and its sign: 1 or -1."""
    digest = xxh3_64_intdigest(feature.encode(errors="replace"))
    return digest & _MASK, 1 if digest >> 63 else -1


def even(value: float) -> float:
    """Returns the logarithm of a value, with its sign: lengths and numbers of links have a few huge values."""
    return math.copysign(math.log1p(abs(value)), value)


class ValueModel:
    """The learned model. Its predictions are standard scores: 0 is the mean of the pages of the training.

    target     the name of the predicted value
    intercept  the score of a URL without features
    table      2**BITS weights
    """

    def __init__(self, target: str, intercept: float, table: array[float]) -> None:
        self.target = target
        self._intercept, self._table = intercept, table
        # most links of a crawl share most of their features
        self._weight = lru_cache(_CACHED)(self._weight_of)

    def score(self, names: Iterable[str]) -> float:
        """Returns the score of a URL with these features."""
        return self._intercept + sum(map(self._weight, names))

    def levels(self, names: Iterable[str]) -> float:
        """Returns the levels by which a URL with these features is better than the mean, as a multiple of 1/16."""
        levels = self.score(names) * _LEVELS
        return round(min(max(levels, -MOST_LEVELS), MOST_LEVELS) * 16) / 16

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, with the weights that are not 0."""
        indices = array("I", [index for index, weight in enumerate(self._table) if weight])
        weights = array("f", [self._table[index] for index in indices])
        return {
            "target": self.target,
            "intercept": self._intercept,
            "bits": BITS,
            "places": _little_endian(indices).tobytes(),
            "weights": _little_endian(weights).tobytes(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Reverses `as_dict`; raises ValueError, KeyError or TypeError for anything else."""
        indices = _little_endian(array("I", values["places"]))
        weights = _little_endian(array("f", values["weights"]))
        intercept = float(values["intercept"])
        if values["bits"] != BITS or len(indices) != len(weights) or max(indices, default=0) > _MASK:
            raise ValueError("the table of weights has another size")
        if not (math.isfinite(intercept) and all(map(math.isfinite, weights))):
            raise ValueError("a weight is not a number")
        table = array("f", bytes(4 << BITS))
        for index, weight in zip(indices, weights, strict=True):
            table[index] = weight
        return cls(str(values["target"]), intercept, table)

    def _weight_of(self, feature: str) -> float:
        index, sign = bucket(feature)
        return sign * self._table[index]


def _little_endian(values: array[_Number]) -> array[_Number]:
    """Returns the values, converted in place between the byte order of this machine and of the file."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


@lru_cache(maxsize=_CACHED)
def _of_pattern(host: str, pattern: str) -> tuple[str, ...]:
    """Returns the features of a pattern: host, pattern, folders of the path, extension, names of parameters."""
    path, _, query = pattern.partition("?")
    segments = path[1:].split("/")
    names = [f"host {host}", f"pattern {host}{pattern}", f"shape {pattern}"]
    names += [
        f"folder {host}/{'/'.join(segments[:number])}" for number in range(1, min(_SEGMENTS, len(segments)))
    ]
    extension = segments[-1].rpartition(".")
    names.append(f"extension {extension[2] if extension[1] else ''}")
    return (*names, *[f"parameter {name}" for name in query.split("&") if name])


@lru_cache(maxsize=_CACHED)
def _host_and_pattern(page: str) -> tuple[str, str]:
    """Returns the host and the pattern of a page; both are empty without a page."""
    if not page:
        return "", ""
    host, path = split(page)
    return host, url_pattern(path)
