"""Which tables of a page hold data, and do not arrange the page."""

from __future__ import annotations

import re
from functools import lru_cache

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.text import tag_ids
from webcrawl.documents.link_elements import Attributes

(_TABLE,), (_ROW,), (_CELL,), (_DIV,) = map(tag_ids, ("table", "tr", "td", "div"))
TABLE_PARTS = tag_ids("table tbody tfoot thead td")
# What the cells of data do not have.
_ARRANGED = tag_ids("table form nav aside article main h1 h2 h3")
_HEADED = tag_ids("th caption")
# A table without headings has data if most of its rows, at least three, have the same number of cells, at least two.
_MIN_ROWS, _MIN_CELLS, _SAME_CELLS = 3, 2, 0.8
_MOST_ROWS = 50
_ROLES = frozenset({"grid", "row", "rowgroup", "table", "treegrid"})
_TABLE_NAME = re.compile(r"(?:^|[\s_-])table(?![_-]of)(?:$|[\s_-])", re.IGNORECASE)
_MAX_NAMES = 500


class DataTables:
    """Tells for parts of tables whether they belong to data; looks at each table once."""

    def __init__(self) -> None:
        self._headed: dict[int, bool | None] = {}
        """By `mem_id` of the table: whether it has headings; None for a table without data."""

    def has(self, node: LexborNode) -> bool:
        """Returns whether a node is a cell of data, or a table of data with headings. Inner tables come first."""
        if node.tag_id not in TABLE_PARTS:
            return node.tag_id == _DIV and node.parent is not None and is_table(node.parent.attributes)
        if (table := _table_of(node)) is None:
            return False
        if table.mem_id not in self._headed:
            self._headed[table.mem_id] = _headed(table)
            # the tables around it arrange the page; else each would be searched through all tables in it
            outer = _table_of(table.parent)
            while outer is not None and outer.mem_id not in self._headed:
                self._headed[outer.mem_id] = None
                outer = _table_of(outer.parent)
        headed = self._headed[table.mem_id]
        return headed is True or headed is False and node.tag_id == _CELL


def is_table(attributes: Attributes) -> bool:
    """Returns whether the role or a class of an element says that its children are rows or cells of a table."""
    names = attributes.get("class")
    if names and len(names) <= _MAX_NAMES and _names_table(names):
        return True
    return attributes.get("role") in _ROLES


@lru_cache(2**12)
def _names_table(names: str) -> bool:
    return _TABLE_NAME.search(names) is not None


def _table_of(node: LexborNode | None) -> LexborNode | None:
    while node is not None and node.tag_id != _TABLE:
        node = node.parent
    return node


def _headed(table: LexborNode) -> bool | None:
    """Returns whether a table of data has headings, or None if it has no data."""
    if table.attributes.get("role") in ("none", "presentation"):
        return None
    # a walk takes a quarter of the time of a search by names of elements
    tags = [node.tag_id for node in table.traverse()][1:]  # without the table itself
    if not _ARRANGED.isdisjoint(tags):
        return None
    if not _HEADED.isdisjoint(tags):
        return True
    widths = _row_widths(tags)
    if len(widths) < _MIN_ROWS:
        return None
    width = max(dict.fromkeys(widths), key=widths.count)  # the first of equally common ones
    rows = widths.count(width)
    is_data = width >= _MIN_CELLS and rows >= _MIN_ROWS and rows >= _SAME_CELLS * len(widths)
    return False if is_data else None


def _row_widths(tags: list[int]) -> list[int]:
    """Returns the number of cells in each of the first rows of a table without inner tables."""
    widths: list[int] = []
    for tag in tags:
        if tag == _ROW:
            if len(widths) == _MOST_ROWS:
                break
            widths.append(0)
        elif tag == _CELL and widths:
            widths[-1] += 1
    return widths
