"""Lists, their items and quotations in Markdown: what the lines in them begin with."""

from __future__ import annotations

from collections.abc import Callable

BULLETS, NO_LIST = -1, -2
MAX_DEPTH = 20
"""Lists, items and quotations that are nested deeper belong to the one around them."""


class Container:
    """A list, an item of one, or a quotation: each line in it begins with what the ones around it add, and its own.

    marker   begins the first line of an item, and each line of a quotation; "" for a list
    number   of the next item of an ordered list; BULLETS for other lists, NO_LIST for what is no list
    listing  the list of an item
    is_other  the items of the list have other markers, because it follows another list at once
    around   this one and those around it, from the inside
    rest     what lines after the first one begin with
    """

    __slots__ = (
        "_indent",
        "around",
        "depth",
        "has_begun",
        "is_other",
        "listing",
        "marker",
        "number",
        "parent",
        "rest",
    )

    def __init__(self, parent: Container | None, marker: str, number: int = NO_LIST) -> None:
        is_item = marker not in _NOT_ITEMS
        self.parent = parent
        self.number = number
        self.marker = marker
        self._indent = " " * len(marker) if is_item else marker
        self.has_begun = not is_item
        self.listing: Container | None = None
        self.is_other = False
        if parent is None:
            self.depth, self.rest = 1, self._indent
            self.around: tuple[Container, ...] = (self,)
            return
        self.depth, self.rest = parent.depth + 1, parent.rest + self._indent
        self.around = (self, *parent.around)
        if marker and parent.number != NO_LIST:
            self.listing = parent

    @classmethod
    def listed(cls, parent: Container | None, start: int | None) -> Container | None:
        """Returns a list whose first item has the number `start`, by default 1; BULLETS for one without numbers."""
        return cls(parent, "", 1 if start is None else start) if _is_possible(parent) else parent

    @classmethod
    def quote(cls, parent: Container | None) -> Container | None:
        """Returns a quotation."""
        return cls(parent, _QUOTE) if _is_possible(parent) else parent

    @classmethod
    def item(cls, parent: Container | None, number: Callable[[], int | None]) -> Container | None:
        """Returns the next item of a list; `number` is asked for the item's own one, if the list has numbers."""
        if not _is_possible(parent):
            return parent
        if parent is None or parent.number < 0:
            return cls(parent, "- ")
        own = number()
        parent.number = (parent.number if own is None else own) + 1
        return cls(parent, f"{parent.number - 1}. ")

    def begin(self) -> str:
        """Returns what the next line begins with, if a block begins there; items begin with their first block."""
        if self.has_begun and self.marker not in _NOT_ITEMS:  # then those around it have begun too
            return self.rest
        around = self.parent.begin() if self.parent is not None else ""
        own = self._indent if self.has_begun else self._written_marker()
        self.has_begun = True
        return around + own

    def _written_marker(self) -> str:
        if self.listing is not None and self.listing.is_other:
            return self.marker.translate(_OTHER_MARKERS)
        return self.marker

    def beginning(self) -> Container | None:
        """Returns the outermost item that the next block begins, if any."""
        found = None
        for one in self.around:
            if not one.has_begun:
                found = one
        return found


_QUOTE = "> "
_OTHER_MARKERS = str.maketrans("-.", "*)")
_NOT_ITEMS = ("", _QUOTE)
"""The markers of what is not an item."""


def _is_possible(parent: Container | None) -> bool:
    return parent is None or parent.depth < MAX_DEPTH


def separation(before: Container | None, now: Container | None) -> str | None:
    """Returns the line between two blocks, in these containers; None if the second one can follow at once.

    That is so for items in a row. A list of other numbers than from 1 cannot follow a paragraph at once.
    """
    if before is None or now is None:
        return ""
    if before is now:
        return now.rest.rstrip()
    item, inside = now.beginning(), before.around
    if item is not None and (listing := item.listing) is not None:
        for one in inside:
            if one.listing is listing:
                return None
            if one.listing is not None and one.listing.parent is listing.parent:
                # with the same markers, the lists would be one
                is_same_kind = (one.listing.number == BULLETS) == (listing.number == BULLETS)
                listing.is_other = is_same_kind and not one.listing.is_other
        is_below = before is listing or (before is listing.parent and before.marker not in _NOT_ITEMS)
        if is_below and item.marker in ("- ", "1. "):
            return None
    common = next((one for one in now.around if one in inside), None)
    return common.rest.rstrip() if common is not None else ""
