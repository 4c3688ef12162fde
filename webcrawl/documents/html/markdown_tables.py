"""The tables of Markdown, see https://github.github.com/gfm/#tables-extension-."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from webcrawl.documents.html.markdown_containers import Container

MAX_COLUMNS = 100
_MAX_LENGTH, _MAX_BLOCKS = 2_000, 12
# A table may have so many empty cells for each one that is filled, and some more.
_MOST_EMPTY, _SOME = 8, 100

Row: TypeAlias = list[str]


@dataclass(slots=True, eq=False)
class Cell:
    """A cell, and the texts in it."""

    table: Table
    columns: int = 1
    rows: int = 1
    is_header: bool = False
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Table:
    """A table while it is read. `is_layout`: it has what no cell of Markdown can have, such as another table."""

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
        """Returns the lines of a table of data; none for one that only arranges the page."""
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
            or rows * width > _MOST_EMPTY * cells + _SOME
            or any(
                len(cell.texts) > _MAX_BLOCKS or sum(map(len, cell.texts)) > _MAX_LENGTH
                for row in self.rows
                for cell in row
            )
        )

    def _grid(self) -> list[Row]:
        """Returns the texts by row and column; cells that span several have empty ones beside or below them."""
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
