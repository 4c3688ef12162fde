"""The sections of an HTML page with the amounts of text and of links in them, found in one walk.

What is not text of the page is left out on the way: lists of links, dates, tags, captions, texts about the author.
Parts whose names say that they are beside the text are kept apart, because such names may be wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TypeAlias

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.code_links import MAX_LINE, is_about_code
from webcrawl.documents.html.data_tables import TABLE_PARTS, DataTables, is_table
from webcrawl.documents.html.names import (
    AUTHOR,
    BESIDE,
    COMMENTS,
    GATED,
    INVISIBLE,
    NOTE,
    TEXT,
    is_article_body,
    kind_of,
    names_main_part,
)
from webcrawl.documents.html.notices import (
    MAX_COUNTERS,
    MAX_DATE,
    MAX_NOTICE,
    NOTICE_DEPTH,
    edit_mark,
    has_counters,
    is_cookie_notice,
    is_date,
    is_note,
    remove_mark,
)
from webcrawl.documents.html.page_text import PageText, Section
from webcrawl.documents.html.text import (
    BLOCK,
    HIDDEN,
    INLINE_IDS,
    TEXT_NODE,
    formula,
    is_formula_again,
    is_permalink,
    tag_ids,
)
from webcrawl.documents.link_elements import Attributes

Counts: TypeAlias = tuple[int, int, int]
"""Numbers of characters: of the text, of its links, of its prose."""
_NOTHING: Counts = (0, 0, 0)
Lead: TypeAlias = tuple[int, Counts, int]
"""A heading or label: where it starts, the counts before it, and the size after it."""
_NO_LEAD: Lead = (0, _NOTHING, -1)
ASIDE = HIDDEN | tag_ids("aside button dialog footer menu nav select textarea")
"""Elements that are never part of the main text."""

# How elements are treated, by tag id. Elements from _IS_PARAGRAPH on are examined when they end.
(
    _IS_INLINE,
    _IS_CODE,
    _IS_LINK,
    _IS_BLOCK,
    _IS_PARAGRAPH,
    _IS_ITEM,
    _IS_FORM,
    _IS_CAPTION,
    _IS_HEADING,
    _IS_TITLE,
    _IS_SECTION,
    _IS_ASIDE,
    _IS_HIDDEN,
) = range(13)
_ITEMS, _HEADING_IDS = tag_ids("li tr dd dt"), tag_ids("h2 h3 h4 h5 h6")
_TREATMENT_OF = (
    dict.fromkeys(INLINE_IDS, _IS_INLINE)
    | dict.fromkeys(tag_ids("a"), _IS_LINK)
    | dict.fromkeys(tag_ids("code tt"), _IS_CODE)
    | dict.fromkeys(tag_ids("p"), _IS_PARAGRAPH)
    | dict.fromkeys(_ITEMS, _IS_ITEM)
    | dict.fromkeys(tag_ids("form"), _IS_FORM)
    | dict.fromkeys(tag_ids("figcaption"), _IS_CAPTION)
    | dict.fromkeys(_HEADING_IDS, _IS_HEADING)
    | dict.fromkeys(tag_ids("h1"), _IS_TITLE)
    | dict.fromkeys(
        tag_ids("article blockquote center div dl fieldset figure header main ol section table tbody td ul"),
        _IS_SECTION,
    )
    | dict.fromkeys(ASIDE | tag_ids("audio object svg video"), _IS_ASIDE)
    | dict.fromkeys(HIDDEN, _IS_HIDDEN)
)
# A list takes less time than a dictionary; elements without a number in it are blocks.
_TREATMENT = [_TREATMENT_OF.get(tag, _IS_BLOCK) for tag in range(max(_TREATMENT_OF) + 1)]
_KNOWN = len(_TREATMENT)
(MAIN,), (ARTICLE,), (_HEADER,), (MATH,) = map(tag_ids, ("main", "article", "header", "math"))
(_DIV,), (_PARAGRAPH,), (_BUTTON,) = map(tag_ids, ("div", "p", "button"))
_LISTS = tag_ids("dl ol table ul")
_WITH_ITEMS = tag_ids("dl menu ol table tbody tfoot thead ul")

# A block of so many characters that are not links is prose.
_PROSE = 40
# So is a paragraph of so many characters without links.
_SHORT_PROSE = 20
# Longer captions may belong to the text. Longer headings are paragraphs.
_MAX_CAPTION, _MAX_HEADING = 250, 80
_DATED = tag_ids("p div")
# The name of captions among those that may be wrong: in a gallery they are the text.
_CAPTION = "<figcaption>"
# Paragraphs and items with more characters and without attributes are most likely kept.
_PLAIN_LEAST = [
    {_IS_PARAGRAPH: MAX_DATE, _IS_ITEM: 0}.get(kind, sys.maxsize) for kind in range(_IS_HIDDEN + 1)
]
# Links in code count as text: they are names of what the page explains, and no menu is code. Less than any nesting.
_LINKS_IN_CODE = -1_000_000
# Inline elements around a text that are looked at together.
_NESTED = 3
# A block of no more characters that ends no sentence is the label of a section of links right after it.
_MAX_LABEL, _SENTENCE_ENDS = 40, '.!?…"”'
# Sections with a larger share of links are lists of links; paragraphs, lists, and what is named as a main part, too.
_MAX_LINKED, _MAX_LINKED_LIST = 0.5, 0.7
# An offer to subscribe has links or controls, and less prose.
_CONTROLS, _MUCH_TEXT = "button,form,input,select", 500
_ARTICLES = "article,main,[itemprop~=articleBody]"
# Elements that may be notices about cookies, or count what the author of a post did.
_NOTICES, _COUNTERS = tag_ids("div section"), tag_ids("div dl section td ul")
# They have no more pieces; lists of links that were left out still have theirs.
_MOST_PIECES = 80
# A section is kept if so much prose in it is in parts that are beside the text, because their names may be wrong.
_MUCH_PROSE = 100


def read_sections(root: LexborNode, wrong_names: Collection[str] = ()) -> PageText:
    """Returns the text under a node and its sections, in one pass with a stack of its own.

    Elements with a class attribute in `wrong_names` count as text, see `PageText.wrong_names`.
    """
    reader = _Reader(wrong_names)
    size, linked, prose = reader.walk(root)
    reader.page.sections.append(Section(0, len(reader.page.pieces), size, linked, prose, root, {}))
    return reader.page


def _prose(size: int, linked: int) -> int:
    """Returns how many characters of a block are prose."""
    return size - linked if size - linked >= _PROSE and 3 * linked <= size else 0


class _Reader:
    """Walks through a tree, and decides at the end of each element whether it is kept."""

    def __init__(self, wrong_names: Collection[str]) -> None:
        self.page = PageText()
        self._wrong_names = wrong_names
        self._open: list[tuple[LexborNode, int, int, int, int, int, int]] = []
        self._tables = DataTables()
        self._main = -1  # where the last `main` starts
        self._heading = self._label = _NO_LEAD
        self._label_tag = _DIV

    def walk(self, root: LexborNode) -> Counts:
        """Walks through all that is under a node, and returns its counts.

        The function is long because Python's calls take longer than its steps: a page has thousands of them. Each node
        begins in the inner loop, which ends at the end of an element that has content; that is handled below it. The
        text that counts since the last block began or ended is `size - block_size` characters long.
        """
        pieces, add, blocks = self.page.pieces, self.page.pieces.append, self.page.blocks
        open_elements, lists = self._open, self.page.link_lists
        treatment, known, text_node = _TREATMENT, _KNOWN, TEXT_NODE
        is_code, is_link, is_block = _IS_CODE, _IS_LINK, _IS_BLOCK  # quicker than globals
        size = linked = prose = block_size = block_linked = links = 0
        has_math = False
        node: LexborNode | None = root.first_child
        alone: LexborNode | None
        text: str | None
        while True:
            while node is not None:
                if (tag := node.tag_id) == text_node or tag == MATH:
                    if tag != text_node:
                        has_math = True
                    add(text := node.text_content or formula(node))
                    if length := len(text.strip()):
                        if size == block_size:
                            blocks.append((len(pieces) - 1, node))
                        size += length
                        if links > 0:
                            linked += length
                    node = node.next
                    continue
                kind = treatment[tag] if tag < known else is_block
                if kind >= is_block:
                    if kind == _IS_HIDDEN:
                        node = node.next
                        continue
                    if size - block_size >= _PROSE:
                        prose += _prose(size - block_size, linked - block_linked)
                    block_size, block_linked = size, linked
                    add(BLOCK)
                    if kind == _IS_ASIDE and tag == _BUTTON and _opens_section(node):
                        kind = is_block
                    if kind == _IS_ASIDE or (leaf := node.first_child) is None:
                        node = node.next
                        continue
                    if leaf.next is None and (text := leaf.text_content) is not None:  # a text alone
                        start, size_before, linked_before, prose_before = len(pieces), size, linked, prose
                        add(text)
                        if length := len(text.strip()):
                            blocks.append((start, leaf))
                            size += length
                            if links > 0:
                                linked += length
                        break
                    inside = links
                else:
                    if (leaf := node.first_child) is None or has_math and is_formula_again(node):
                        node = node.next
                        continue
                    inside = links
                    if kind == is_link:
                        # without an address it is a mark; one that is not closed has the rest of the page in it
                        if (
                            leaf.next is None
                            and len(leaf.text_content or "") < _PROSE
                            and leaf.tag_id == text_node
                            or "href" in node.attributes
                        ):
                            inside += 1
                    elif kind == is_code and not links:
                        inside = _LINKS_IN_CODE
                    if leaf.next is None:  # as in most inline elements
                        alone = leaf
                        within, deeper = inside, _NESTED
                        while (text := alone.text_content) is None and deeper:  # `<code><span>text`
                            inner = treatment[tag] if (tag := alone.tag_id) < known else is_block
                            if (
                                inner > is_code
                                or (alone := alone.first_child) is None
                                or alone.next is not None
                            ):
                                break
                            if inner == is_code and not within:
                                within = _LINKS_IN_CODE
                            deeper -= 1
                        if text is not None:
                            length = len(text.strip())
                            if length != 1 or kind != is_link or not is_permalink(node, text):
                                add(text)
                                if length:
                                    if size == block_size:
                                        blocks.append((len(pieces) - 1, alone))
                                    size += length
                                    if within > 0:
                                        linked += length
                            node = node.next
                            continue
                open_elements.append((node, kind, len(pieces), size, linked, prose, links))
                links, node = inside, leaf
            else:
                if not open_elements:
                    return size, linked, prose
                node, kind, start, size_before, linked_before, prose_before, links = open_elements.pop()
            if kind >= is_block:
                if (length := size - block_size) >= _PROSE:
                    prose += _prose(length, linked - block_linked)
                elif length >= _SHORT_PROSE and kind == _IS_PARAGRAPH and linked == block_linked:
                    prose += length
                add(BLOCK)
                if kind >= _IS_PARAGRAPH:
                    if (
                        size - size_before > _PLAIN_LEAST[kind]
                        and (
                            linked - linked_before <= prose - prose_before
                            or kind == _IS_ITEM
                            and open_elements
                            and open_elements[-1][0].tag_id in _WITH_ITEMS
                        )
                        and not node.attributes
                    ):
                        pass  # most paragraphs and items are kept, and need no look
                    elif size != size_before or lists and lists[-1].end > start:
                        size, linked, prose = self._end(
                            node,
                            kind,
                            start,
                            (size_before, linked_before, prose_before),
                            (size, linked, prose),
                        )
                block_size, block_linked = size, linked
            elif kind == is_link and size == size_before + 1 and is_permalink(node, pieces[-1]):
                size, linked, prose = size_before, linked_before, prose_before
                pieces.pop()
                if size == block_size:
                    blocks.pop()
            node = node.next

    def _end(self, node: LexborNode, kind: int, start: int, before: Counts, now: Counts) -> Counts:
        """Returns the counts after an element: `now`, or `before` if the element is left out."""
        if _IS_HEADING <= kind <= _IS_TITLE:
            return self._end_heading(node, kind, start, before, now)
        page, size, linked = self.page, now[0] - before[0], now[1] - before[1]
        attributes = node.attributes
        what = kind_of(attributes) if attributes else TEXT
        if what and self._wrong_names and attributes.get("class") in self._wrong_names:
            what = TEXT
        if size <= 0:  # all of it was left out
            if (what or kind == _IS_FORM) and not page.prose_beside(start):
                page.cut(start, start)
            return now
        prose = now[2] - before[2]
        if kind <= _IS_ITEM and not what and "role" not in attributes:
            if linked <= prose and (size > MAX_DATE or kind == _IS_ITEM):
                return now  # as most paragraphs and items
            if kind == _IS_ITEM and _is_in_list(node):
                return now  # as the entries of tables of contents
        if prose and TEXT < what < COMMENTS and (names := attributes.get("class")):
            page.add_named(names, prose, is_paragraph=node.tag_id == _PARAGRAPH)
        if prose and kind == _IS_CAPTION:
            page.add_named(_CAPTION, prose, is_paragraph=True)
        what = self._judge(node, kind, what, attributes, start, size, prose)
        is_main = start <= self._main  # or contains it
        if what == GATED:
            what = TEXT if is_main or self._has_text(node, start, linked, prose) else BESIDE
        inner = page.prose_beside(start) if page.beside else 0
        if what >= BESIDE and (is_main or prose + inner >= _MUCH_PROSE):
            page.put_beside(Section(start, len(page.pieces), size, linked, prose, node, attributes, what))
            return before
        if what >= BESIDE:
            return self._leave_out(start, before, kind)
        if not is_main and inner < _MUCH_PROSE:
            is_linked = linked > prose and linked > _MAX_LINKED * size
            if is_linked and self._is_list_of_links(node, what, start, size, linked):
                part = Section(start, len(page.pieces), size, linked, prose, node, attributes)
                return self._leave_out(start, before, kind, part if what == TEXT else None)
            is_caption = kind == _IS_CAPTION and size < _MAX_CAPTION and _CAPTION not in self._wrong_names
            if is_caption or what and is_note(what, size):
                return self._leave_out(start, before, kind)
        tag = node.tag_id
        if kind == _IS_SECTION:
            if (tag in TABLE_PARTS or linked and tag == _DIV) and self._is_data(node, attributes):
                return now[0], before[1], now[2]
            if prose or is_main or tag == ARTICLE:
                page.sections.append(Section(start, len(page.pieces), size, linked, prose, node, attributes))
        if size <= _MAX_LABEL and not linked and tag in _DATED:
            self._label, self._label_tag = (start, before, now[0]), tag
        return now

    def _judge(
        self,
        node: LexborNode,
        kind: int,
        what: int,
        attributes: Attributes,
        start: int,
        size: int,
        prose: int,
    ) -> int:
        """Returns what an element is, by its tag and text too; `what`: by its attributes alone, see `kind_of`."""
        page, tag = self.page, node.tag_id
        if what == TEXT and size <= MAX_DATE and tag in _DATED and is_date(page.pieces[start : start + 10]):
            return NOTE
        if kind == _IS_FORM or tag == _HEADER and not self._open:  # directly in the body
            return max(what, BESIDE)
        if (tag == MAIN or attributes.get("role") == "main") and what != INVISIBLE:
            self._main = start
            return TEXT
        if prose:
            if tag in _NOTICES and size <= MAX_NOTICE and len(self._open) <= NOTICE_DEPTH:
                text = self._short_text(start)
                return max(what, BESIDE) if text and is_cookie_notice(node, text) else what
        elif tag in _COUNTERS and size <= MAX_COUNTERS:
            has_two_blocks = len(page.blocks) > 1 and page.blocks[-2][0] >= start
            if has_two_blocks and (text := self._short_text(start)) and has_counters(node, text):
                return max(what, AUTHOR)
        return what

    def _short_text(self, start: int) -> str:
        """Returns the text from a piece on, or nothing if it has many pieces."""
        pieces = self.page.pieces
        return "".join(pieces[start:]) if len(pieces) - start <= _MOST_PIECES else ""

    def _end_heading(self, node: LexborNode, kind: int, start: int, before: Counts, now: Counts) -> Counts:
        if now[1] > before[1] and (mark := edit_mark(node)) is not None:
            size, linked = remove_mark(mark, self.page.pieces, start)
            now = now[0] - size, now[1] - linked, now[2]
        if kind == _IS_TITLE:
            self.page.titles.append((start, len(self.page.pieces)))
        elif now[0] - before[0] <= _MAX_HEADING:
            self.page.headings.append((start, len(self.page.pieces)))
            self._heading = start, before, now[0]
        return now

    def _is_data(self, node: LexborNode, attributes: Attributes) -> bool:
        """Returns whether an element is a table of data, or a part of it; links in it count as text."""
        return is_table(attributes) if node.tag_id == _DIV else self._tables.has(node)

    def _is_list_of_links(self, node: LexborNode, what: int, start: int, size: int, linked: int) -> bool:
        """Returns whether an element whose text is mostly links is a list of links, and not data."""
        tag = node.tag_id
        if tag in _ITEMS and _is_in_list(node):
            return False  # the list as a whole may be a list of links
        if what == TEXT and self._tables.has(node):
            return False
        is_line = what == TEXT and size - linked > 0 and size <= MAX_LINE and not _is_listed(node)
        if is_line and is_about_code(node, "".join(self.page.pieces[start:]), linked):
            return False
        if linked > _MAX_LINKED_LIST * size:
            return True
        return not (tag == _PARAGRAPH or _is_listed(node) or names_main_part(node.attributes))

    def _has_text(self, node: LexborNode, start: int, linked: int, prose: int) -> bool:
        """Returns whether a part of an article has its text, and does not only offer what is missing."""
        if not _is_in_article(node):
            return False
        offers = (
            node.css_first(_CONTROLS) is not None or bool(self.page.links) and self.page.links[-1][0] >= start
        )
        if node.tag_id == _PARAGRAPH:
            return not linked and not offers or prose >= _MUCH_PROSE
        return prose >= (_MUCH_TEXT if offers else 1)

    def _leave_out(self, start: int, before: Counts, kind: int, links: Section | None = None) -> Counts:
        """Forgets a part of the page, and a heading right before it.

        `links` is the part if it is a section of links; then a label is forgotten too. The pieces of lists remain.
        """
        page, lead = self.page, start
        if kind in (_IS_ITEM, _IS_SECTION):
            if self._is_right_before(self._heading, before):
                lead, before, _ = self._heading
            if links is not None and self._is_right_before(self._label, before) and self._has_label(lead):
                lead, before, _ = self._label
        if lead <= self._main:
            self._main = -1
        inner_links = page.take_links(lead)
        if links is not None:
            page.links.append((lead, links.size + inner_links))
        if links is not None and _is_listed(links.node):
            links.start, links.list_start = lead, start
            page.link_lists.append(links)
        else:
            page.cut(lead, start)
        if lead <= self._heading[0]:
            self._heading = _NO_LEAD
        if lead <= self._label[0]:
            self._label = _NO_LEAD
        return before

    def _is_right_before(self, lead: Lead, before: Counts) -> bool:
        """Returns whether no text follows a heading or label, nor a part beside the text, which has no size."""
        return lead[2] == before[0] and not self.page.prose_beside(lead[0])

    def _has_label(self, end: int) -> bool:
        """Returns whether the last short block, which ends at a piece, is a label, and no sentence."""
        last = "".join(self.page.pieces[self._label[0] : end]).rstrip()[-1:]
        return last == ":" or self._label_tag == _DIV and last not in _SENTENCE_ENDS


def _opens_section(button: LexborNode) -> bool:
    """Returns whether a button is the text of a heading, and shows what is below it."""
    around = button.parent
    return around is not None and around.tag_id in _HEADING_IDS


def _is_in_article(node: LexborNode) -> bool:
    """Returns whether an element is in what the page marks as an article or its main part, or has that in it."""
    around: LexborNode | None = node
    while around is not None:
        attributes = around.attributes
        if around.tag_id in (ARTICLE, MAIN) or is_article_body(attributes) or names_main_part(attributes):
            return True
        around = around.parent
    return node.css_first(_ARTICLES) is not None


def _is_in_list(item: LexborNode) -> bool:
    """Returns whether an item is a child of a list or of a table."""
    around = item.parent
    return around is not None and around.tag_id in _WITH_ITEMS


def _is_listed(node: LexborNode) -> bool:
    """Returns whether an element is a list or a table."""
    return node.tag_id in _LISTS or node.tag_id == _DIV and is_table(node.attributes)
