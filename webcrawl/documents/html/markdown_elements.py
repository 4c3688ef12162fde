"""How the elements of a page are treated in Markdown, by Lexbor's numbers of their names."""

from __future__ import annotations

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.markdown_inline import CODE_MARK, LINK_MARK, SUBSCRIPT, SUPERSCRIPT
from webcrawl.documents.html.text import HIDDEN, INLINE_IDS, tag_ids

# Those from IS_BLOCK on are blocks; those after it mean something.
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
(ORDERED,), (HEADER_CELL,), (PARAGRAPH_TAG,) = map(tag_ids, ("ol", "th", "p"))

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
"""How elements are treated in a page; those that are not named are IS_BLOCK."""
IN_MAIN_PART = IN_PAGE | dict.fromkeys(
    tag_ids("nav aside footer button select textarea dialog menu"), IS_HIDDEN
)
"""How they are treated in the main part."""
MEANINGFUL = frozenset(
    [number for number, treatment in IN_PAGE.items() if treatment == IS_MARK or treatment > IS_BLOCK]
)
"""The elements that change the Markdown of what is in them."""


def only_text_node(node: LexborNode) -> LexborNode | None:
    """Returns the text node in an element whose first child is `node`; None if there is anything else in it."""
    while node.next is None:
        if node.text_content is not None:
            return node
        child = node.first_child
        if child is None or IN_PAGE.get(node.tag_id) != IS_NEUTRAL:
            return None
        node = child
    return None
