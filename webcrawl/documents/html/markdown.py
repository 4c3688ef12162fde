"""The Markdown of an HTML page: CommonMark (https://spec.commonmark.org/) with the tables of GitHub Flavored Markdown.

The page is walked once. Blocks whose text is not in the main part are left out afterwards.
"""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.main_text import MainPart
from webcrawl.documents.html.markdown_blocks import rendered
from webcrawl.documents.html.markdown_elements import IN_MAIN_PART, IN_PAGE, MEANINGFUL
from webcrawl.documents.html.markdown_walk import Walk


def markdown(tree: LexborHTMLParser, part: MainPart | None, base: str) -> str:
    """Returns the Markdown of the main part of a page, or of the whole page if `part` is None.

    `base` is the URL to which links are joined. The words are those of the text and of `alt`.
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
