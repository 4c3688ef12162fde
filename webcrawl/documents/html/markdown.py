"""The Markdown of an HTML page: CommonMark (https://spec.commonmark.org/) with the tables of GitHub Flavored Markdown.

The page is walked once. Blocks whose text is not in the main part are left out afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.main_text import MainPart
from webcrawl.documents.html.markdown_blocks import (
    BREAK,
    CODE,
    IMAGE,
    LINE,
    NO_GLUE,
    PARAGRAPH,
    SPACE,
    MarkdownBlock,
    rendered,
)
from webcrawl.documents.html.markdown_containers import BULLETS, Cell, Container, MarkdownTable
from webcrawl.documents.html.markdown_elements import (
    BUTTON,
    HEADER_CELL,
    HEADINGS,
    IN_MAIN_PART,
    IN_PAGE,
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
    IS_MATH,
    IS_NEUTRAL,
    IS_QUOTE,
    IS_ROW,
    IS_TABLE,
    MARKS,
    MEANINGFUL,
    ORDERED,
    PARAGRAPH_TAG,
    language_of,
    number_of,
    whole_number,
)
from webcrawl.documents.html.markdown_inline import (
    Destinations,
    Inline,
    Mark,
    image,
    is_special,
)
from webcrawl.documents.html.notices import edit_mark
from webcrawl.documents.html.text import INLINE, clean, formula, is_formula_again
from webcrawl.documents.mime.facts import MAX_TEXT
from webcrawl.urls.canonical import Base

_INSIDE_CODE = f":not({','.join(sorted(INLINE))})"
"""What a <pre> may have in it besides inline elements, of which only the text counts."""
_MAX_START = 999_999


def markdown(tree: LexborHTMLParser, part: MainPart | None, base: Base) -> str:
    """Returns the Markdown of the main part of a page, or of the whole page if `part` is None.

    `base` is that of the page. The words come from the text and from `alt`.
    """
    body = tree.body
    if body is None:
        return ""
    if part is None:
        return rendered(Walk(base).blocks(body, IN_PAGE))
    return rendered(Walk(base, part.text_nodes()).blocks(_root(part.element), IN_MAIN_PART))


def _root(element: LexborNode) -> LexborNode:
    """Returns where the walk begins: the parent of the outermost ancestor that changes the Markdown of an element.

    Such ancestors are lists, quotations, tables, links and emphasis. Without any, the walk begins at the element.
    """
    root = element
    ancestor: LexborNode | None = element
    while ancestor is not None:
        if ancestor.tag_id in MEANINGFUL:
            root = ancestor.parent or ancestor
        ancestor = ancestor.parent
    return root


class Walk:
    """Collects the blocks of a page while its elements begin and end."""

    def __init__(self, base: Base, text_nodes: Collection[int] | None = None) -> None:
        self._text_left = MAX_TEXT if text_nodes is not None else sys.maxsize
        """The characters of text that may follow; the text of the main part has the same limit."""
        self._is_last_kept = text_nodes is None
        """Whether the last block of text is kept; images after the block are kept with it."""
        self._blocks: list[MarkdownBlock] = []
        self._destinations = Destinations(base)
        self._inline = Inline(self._destinations, text_nodes)
        self._pieces, self._marks = self._inline.pieces, self._inline.marks
        self._glue = NO_GLUE
        self._heading = 0
        self._has_heading = False
        """Whether the open heading has text."""
        self._edit_mark: int | None = None
        """The `mem_id` of the "[edit]" of the open heading."""
        self._has_math = False
        """Whether there was a formula; what shows it again is left out."""
        self._code: str | None = None
        """The language of the open <pre>; "" for an unknown language, None outside of <pre>."""
        self._container: Container | None = None
        self._tables: list[MarkdownTable] = []
        self._cells: list[Cell | None] = []

    def blocks(self, root: LexborNode, treatments: Mapping[int, int]) -> list[MarkdownBlock]:
        """Returns the blocks of text and the images under a node. `treatments`: of elements, by tag id."""
        self._walk(root, treatments.get)
        self._flush()
        return self._blocks

    def _walk(self, root: LexborNode, treatment_of: Callable[[int, int], int]) -> None:
        pieces, inline, node = self._pieces, self._inline, root.first_child
        open_elements: list[tuple[LexborNode, int, Any]] = []
        while node is not None or open_elements:
            if node is None:
                node, treatment, before = open_elements.pop()
            elif (text := node.text_content) is not None:
                if pieces or not text.isspace() or self._code is not None:
                    pieces.append(text)
                    if not inline.is_kept:
                        inline.look_at(node)
                node = node.next
                continue
            else:
                treatment = treatment_of(tag := node.tag_id, IS_BLOCK)
                if self._heading:
                    if node.mem_id == self._edit_mark:
                        treatment = IS_HIDDEN
                    elif tag == BUTTON and self._heading > 1:  # it shows what is below the heading
                        treatment = IS_NEUTRAL
                if self._has_math and treatment == IS_NEUTRAL and is_formula_again(node):
                    treatment = IS_HIDDEN
                child, before = node.first_child if treatment != IS_HIDDEN else None, None
                if treatment >= IS_BLOCK:
                    before = self._begin(treatment, tag, node)
                    if treatment == IS_CODE and self._add_code(node):
                        child = None
                elif treatment == IS_MARK and child is not None:
                    before = inline.add(MARKS[tag], node, child, self._code, self._heading)
                    if before is None:
                        child = None
                elif treatment > IS_HIDDEN:
                    self._add_void(treatment, node)
                    child = None
                if child is not None and (text := child.text_content) is not None:  # as in most elements
                    if pieces or not text.isspace() or self._code is not None:
                        pieces.append(text)
                        if not inline.is_kept:
                            inline.look_at(child)
                    child = child.next
                if child is not None:
                    open_elements.append((node, treatment, before))
                    node = child
                    continue
            if treatment >= IS_BLOCK:
                self._end(treatment, before)
            elif before:
                inline.end(before)
            node = node.next

    def _add_code(self, node: LexborNode) -> bool:
        """Adds the text of a <pre> that has only inline elements; returns whether it was added."""
        if node.css_first(_INSIDE_CODE) is not None:
            return False
        self._pieces.append(node.text_lexbor() or "")
        for child in node.traverse(include_text=True):
            if self._inline.is_kept:
                break
            self._inline.look_at(child)
        return True

    def _begin(self, treatment: int, tag: int, node: LexborNode) -> Any:
        """Begins a block; returns the state that `_end` restores."""
        if self._pieces or self._glue:
            self._flush()
        if self._heading and self._has_heading and (treatment > IS_HEADING or tag == PARAGRAPH_TAG):
            self._heading = 0  # the heading was not closed
        if treatment == IS_BLOCK:
            return None
        if treatment == IS_HEADING:
            mark = edit_mark(node)
            self._edit_mark = None if mark is None else mark.mem_id
            before, self._heading, self._has_heading = self._heading, self._heading or HEADINGS[tag], False
            return before
        if treatment == IS_CODE:
            around, self._code = self._code, self._code or language_of(node)
            return around
        if treatment <= IS_QUOTE:
            parent = self._container
            if treatment == IS_ITEM:
                self._container = Container.item(
                    parent, lambda: whole_number(node.attributes.get("value"), _MAX_START)
                )
            elif treatment == IS_QUOTE:
                self._container = Container.quote(parent)
            else:
                start = whole_number(node.attributes.get("start") or "1", _MAX_START)
                self._container = Container.listed(parent, start if tag == ORDERED else BULLETS)
            return parent
        if treatment == IS_TABLE:
            for table in self._tables[-1:]:
                table.is_layout = True
            self._tables.append(MarkdownTable(self._container))
            self._cells.append(None)
        elif self._tables:
            self._begin_in_table(treatment, tag, node)
        return None

    def _end(self, treatment: int, before: Any) -> None:
        """Ends a block. `before` is what `_begin` returned."""
        if self._pieces or self._glue:
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
        """Adds a line break, an image, or a formula."""
        if treatment == IS_MATH:
            self._has_math = True
            self._pieces.append(formula(node))
            if not self._inline.is_kept:
                self._inline.look_at(node)
            return
        self._flush(BREAK if treatment == IS_BREAK else SPACE)
        if treatment == IS_IMAGE:
            text = image(node.attributes, self._destinations)
            if text and self._code is None:
                self._pieces.append(text)
                self._put(IMAGE, text, SPACE)

    def _flush(self, glue: str = NO_GLUE) -> None:
        """Ends a block of text. `glue` is put between it and the next block of the same paragraph."""
        if self._code is not None:
            glue = LINE
        if pieces := self._pieces:
            text = clean(pieces[0] if len(pieces) == 1 else "".join(pieces))
            if text and not text.isspace():
                self._put(self._heading or PARAGRAPH, text, glue)
                return
            self._inline.clear()
        self._glue = _following(self._glue, glue)

    def _put(self, kind: int, text: str, glue: str) -> None:
        pieces: list[str] | tuple[()] = ()
        marks: list[Mark] | tuple[()] = ()
        code = self._code
        if code is not None:
            kind = CODE
        elif self._marks:
            pieces, marks = self._pieces.copy(), self._inline.ended()
        elif kind != IMAGE and is_special(text):  # most blocks have neither marks nor signs
            pieces = self._pieces.copy()
        if kind != IMAGE:
            self._is_last_kept = self._inline.is_kept and self._text_left > 0
            if self._is_last_kept:
                self._text_left -= len(text)
        self._inline.clear()
        self._has_heading = True
        cell = self._cells[-1] if self._cells else None
        if cell is not None and kind not in (PARAGRAPH, IMAGE):
            cell.table.is_layout = True
        block = MarkdownBlock(
            text, kind, pieces, marks, self._container, cell, self._glue, code or "", self._is_last_kept
        )
        self._blocks.append(block)
        self._glue = glue


def _following(before: str, glue: str) -> str:
    """Returns the glue after an empty block, which had the glue `before` in front and `glue` behind."""
    if glue == SPACE:
        return before
    if glue == BREAK:  # two line breaks in a row end a paragraph
        return BREAK if before == SPACE else NO_GLUE
    return before if glue == LINE else NO_GLUE
