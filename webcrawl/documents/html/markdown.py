"""The Markdown of an HTML page: CommonMark (https://spec.commonmark.org/) with the tables of GitHub Flavored Markdown.

The page is walked once. Blocks that are not in the main part are left out afterwards: its text, not its tree, says
which ones they are.
"""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.markdown_blocks import PARAGRAPH, Block, rendered
from webcrawl.documents.html.markdown_elements import IN_MAIN_PART, IN_PAGE, MEANINGFUL
from webcrawl.documents.html.markdown_parts import keep_main_part, outside
from webcrawl.documents.html.markdown_walk import Walk
from webcrawl.documents.html.text_lines import lines_of


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
        return rendered(Walk(base).blocks(body, IN_PAGE))
    blocks = Walk(base).blocks(outside(around or body, MEANINGFUL), IN_MAIN_PART)
    if not keep_main_part(blocks, main_text):
        blocks = [Block(line, PARAGRAPH, (line,)) for line in lines_of(main_text)]
    return rendered(blocks)
