"""How much of the text of an HTML page is in links, and how much is code."""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.text import HIDDEN, LINK, LINK_END, TagIds, tag_ids, walk

_LINKS, _CODE = tag_ids("a"), tag_ids("pre code samp kbd")


class TextShares(NamedTuple):
    """Shares of the characters of a text, without white space, from 0 to 1."""

    links: float = 0.0
    code: float = 0.0


def text_shares(root: LexborNode) -> TextShares:
    """Returns the shares of the visible text under an element; 0 without text."""
    return TextShares(_share(root, _LINKS), _share(root, _CODE))


def _share(root: LexborNode, tags: TagIds) -> float:
    """Returns the share of the text that is in elements with these tags, which may be nested."""
    total = inside = depth = 0
    for piece in walk(root, HIDDEN, tags):
        if piece == LINK:
            depth += 1
        elif piece == LINK_END:
            depth -= 1
        else:
            size = len("".join(piece.split()))
            total += size
            inside += size if depth > 0 else 0
    return inside / total if total else 0.0
