"""Sketches of pages, which are compared instead of the texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import xxhash

_LINKS = 4


class Sketch(NamedTuple):
    """A summary of a page, to compare it with others.

    payload   32 bits of the hash of its bytes; 0 for an error page
    text      the SimHash of its text, or 64 bits of the hash of a short text; 0 if unknown
    links     the result of `links_sketch`
    facts     32 bits of the hash of the facts that name the page, such as its title
    """

    payload: int
    text: int = 0
    links: int = 0
    facts: int = 0

    def is_like(self, other: Sketch, distance: int) -> bool:
        """Whether two pages count as the same: the same bytes; or the same facts, near texts, and most links in common.

        Texts are near if their SimHashes differ in at most `distance` bits.
        """
        if self.payload == other.payload:
            return True
        if (
            self.facts != other.facts
            or not self.text
            or not other.text
            or (self.text ^ other.text).bit_count() > distance
        ):
            return False
        if self.links == other.links:
            return True
        mine, theirs = _numbers(self.links), _numbers(other.links)
        return len(mine) == len(theirs) == _LINKS and len(mine & theirs) >= _LINKS - 1


ERROR = Sketch(0)
"""An error page."""


def links_sketch(links: Iterable[str]) -> int:
    """Returns the four smallest hashes of links, 16 bits of each; pages with most links in common share most hashes.

    The sketch of Broder, "On the resemblance and containment of documents" (SEQUENCES 1997).
    """
    sketch = 0
    for number in sorted(map(_hash, set(links)))[:_LINKS]:
        sketch = sketch << 16 | (number & 0xFFFF or 1)
    return sketch


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode(errors="replace"))


def _numbers(links: int) -> set[int]:
    return {links >> shift & 0xFFFF for shift in range(0, 16 * _LINKS, 16)} - {0}
