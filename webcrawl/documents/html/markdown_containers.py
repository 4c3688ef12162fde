"""Lists, their items and quotations in Markdown: what the lines in them begin with."""

from __future__ import annotations

from collections.abc import Iterator

MAX_DEPTH = 20
"""Lists, items and quotations that are nested deeper belong to the one around them."""


class Container:
    """A list, an item of one, or a quotation: each line in it begins with what the ones around it add, and its own.

    marker   begins the first line of an item, and each line of a quotation; "" for a list
    number   of the next item of an ordered list; 0 for other lists, -1 for what is no list
    listing  the list of an item
    """

    def __init__(self, parent: Container | None, marker: str, number: int = -1) -> None:
        self.parent = parent
        self.number = number
        self.listing = parent if marker and parent is not None and parent.number >= 0 else None
        self.marker = marker
        self._indent = marker if marker == "> " else " " * len(marker)
        self.depth: int = parent.depth + 1 if parent is not None else 1
        self.rest: str = (parent.rest if parent is not None else "") + self._indent
        """What lines after the first one begin with."""
        self.has_begun = marker in ("", "> ")

    @classmethod
    def listed(cls, parent: Container | None, start: int) -> Container | None:
        """Returns a list whose first item has the number `start`, or 0 for one without numbers."""
        return cls(parent, "", start) if _is_possible(parent) else parent

    @classmethod
    def quote(cls, parent: Container | None) -> Container | None:
        """Returns a quotation."""
        return cls(parent, "> ") if _is_possible(parent) else parent

    @classmethod
    def item(cls, parent: Container | None) -> Container | None:
        """Returns the next item of a list."""
        if not _is_possible(parent):
            return parent
        if parent is None or parent.number < 1:
            return cls(parent, "- ")
        parent.number += 1
        return cls(parent, f"{parent.number - 1}. ")

    def begin(self) -> str:
        """Returns what the next line begins with, if a block begins there; items begin with their first block."""
        around = self.parent.begin() if self.parent is not None else ""
        own = self._indent if self.has_begun else self.marker
        self.has_begun = True
        return around + own

    def beginning(self) -> Container | None:
        """Returns the outermost item that the next block begins, if any."""
        return next((one for one in reversed(list(self.around())) if not one.has_begun), None)

    def around(self) -> Iterator[Container]:
        """Yields the container and those around it, from the inside."""
        one: Container | None = self
        while one is not None:
            yield one
            one = one.parent


def _is_possible(parent: Container | None) -> bool:
    return parent is None or parent.depth < MAX_DEPTH


def _is_item(one: Container | None) -> bool:
    return one is not None and one.marker not in ("", "> ")


def separation(before: Container | None, now: Container | None) -> str | None:
    """Returns the line between two blocks, in these containers; None if the second one can follow at once.

    That is so for items in a row. A list of other numbers than from 1 cannot follow a paragraph at once.
    """
    if before is None or now is None:
        return ""
    item, inside = now.beginning(), list(before.around())
    if item is not None and item.listing is not None:
        if any(one.listing is item.listing for one in inside):
            return None
        is_below = before is item.listing or (before is item.listing.parent and _is_item(before))
        if is_below and item.marker in ("- ", "1. "):
            return None
    common = next((one for one in now.around() if one in inside), None)
    return common.rest.rstrip() if common is not None else ""
