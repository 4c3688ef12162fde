"""The Markdown of an HTML page: CommonMark (https://spec.commonmark.org/) with the tables of GitHub Flavored Markdown.

The page is walked once, with a stack of its own, so no nesting is too deep. Blocks that are not in the main part are
left out afterwards: its text, not its tree, says which ones they are.
"""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.markdown_attributes import language_of, number_of
from webcrawl.documents.html.markdown_blocks import (
    CODE,
    IMAGE,
    PARAGRAPH,
    Block,
    Glue,
    escaped_start,
    rendered,
)
from webcrawl.documents.html.markdown_containers import Container
from webcrawl.documents.html.markdown_inline import (
    CODE_MARK,
    LINK_MARK,
    Destinations,
    Mark,
    escaped,
    image,
    wrapped,
)
from webcrawl.documents.html.markdown_parts import keep_main_part, outside
from webcrawl.documents.html.markdown_tables import Cell, Table
from webcrawl.documents.html.text import HIDDEN, INLINE, clean, tag_ids
from webcrawl.documents.html.text_lines import lines_of

_SOME_LEFT_OUT = HIDDEN | tag_ids("nav aside footer button select textarea dialog menu")
(_TEXT,) = {LexborHTMLParser("<body>text").body.first_child.tag_id}  # type: ignore[union-attr]
(_COMMENT,) = {LexborHTMLParser("<body><!--c-->").body.first_child.tag_id}  # type: ignore[union-attr]

_NEUTRAL = {_COMMENT} | tag_ids(
    "abbr acronym bdi bdo big cite data dfn font ins label mark nobr q rb small span sub sup time u var wbr"
)
_MARKS = {
    number: mark
    for names, mark in (
        ("b strong", "**"),
        ("em i", "*"),
        ("del s strike", "~~"),
        ("code kbd samp tt", CODE_MARK),
        ("a", LINK_MARK),
    )
    for number in tag_ids(names)
}
_HEADINGS = {number: level for level in range(1, 7) for number in tag_ids(f"h{level}")}
_ITEMS = tag_ids("li dd")
_CELLS = tag_ids("td th")
((_PRE,), (_OL,), (_UL,), (_DL,), (_QUOTE,), (_TABLE,), (_TR,), (_TH,), (_BR,), (_IMG,)) = map(
    tag_ids, ["pre", "ol", "ul", "dl", "blockquote", "table", "tr", "th", "br", "img"]
)
_VOID = frozenset({_BR, _IMG})
_LISTS = {_OL, _UL, _DL} | tag_ids("menu dir")
_SPECIAL_BLOCKS = frozenset({*_HEADINGS, *_ITEMS, *_CELLS, *_LISTS, _PRE, _QUOTE, _TABLE, _TR})
_MEANINGFUL = _SPECIAL_BLOCKS | _MARKS.keys()
_INSIDE_CODE = f":not({','.join(sorted(INLINE))})"
"""What has to be looked at in a <pre>; of all other elements, only the text counts."""
_MAX_START = 999_999


def markdown(
    tree: LexborHTMLParser, main_text: str | None, base: str, around: LexborNode | None = None
) -> str:
    """Returns the Markdown of the main part, whose text is `main_text`, or of the whole page if it is None.

    `base` is the URL to which links are joined. `around`: an element that contains the main part, by default the body.
    The words are those of the text and of `alt`.
    """
    body = tree.body
    if body is None:
        return ""
    if main_text is None:
        return rendered(_Walk(base).blocks(body, HIDDEN))
    blocks = _Walk(base).blocks(outside(around or body, _MEANINGFUL), _SOME_LEFT_OUT)
    if not keep_main_part(blocks, main_text):
        blocks = [Block(escaped_start(escaped(line)), PARAGRAPH, ()) for line in lines_of(main_text)]
    return rendered(blocks)


class _Walk:
    """Collects the blocks of a page while its elements begin and end."""

    def __init__(self, base: str) -> None:
        self._blocks: list[Block] = []
        self._destinations = Destinations(base)
        self._inline: list[str] = []
        self._raw: list[str] = []
        self._marks: list[Mark] = []
        self._glue = Glue.NONE
        self._heading = 0
        self._code: str | None = None
        """The language of the <pre> that is open."""
        self._container: Container | None = None
        self._tables: list[Table] = []
        self._cells: list[Cell | None] = []

    def blocks(self, root: LexborNode, hidden: frozenset[int]) -> list[Block]:
        """Returns the blocks of text under a node, and its images."""
        open_elements: list[tuple[LexborNode, int, object]] = []
        node = root.first_child
        while node is not None or open_elements:
            if node is None:
                node, tag, before = open_elements.pop()
                if tag not in _NEUTRAL:
                    self._end(tag, before)
            elif (tag := node.tag_id) == _TEXT:
                self._add(node.text_content or "")
            elif tag not in hidden:
                is_neutral = tag in _NEUTRAL
                before = None if is_neutral else self._begin(tag, node)
                if tag == _PRE and node.css_first(_INSIDE_CODE) is None:
                    self._add(node.text_lexbor() or "")
                    child = None
                elif (child := node.first_child) is not None and child.tag_id == _TEXT:
                    self._add(child.text_content or "")
                    child = child.next
                if child is not None:
                    open_elements.append((node, tag, before))
                    node = child
                    continue
                if not is_neutral:
                    self._end(tag, before)
            node = node.next
        self._flush()
        return self._blocks

    def _add(self, text: str) -> None:
        raw, is_code = self._raw, self._code is not None
        if not (raw or is_code) and text.isspace():
            return  # no paragraph begins with white space
        raw.append(text)
        if not is_code and not (self._marks and self._marks[-1].kind == CODE_MARK):
            text = escaped(text)
        self._inline.append(text)

    def _begin(self, tag: int, node: LexborNode) -> object:
        """Begins an element; returns what `_end` needs to know."""
        if (mark := _MARKS.get(tag)) is not None:
            return self._begin_mark(mark, node)
        if tag in _VOID:
            self._flush(Glue.BREAK if tag == _BR else Glue.SPACE)
            if tag == _IMG:
                self._add_image(node)
            return None
        if self._raw or self._glue is not Glue.NONE:
            self._flush()
        if tag not in _SPECIAL_BLOCKS:
            return None
        if tag in _HEADINGS:
            before, self._heading = self._heading, self._heading or _HEADINGS[tag]
            return before
        if tag == _PRE:
            was, self._code = self._code, self._code or language_of(node)
            return was
        if tag in _ITEMS or tag in _LISTS or tag == _QUOTE:
            return self._begin_container(tag, node)
        if tag == _TABLE:
            for table in self._tables[-1:]:
                table.is_layout = True
            self._tables.append(Table(self._container))
            self._cells.append(None)
        elif self._tables and (tag == _TR or tag in _CELLS):
            self._begin_in_table(tag, node)
        return None

    def _end(self, tag: int, before: object) -> None:
        if tag in _MARKS:
            if before:
                self._wrap(self._marks.pop())
            return
        if tag in _VOID:
            return
        if self._raw or self._glue is not Glue.NONE:
            self._flush()
        if tag not in _SPECIAL_BLOCKS:
            return
        if tag in _HEADINGS:
            assert isinstance(before, int)
            self._heading = before
        elif tag == _PRE:
            self._code = before if isinstance(before, str) else None
            self._glue = Glue.NONE
        elif isinstance(before, Container | _Outside):
            self._container = before if isinstance(before, Container) else None
        elif tag == _TABLE:
            self._tables.pop()
            self._cells.pop()
        elif tag in _CELLS and self._tables:
            self._cells[-1] = None

    def _begin_mark(self, kind: str, node: LexborNode) -> bool:
        """Returns whether the element counts: not within code, or within an element of the same kind."""
        if self._code is not None:
            return False
        for mark in self._marks:
            if mark.kind == kind or mark.kind == CODE_MARK:
                return False
        address = ""
        if kind == LINK_MARK:
            written = node.attributes.get("href") or ""
            address = self._destinations.of(written)
            if not address or (self._heading and written.startswith("#")):  # an anchor for the heading
                return False
        self._marks.append(Mark(kind, address, len(self._inline)))
        return True

    def _wrap(self, mark: Mark) -> None:
        """Ends an inline element, for now or for good."""
        inline, start = self._inline, mark.start
        inside = inline[start:]
        del inline[start:]
        wrapped(inline, mark.kind, inside, mark.address)
        mark.start = 0

    def _begin_container(self, tag: int, node: LexborNode) -> object:
        before: object = self._container or _OUTSIDE
        if tag in _LISTS:
            start = number_of(node.attributes.get("start"), 1, _MAX_START) if tag == _OL else 0
            self._container = Container.listed(self._container, start)
        elif tag == _QUOTE:
            self._container = Container.quote(self._container)
        else:
            self._container = Container.item(self._container)
        return before

    def _begin_in_table(self, tag: int, node: LexborNode) -> None:
        table = self._tables[-1]
        if tag == _TR:
            table.rows.append([])
            return
        attributes = node.attributes
        span = number_of(attributes.get("colspan"), 1, 20), number_of(attributes.get("rowspan"), 1, 100)
        self._cells[-1] = table.add(Cell(table, *span, is_header=tag == _TH))

    def _add_image(self, node: LexborNode) -> None:
        found = image(node.attributes, self._destinations)
        if found and self._code is None:
            self._inline.append(found)
            self._put(IMAGE, (), Glue.SPACE)

    def _flush(self, glue: Glue = Glue.NONE) -> None:
        """Ends a block of text; `glue` says how the next one of the same paragraph follows it."""
        if self._code is not None:
            glue = Glue.LINE
        lines = lines_of(raw := "".join(self._raw)) if self._raw else ()
        if lines:
            self._put(self._heading or PARAGRAPH, lines, glue, raw)
            return
        self._glue = _following(self._glue, glue)
        if self._raw:
            self._inline.clear()
            self._raw.clear()
            for mark in self._marks:
                mark.start = 0

    def _put(self, kind: int, lines: tuple[str, ...], glue: Glue, raw: str = "") -> None:
        for mark in reversed(self._marks):
            if self._code is None:
                self._wrap(mark)
            mark.start = 0
        text = "".join(self._inline)
        self._inline.clear()
        self._raw.clear()
        if self._code is not None:
            kind, text = CODE, clean(text)
        else:  # most blocks have no marks
            text = " ".join(lines if text == raw else clean(text).split())
            text = escaped_start(text) if kind in (IMAGE, PARAGRAPH) else text
        cell = self._cells[-1] if self._cells else None
        if cell is not None and kind not in (PARAGRAPH, IMAGE):
            cell.table.is_layout = True
        block = Block(text, kind, lines, self._container, cell, self._glue, self._code or "")
        self._blocks.append(block)
        self._glue = glue


class _Outside:
    """There is no container."""


_OUTSIDE = _Outside()


def _following(before: Glue, glue: Glue) -> Glue:
    """Returns how the next block follows the last one, when there was nothing in between."""
    if glue == Glue.SPACE:
        return before
    if glue == Glue.BREAK:  # two in a row end a paragraph
        return Glue.BREAK if before == Glue.SPACE else Glue.NONE
    return before if glue == Glue.LINE else Glue.NONE
