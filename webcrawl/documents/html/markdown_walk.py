"""The walk through the tree of a page that collects the blocks of its Markdown, with a stack of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_attributes import language_of, number_of
from webcrawl.documents.html.markdown_blocks import (
    BREAK,
    CODE,
    IMAGE,
    LINE,
    NO_GLUE,
    PARAGRAPH,
    SPACE,
    Block,
    escaped_start,
)
from webcrawl.documents.html.markdown_containers import Container
from webcrawl.documents.html.markdown_elements import (
    HEADER_CELL,
    HEADINGS,
    IS_BLOCK,
    IS_BREAK,
    IS_CELL,
    IS_CODE,
    IS_HEADING,
    IS_HIDDEN,
    IS_IMAGE,
    IS_ITEM,
    IS_LIST,
    IS_MARK,
    IS_QUOTE,
    IS_ROW,
    IS_TABLE,
    MARKS,
    ORDERED,
    only_text,
)
from webcrawl.documents.html.markdown_inline import (
    CODE_MARK,
    LINK_MARK,
    SPECIAL,
    Destinations,
    Mark,
    escaped,
    image,
    wrapped,
)
from webcrawl.documents.html.markdown_tables import Cell, Table
from webcrawl.documents.html.text import INLINE, TEXT_NODE, clean
from webcrawl.documents.html.text_lines import collapsed, lines_of

_INSIDE_CODE = f":not({','.join(sorted(INLINE))})"
"""What has to be looked at in a <pre>; of all other elements, only the text counts."""
_MAX_START = 999_999
_is_special = SPECIAL.search


class Walk:
    """Collects the blocks of a page while its elements begin and end."""

    def __init__(self, base: str) -> None:
        self._blocks: list[Block] = []
        self._destinations = Destinations(base)
        self._inline: list[str] = []
        self._raw: list[str] = []
        self._marks: list[Mark] = []
        self._glue = NO_GLUE
        self._heading = 0
        self._code: str | None = None
        """The language of the <pre> that is open."""
        self._container: Container | None = None
        self._tables: list[Table] = []
        self._cells: list[Cell | None] = []

    def blocks(self, root: LexborNode, treatments: Mapping[int, int]) -> list[Block]:
        """Returns the blocks of text under a node, and its images; `treatments`: of elements, by their numbers."""
        treatment_of, add, raw = treatments.get, self._add, self._raw
        open_elements, node = list[tuple[LexborNode, int, Any]](), root.first_child
        while node is not None or open_elements:
            if node is None:
                node, treatment, before = open_elements.pop()
                if treatment:
                    self._end(treatment, before)
            elif (tag := node.tag_id) == TEXT_NODE:
                add(node.text_content or "")
            elif (treatment := treatment_of(tag, IS_BLOCK)) != IS_HIDDEN:
                child, before = node.first_child, None
                if treatment >= IS_BLOCK:
                    if raw or self._glue:
                        self._flush()
                    if treatment > IS_BLOCK:
                        before = self._begin(treatment, tag, node)
                        if treatment == IS_CODE and node.css_first(_INSIDE_CODE) is None:
                            add(node.text_lexbor() or "")
                            child = None
                elif treatment == IS_MARK:
                    if child is None or self._add_marked(tag, node, child):
                        node = node.next
                        continue
                    before = self._begin_mark(MARKS[tag], node)
                elif treatment:
                    self._add_void(treatment, node)
                if child is not None and (text := child.text_content) is not None:
                    add(text)
                    child = child.next
                if child is not None:
                    open_elements.append((node, treatment, before))
                    node = child
                    continue
                if treatment:
                    self._end(treatment, before)
            node = node.next
        self._flush()
        return self._blocks

    def _add(self, text: str) -> None:
        raw = self._raw
        if not raw and text.isspace() and self._code is None:
            return  # no paragraph begins with white space
        raw.append(text)
        if _is_special(text) is not None and not self._is_verbatim():
            text = escaped(text)
        self._inline.append(text)

    def _is_verbatim(self) -> bool:
        return self._code is not None or (bool(self._marks) and self._marks[-1].kind == CODE_MARK)

    def _add_marked(self, tag: int, node: LexborNode, child: LexborNode) -> bool:
        """Adds an inline element if there is nothing but a text in it; returns whether that is so."""
        text = only_text(child)
        if text is None:
            return False
        if not self._raw and text.isspace() and self._code is None:
            return True
        kind = MARKS[tag]
        address = self._address(kind, node)
        if address is None:
            self._add(text)
            return True
        self._raw.append(text)
        if kind != CODE_MARK and _is_special(text) is not None:
            text = escaped(text)
        wrapped(self._inline, kind, [text], address)
        return True

    def _begin(self, treatment: int, tag: int, node: LexborNode) -> Any:
        """Begins a block that means something; returns what `_end` needs to know."""
        if treatment == IS_HEADING:
            before, self._heading = self._heading, self._heading or HEADINGS[tag]
            return before
        if treatment == IS_CODE:
            was, self._code = self._code, self._code or language_of(node)
            return was
        if treatment <= IS_QUOTE:
            around = self._container
            if treatment == IS_ITEM:
                self._container = Container.item(around)
            elif treatment == IS_QUOTE:
                self._container = Container.quote(around)
            else:
                start = number_of(node.attributes.get("start"), 1, _MAX_START) if tag == ORDERED else 0
                self._container = Container.listed(around, start)
            return around
        if treatment == IS_TABLE:
            for table in self._tables[-1:]:
                table.is_layout = True
            self._tables.append(Table(self._container))
            self._cells.append(None)
        elif self._tables:
            self._begin_in_table(treatment, tag, node)
        return None

    def _end(self, treatment: int, before: Any) -> None:
        """Ends an element that is not neutral."""
        if treatment == IS_MARK:
            if before:
                self._wrap(self._marks.pop())
            return
        if treatment < IS_BLOCK:
            return
        if self._raw or self._glue:
            self._flush()
        if treatment == IS_HEADING:
            self._heading = before
        elif treatment == IS_CODE:
            self._code = before
            self._glue = NO_GLUE
        elif IS_LIST <= treatment <= IS_QUOTE:
            self._container = before
        elif treatment == IS_TABLE:
            self._tables.pop()
            self._cells.pop()
        elif treatment == IS_CELL and self._tables:
            self._cells[-1] = None

    def _begin_mark(self, kind: str, node: LexborNode) -> bool:
        """Returns whether the element counts."""
        address = self._address(kind, node)
        if address is None:
            return False
        self._marks.append(Mark(kind, address, len(self._inline)))
        return True

    def _address(self, kind: str, node: LexborNode) -> str | None:
        """Returns the address of a link, "" for other inline elements, or None if an element does not count.

        None counts within code, or within one of its kind.
        """
        if self._code is not None:
            return None
        for mark in self._marks:
            if mark.kind == kind or mark.kind == CODE_MARK:
                return None
        if kind != LINK_MARK:
            return ""
        written = node.attributes.get("href")
        if not written or (self._heading and written.startswith("#")):  # an anchor for the heading
            return None
        return self._destinations.of(written) or None

    def _wrap(self, mark: Mark) -> None:
        """Ends an inline element, for now or for good."""
        inline, start = self._inline, mark.start
        inside = inline[start:]
        del inline[start:]
        wrapped(inline, mark.kind, inside, mark.address)
        mark.start = 0

    def _begin_in_table(self, treatment: int, tag: int, node: LexborNode) -> None:
        table = self._tables[-1]
        if treatment == IS_ROW:
            table.rows.append([])
            return
        cell = Cell(table, is_header=tag == HEADER_CELL)
        if attributes := node.attributes:
            cell.columns = number_of(attributes.get("colspan"), 1, 20)
            cell.rows = number_of(attributes.get("rowspan"), 1, 100)
        self._cells[-1] = table.add(cell)

    def _add_void(self, treatment: int, node: LexborNode) -> None:
        """Adds a line break or an image."""
        self._flush(BREAK if treatment == IS_BREAK else SPACE)
        if treatment == IS_IMAGE:
            found = image(node.attributes, self._destinations)
            if found and self._code is None:
                self._inline.append(found)
                self._put(IMAGE, (), SPACE)

    def _flush(self, glue: str = NO_GLUE) -> None:
        """Ends a block of text; `glue` says how the next one of the same paragraph follows it."""
        if self._code is not None:
            glue = LINE
        if self._raw:
            raw = "".join(self._raw)
            if lines := lines_of(raw):
                self._put(self._heading or PARAGRAPH, lines, glue, raw)
                return
            self._inline.clear()
            self._raw.clear()
            for mark in self._marks:
                mark.start = 0
        self._glue = _following(self._glue, glue)

    def _put(self, kind: int, lines: tuple[str, ...], glue: str, raw: str = "") -> None:
        code = self._code
        for mark in reversed(self._marks):
            if code is None:
                self._wrap(mark)
            mark.start = 0
        text = "".join(self._inline)
        self._inline.clear()
        self._raw.clear()
        if code is not None:
            kind, text = CODE, clean(text)
        else:  # most blocks have no marks
            text = collapsed(" ".join(lines) if text == raw else clean(text))
            if kind in (PARAGRAPH, IMAGE):
                text = escaped_start(text)
        cell = self._cells[-1] if self._cells else None
        if cell is not None and kind not in (PARAGRAPH, IMAGE):
            cell.table.is_layout = True
        self._blocks.append(Block(text, kind, lines, self._container, cell, self._glue, code or ""))
        self._glue = glue


def _following(before: str, glue: str) -> str:
    """Returns how the next block follows the last one, when there was nothing in between."""
    if glue == SPACE:
        return before
    if glue == BREAK:  # two in a row end a paragraph
        return BREAK if before == SPACE else NO_GLUE
    return before if glue == LINE else NO_GLUE
