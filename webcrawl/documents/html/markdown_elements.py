"""How the elements of a page are treated in Markdown, by Lexbor's tag ids, and what their attributes say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.text import HIDDEN, INLINE_IDS, tag_ids

# From IS_BLOCK on they are blocks. Blocks after IS_BLOCK change the Markdown of their content.
(
    IS_NEUTRAL,
    IS_MARK,
    IS_HIDDEN,
    IS_BREAK,
    IS_IMAGE,
    IS_MATH,
    IS_BLOCK,
    IS_HEADING,
    IS_CODE,
    IS_LIST,
    IS_ITEM,
    IS_QUOTE,
    IS_TABLE,
    IS_ROW,
    IS_CELL,
) = range(15)

CODE_MARK, LINK_MARK = "`", "["
"""Kinds of inline elements. The other kinds are the marks around their text, such as `**`."""
SUPERSCRIPT, SUBSCRIPT = "^", "v"
"""Kinds without a mark: their digits and signs become superscripts or subscripts of Unicode, if all have one."""

MARKS = {
    number: mark
    for names, mark in (
        ("b strong", "**"),
        ("em i", "*"),
        ("del s strike", "~~"),
        ("code kbd samp tt", CODE_MARK),
        ("a", LINK_MARK),
        ("sup", SUPERSCRIPT),
        ("sub", SUBSCRIPT),
    )
    for number in tag_ids(names)
}
HEADINGS = {number: level for level in range(1, 7) for number in tag_ids(f"h{level}")}
(ORDERED,), (HEADER_CELL,), (PARAGRAPH_TAG,), (BUTTON,) = map(tag_ids, ("ol", "th", "p", "button"))

IN_PAGE = (
    dict.fromkeys(INLINE_IDS, IS_NEUTRAL)
    | dict.fromkeys(MARKS, IS_MARK)
    | dict.fromkeys(HEADINGS, IS_HEADING)
    | {
        number: treatment
        for names, treatment in (
            ("br", IS_BREAK),
            ("img", IS_IMAGE),
            ("math", IS_MATH),
            ("pre", IS_CODE),
            ("dir dl menu ol ul", IS_LIST),
            ("dd li", IS_ITEM),
            ("blockquote", IS_QUOTE),
            ("table", IS_TABLE),
            ("tr", IS_ROW),
            ("td th", IS_CELL),
        )
        for number in tag_ids(names)
    }
    | dict.fromkeys(HIDDEN, IS_HIDDEN)
)
"""How elements are treated in a page. Elements without an entry are IS_BLOCK."""
IN_MAIN_PART = IN_PAGE | dict.fromkeys(
    tag_ids("nav aside footer button select textarea dialog menu"), IS_HIDDEN
)
"""How elements are treated in the main part."""
MEANINGFUL = frozenset(
    [number for number, treatment in IN_PAGE.items() if treatment == IS_MARK or treatment > IS_BLOCK]
)
"""The elements that change the Markdown of their content."""


def only_text_node(node: LexborNode) -> LexborNode | None:
    """Returns the only text node in an element, whose first child is `node`; None if the element has other content."""
    while node.next is None:
        if node.text_content is not None:
            return node
        child = node.first_child
        if child is None or IN_PAGE.get(node.tag_id) != IS_NEUTRAL:
            return None
        node = child
    return None


_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight(?:-source)?)-([\w+#.-]{1,30})(?:\s|$)")
_NO_LANGUAGES = frozenset({"default", "none", "text", "source", "plaintext"})


def language_of(node: LexborNode) -> str:
    """Returns the language that a class of a <pre>, of its <code> or of an element around it names, or ""."""
    for element in _candidates(node):
        match = _LANGUAGE.search((element.attributes.get("class") or "")[:200])
        if match and match[1] not in _NO_LANGUAGES:
            return match[1].lower()
    return ""


def _candidates(node: LexborNode) -> Iterator[LexborNode]:
    yield node
    if (child := node.first_child) is not None and child.tag == "code":
        yield child
    for _ in range(2):
        if node.parent is None:
            return
        node = node.parent
        yield node


def number_of(written: str | None, least: int, most: int) -> int:
    """Returns the number in an attribute, within bounds; `least` if it is no number."""
    number = whole_number(written, most)
    return least if number is None else max(least, number)


def whole_number(written: str | None, most: int) -> int | None:
    """Returns the number in an attribute, at most `most`; None if it is no number."""
    text = (written or "").strip()
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return min(int(text), most) if is_number else None
