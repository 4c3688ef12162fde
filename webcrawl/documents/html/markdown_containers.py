"""Lists, quotations and tables in Markdown.

Lists and quotations are containers: they decide how lines begin. For tables see
https://github.github.com/gfm/#tables-extension-.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

BULLETS, NO_LIST = -1, -2
MAX_DEPTH = 20
"""Containers that are nested deeper have no markers of their own."""


class Container:
    """A list, an item of a list, or a quotation. A line begins with the prefixes of all containers around it.

    marker    begins the first line of an item, and each line of a quotation; "" for a list
    number    of the next item of an ordered list; BULLETS for other lists, NO_LIST for items and quotations
    listing   the list of an item
    is_other  whether the items have other markers, because the list directly follows another list
    around    this container and all around it, from the inside
    rest      the prefix of all lines but the first
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
        """Returns a list whose first item has the number `start`, by default 1; BULLETS for a list without numbers."""
        return cls(parent, "", 1 if start is None else start) if _is_possible(parent) else parent

    @classmethod
    def quote(cls, parent: Container | None) -> Container | None:
        """Returns a quotation."""
        return cls(parent, _QUOTE) if _is_possible(parent) else parent

    @classmethod
    def item(cls, parent: Container | None, number: Callable[[], int | None]) -> Container | None:
        """Returns the next item of a list. `number` returns the item's own number, and is called for ordered lists."""
        if not _is_possible(parent):
            return parent
        if parent is None or parent.number < 0:
            return cls(parent, "- ")
        own = number()
        parent.number = (parent.number if own is None else own) + 1
        return cls(parent, f"{parent.number - 1}. ")

    def begin(self) -> str:
        """Returns the prefix of the first line of a block. An item begins with its first block."""
        if self.has_begun and self.marker not in _NOT_ITEMS:  # then all containers around have begun too
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
        outermost = None
        for container in self.around:
            if not container.has_begun:
                outermost = container
        return outermost


_QUOTE = "> "
_OTHER_MARKERS = str.maketrans("-.", "*)")
_NOT_ITEMS = ("", _QUOTE)
"""The markers of lists and quotations."""


def _is_possible(parent: Container | None) -> bool:
    return parent is None or parent.depth < MAX_DEPTH


def separation(before: Container | None, now: Container | None) -> str | None:
    """Returns the line between two blocks in these containers; None if the second block follows without a line between.

    Items in a row have no line between them. An ordered list that does not begin with 1 cannot interrupt a paragraph.
    """
    if before is None or now is None:
        return ""
    if before is now:
        return now.rest.rstrip()
    item, inside = now.beginning(), before.around
    if item is not None and (listing := item.listing) is not None:
        for container in inside:
            if container.listing is listing:
                return None
            if (last := container.listing) is not None and last.parent is listing.parent:
                # with the same markers, both lists would be read as a single list
                is_same_kind = (last.number == BULLETS) == (listing.number == BULLETS)
                listing.is_other = is_same_kind and not last.is_other
        is_below = before is listing or (before is listing.parent and before.marker not in _NOT_ITEMS)
        if is_below and item.marker in ("- ", "1. "):
            return None
    common = next((container for container in now.around if container in inside), None)
    return common.rest.rstrip() if common is not None else ""


MAX_COLUMNS = 100
_MAX_LENGTH, _MAX_BLOCKS = 2_000, 12
# A table may have so many empty cells for each filled cell, and some more.
_MAX_EMPTY, _MORE_EMPTY = 8, 100

Row: TypeAlias = list[str]


@dataclass(slots=True, eq=False)
class Cell:
    """A cell, and the texts in it."""

    table: MarkdownTable
    columns: int = 1
    rows: int = 1
    is_header: bool = False
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MarkdownTable:
    """A table while it is read. `is_layout`: its cells have content that Markdown does not allow, such as a table."""

    container: Container | None
    rows: list[list[Cell]] = field(default_factory=list)
    is_layout: bool = False

    def add(self, cell: Cell) -> Cell:
        """Adds a cell to the last row."""
        if not self.rows:
            self.rows.append([])
        self.rows[-1].append(cell)
        return cell

    def lines(self) -> list[str]:
        """Returns the lines of a table of data; none for a table that only arranges the page."""
        rows = [row for row in self._grid() if any(row)]
        width = max(map(len, rows), default=0)
        if self._is_for_layout(len(rows), width):
            return []
        has_header = all(cell.is_header for cell in self.rows[0]) and any(cell.texts for cell in self.rows[0])
        if not has_header:
            rows.insert(0, [])
        lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
        return [lines[0], "|" + " --- |" * width, *lines[1:]]

    def _is_for_layout(self, rows: int, width: int) -> bool:
        cells = sum(map(len, self.rows))
        return (
            self.is_layout
            or rows < 2
            or not 2 <= width <= MAX_COLUMNS
            or rows * width > _MAX_EMPTY * cells + _MORE_EMPTY
            or any(
                len(cell.texts) > _MAX_BLOCKS or sum(map(len, cell.texts)) > _MAX_LENGTH
                for row in self.rows
                for cell in row
            )
        )

    def _grid(self) -> list[Row]:
        """Returns the texts by row and column. A cell that spans others is followed by empty texts."""
        if all(cell.columns == cell.rows == 1 for cells in self.rows for cell in cells):
            return [list(map(_text, cells[: MAX_COLUMNS + 1])) for cells in self.rows]
        grid: list[Row] = []
        spans: dict[int, int] = {}
        for cells in self.rows:
            row: Row = []
            below: dict[int, int] = {}
            for cell in cells:
                _skip(row, spans)
                if len(row) > MAX_COLUMNS:
                    break
                below |= dict.fromkeys(range(len(row), len(row) + cell.columns), cell.rows - 1)
                row += [_text(cell), *[""] * (cell.columns - 1)]
            _skip(row, spans)
            spans = {column: left - 1 for column, left in spans.items() if left > 1} | {
                column: left for column, left in below.items() if left
            }
            grid.append(row)
        return grid


def _skip(row: Row, spans: dict[int, int]) -> None:
    """Adds empty texts in columns that a cell of an earlier row spans."""
    while spans.get(len(row)):
        row.append("")


def _text(cell: Cell) -> str:
    texts = cell.texts
    text = texts[0] if len(texts) == 1 else " ".join(texts)
    return text.replace("\\\n", " ").replace("\n", " ").replace("|", "\\|")
