"""The text of the block of Markdown that is open, and the inline elements around its pieces."""

from __future__ import annotations

from collections.abc import Collection

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_elements import only_text_node
from webcrawl.documents.html.markdown_inline import (
    AROUND,
    BEGINS,
    CODE_MARK,
    ENDS,
    LINK_MARK,
    SCRIPTS,
    Destinations,
    Mark,
)
from webcrawl.documents.html.text import is_permalink


class Inline:
    """Collects the pieces and marks of a block while inline elements begin and end.

    pieces   the text
    marks    what is around its pieces
    is_kept  whether a piece is the text of a node in `text_nodes`, or these are None
    """

    __slots__ = ("_destinations", "_open", "_text_nodes", "is_kept", "marks", "pieces")

    def __init__(self, destinations: Destinations, text_nodes: Collection[int] | None) -> None:
        self._text_nodes = text_nodes
        self.is_kept = text_nodes is None
        self.pieces: list[str] = []
        self.marks: list[Mark] = []
        self._open: list[tuple[str, str]] = []
        self._destinations = destinations

    def add(
        self, kind: str, node: LexborNode, child: LexborNode, code: str | None, heading: int
    ) -> str | None:
        """Adds an element if there is nothing but a text in it, or begins it; `child` is the first node in it.

        Returns None if it is added, or else its kind, which is empty for one that does not count. Within a <pre>, which
        `code` is not None for, none counts. `heading`: the level of the one around it, or 0.
        """
        text_node: LexborNode | None = child
        text = child.text_content
        if text is None or child.next is not None:
            text_node = only_text_node(child)
            text = None if text_node is None else text_node.text_content
        if code is not None:
            address = None
        elif self._open or kind == LINK_MARK:
            address = self._address(kind, node, heading)
        else:
            address = ""
        if text is None:
            if address is None or kind in SCRIPTS:
                return ""
            self._begin(kind, address)
            return kind
        if len(text) == 1 and kind == LINK_MARK and is_permalink(node, text):
            return None
        pieces = self.pieces
        if text_node is not None and not self.is_kept:
            self.look_at(text_node)
        if pieces or not text.isspace() or code is not None:
            if address is not None:
                if self._open and self._open[-1][0] == CODE_MARK:  # then it is a link
                    self._begin(kind, address)
                    pieces.append(text)
                    self.end(kind)
                    return None
                self.marks.append((len(pieces), AROUND, kind, address))
            pieces.append(text)
        return None

    def look_at(self, node: LexborNode) -> None:
        """Keeps the block if a node is one of `text_nodes`."""
        self.is_kept = self._text_nodes is None or node.mem_id in self._text_nodes

    def end(self, kind: str) -> None:
        """Ends the last element of a kind that has begun."""
        in_code = kind == LINK_MARK and self._is_in_code()
        if in_code:
            self._end()
        self._end()
        if in_code:
            self._begin(CODE_MARK, "")

    def clear(self) -> None:
        """Begins a new block, in the same inline elements."""
        self.pieces.clear()
        self.is_kept = self._text_nodes is None
        if self.marks:
            self.marks[:] = [(0, BEGINS, kind, address) for kind, address in self._open]

    def ended(self) -> list[Mark]:
        """Returns the marks, with the ends of those that are open."""
        return self.marks + [(len(self.pieces), ENDS, "", "")] * len(self._open)

    def _begin(self, kind: str, address: str) -> None:
        # what is in a code span is no markup: a link in code has the code in it instead
        in_code = kind == LINK_MARK and self._is_in_code()
        if in_code:
            self._end()
        self._open.append((kind, address))
        self.marks.append((len(self.pieces), BEGINS, kind, address))
        if in_code:
            self._begin(CODE_MARK, "")

    def _end(self) -> None:
        self._open.pop()
        place = len(self.pieces)
        if self.marks[-1][:2] == (place, BEGINS):  # nothing is in it
            self.marks.pop()
        else:
            self.marks.append((place, ENDS, "", ""))

    def _is_in_code(self) -> bool:
        return bool(self._open) and self._open[-1][0] == CODE_MARK

    def _address(self, kind: str, node: LexborNode, heading: int) -> str | None:
        """Returns the address of a link, "" for other inline elements, or None if an element does not count.

        None counts within one of its kind, and only links count within code.
        """
        for around, _ in self._open:
            if around == kind or (around == CODE_MARK and kind != LINK_MARK):
                return None
        if kind != LINK_MARK:
            return ""
        written = node.attrs.get("href")
        if written is None or (heading and written[:1] in ("", "#")):  # an anchor for the heading
            return None
        return (self._destinations.of(written) if written else self._destinations.base()) or None
