"""The weights that `scrapy mine` learns and workers apply, and the format of their file.

The file is a line with the format and its version, the 16 bytes of an XXH3 checksum, and the rest: MessagePack,
compressed by zlib.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgpack
from xxhash import xxh3_64_digest, xxh3_64_intdigest, xxh3_128_digest

from webcrawl.policies.learned_value import ValueModel
from webcrawl.policies.url_patterns import url_pattern
from webcrawl.urls.canonical import split

VERSION = 1
_HEAD = b"webcrawl mined weights %d\n" % VERSION
_KIND = _HEAD.rpartition(b" ")[0]
_CHECKSUM = 16
_MOST_BYTES = 1 << 28
_MARK = 8
BOILERPLATE_PAGES = 8
"""A link of boilerplate gets credit from one page in this many, and so this part of the credit of other links."""


@dataclass(frozen=True)
class Mined:
    """The weights of one run of `scrapy mine`.

    made      the time of the run: ISO 8601, in UTC
    value     the learned value of URLs, or None
    patterns  host and pattern of URLs -> the levels, below 0, of pages that lead to little that is new
    marks     host and pattern of pages -> the XXH3 hashes, 8 bytes each, of the targets of their boilerplate
    """

    made: str
    value: ValueModel | None = None
    patterns: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, frozenset[bytes]] = field(default_factory=dict)

    def uncredited(self, page: str, links: Iterable[str]) -> set[str]:
        """Returns the links of a page, as normalized URLs, that get no credit from it because they are boilerplate.

        One page in BOILERPLATE_PAGES gives credit to a link of boilerplate, chosen by the hashes of both.
        """
        if not self.marks:
            return set()
        host, path = split(page)
        marked = self.marks.get(host + url_pattern(path), frozenset())
        turn = xxh3_64_intdigest(page.encode(errors="replace"))
        return {
            link
            for link in links
            if (digest := mark(link)) in marked and (turn ^ digest[-1]) % BOILERPLATE_PAGES
        }

    def pack(self) -> bytes:
        """Returns the contents of the file."""
        record = {
            "made": self.made,
            "value": self.value and self.value.as_dict(),
            "patterns": dict(self.patterns),
            "marks": {pattern: b"".join(sorted(marks)) for pattern, marks in self.marks.items()},
        }
        body = zlib.compress(msgpack.packb(record))
        return _HEAD + xxh3_128_digest(body) + body

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Reverses `pack`; raises ValueError, which says what is wrong with other data."""
        body = data[len(_HEAD) + _CHECKSUM :]
        if not data.startswith(_HEAD):
            known = data.startswith(_KIND)
            raise ValueError(
                "it has another version: run `scrapy mine` again" if known else "it has no weights"
            )
        if data[len(_HEAD) :][:_CHECKSUM] != xxh3_128_digest(body):
            raise ValueError("it is incomplete or damaged: its checksum is wrong")
        try:
            unzip = zlib.decompressobj()
            record = msgpack.unpackb(unzip.decompress(body, _MOST_BYTES))
            value = record["value"]
            patterns = {pattern: _level(weight) for pattern, weight in record["patterns"].items()}
            marks = {pattern: _marks(packed) for pattern, packed in record["marks"].items()}
            return cls(str(record["made"]), value and ValueModel.from_dict(value), patterns, marks)
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it cannot be read: {error}") from error


def mark(url: str) -> bytes:
    """Returns the hash that stands for a target of boilerplate."""
    return xxh3_64_digest(url.encode(errors="replace"))


def _level(weight: Any) -> float:
    if not math.isfinite(weight):
        raise ValueError("a weight is not a number")
    return float(weight)


def _marks(packed: bytes) -> frozenset[bytes]:
    if len(packed) % _MARK:
        raise ValueError("a mark is incomplete")
    return frozenset(packed[start : start + _MARK] for start in range(0, len(packed), _MARK))
