"""The blocks in which the links of an HTML page stand, as hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from selectolax.lexbor import LexborNode
from xxhash import xxh3_64_intdigest

from webcrawl.documents.html.text import INLINE

_DIGIT = re.compile(r"\d")
_MASK = (1 << 64) - 1
_HALF = 1 << 63
_MAX_CLASSES = 500
"""Characters of a `class` that are looked at."""
_ROOT = 0
_MAX_STEPS = 1 << 13
_steps: dict[tuple[int, str | None, str | None], int] = {}
"""The hash of the block in another one that an element with some classes is: the same ones on page after page."""


def blocks_around(nodes: Iterable[LexborNode]) -> list[int]:
    """Returns the hash of the block that each node stands in: the nearest element around it that is not inline.

    It is that of its path, which has the names of all elements from the root, and their classes without those that have
    digits. So the same place has the same hash on all pages that one template makes.
    """
    blocks: list[int] = []
    # by the place of an element in memory; inline elements have the hash of their block
    hashes: dict[int, int] = {}
    known, steps, add = hashes.get, _steps.get, blocks.append
    for node in nodes:
        if (parent := node.parent) is None:
            add(_ROOT)
            continue
        place = parent.mem_id
        if (block := known(place)) is None:
            # most often only the nearest element is new
            above = parent.parent
            if above is None:
                path = _ROOT
            elif (found := known(above.mem_id)) is not None:
                path = found
            else:
                path = _path(above, hashes)
            if (tag := parent.tag) in INLINE:
                block = path
            elif (block := steps(step := (path, tag, parent.attributes.get("class")))) is None:
                block = _remembered(*step)
            hashes[place] = block
        add(block)
    return blocks


def _path(node: LexborNode | None, hashes: dict[int, int]) -> int:
    """Returns the hash of an element, and adds it and those around it to `hashes`; each is looked at once."""
    known, steps = hashes.get, _steps.get
    new: list[tuple[int, LexborNode]] = []
    found: int | None = _ROOT
    while node is not None and (found := known(place := node.mem_id)) is None:
        new.append((place, node))
        node = node.parent
    path = _ROOT if found is None else found
    while new:
        place, one = new.pop()
        if (tag := one.tag) not in INLINE:
            step = path, tag, one.attributes.get("class")
            found = steps(step)
            path = _remembered(*step) if found is None else found
        hashes[place] = path
    return path


def _remembered(path: int, tag: str | None, classes: str | None) -> int:
    """Returns the hash of a block in the one that has the hash `path`; keeps it unless `classes` are long."""
    block = _extended(path, tag or "", (classes or "")[:_MAX_CLASSES])
    if len(_steps) >= _MAX_STEPS:
        _steps.clear()
    if len(classes or "") <= _MAX_CLASSES:
        _steps[path, tag, classes] = block
    return block


def _extended(path: int, tag: str, classes: str) -> int:
    """Returns the hash of the path of an element in the block that has the hash `path`."""
    kept = [one for one in classes.split() if not _DIGIT.search(one)]
    data = ".".join([tag, *kept]).encode("utf-8", "replace")
    return xxh3_64_intdigest(data, path & _MASK) - _HALF
