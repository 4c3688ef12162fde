"""The part of an HTML page's text that the page is about.

It is the smallest section that has nearly all prose of the part that the page marks (`main`, `article`,
`itemprop=articleBody`, class `entry-content`), or else most prose of the page, with the prose that leads to it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import nlargest
from operator import attrgetter, itemgetter
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.names import BESIDE, COMMENTS, is_article_body, kind_of, names_main_part
from webcrawl.documents.html.sections import ARTICLE, ASIDE, MAIN, MATH, PageText, Section, read_sections
from webcrawl.documents.html.text import BLOCK, TEXT_NODE, clean, walk

MIN_WORDS = 20
"""The fewest words of a main part, unless the page marks it: `main`, or its single `article`."""

# `main` counts if it has this share of the prose.
_MAIN_SHARE = 0.25
# A section that is named like a main part, or a single `article`, counts if it has this share.
_NAMED_SHARE = 0.6
# A section inside of a named section has all the text if it has this share of its prose,
_INSIDE_NAMED = 0.9
# and a section inside of a page or of `main`, if it has this share.
_INSIDE_PAGE = 0.8
# A part beside the text is text after all if it has so many times the prose and the text of the rest,
_MORE_PROSE, _MORE_TEXT = 6, 2
# and so many characters of prose.
_MUCH_PROSE = 100
_MOST_WRONG_NAMES = 16
_MOST_ARTICLES = 100
# So many characters of prose say little: a marked part with less, and more links than text, is a list of links.
_LITTLE_PROSE = 200
# Blocks of so many characters between the headline and the main part lead to it.
_LEAD = 80
# Shorter blocks at the end of a page without sections follow the text.
_SHORT = 40
# Chinese and Japanese do not separate words: two characters are about one word.
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_MAX_IDEOGRAPHS = 200


class MainPart(NamedTuple):
    """The main part of a page.

    text        with its white space
    element     contains all of the main part
    blocks      the first node with text of each block of text
    articles    elements that belong to the main part as a whole, without what is beside the text
    """

    text: str
    element: LexborNode
    blocks: Sequence[LexborNode] = ()
    articles: Sequence[LexborNode] = ()

    def text_nodes(self) -> set[int]:
        """Returns the `mem_id` of the nodes with text: at least the first node of each block."""
        nodes = {node.mem_id for node in self.blocks}
        for article in self.articles:
            nodes |= _text_nodes(article)
        return nodes


def main_text(tree: LexborHTMLParser) -> str | None:
    """Returns the text of the main part with its white space, or None if the page has none."""
    part = main_part(tree)
    return None if part is None else part.text


def main_part(tree: LexborHTMLParser) -> MainPart | None:
    """Returns the main part of a page, or None if it has none."""
    body = tree.body
    if body is None:
        return None
    page = read_sections(body)
    whole = page.sections[-1]
    root = _marked_part(page, whole) or whole
    if root is not whole and _is_list_of_links(page, root):
        return MainPart(clean("".join(walk(root.node, ASIDE))), root.node, articles=[root.node])
    text = _Text(page, root)
    section = _main_section(root, text.sections())
    start, lead, lead_blocks = text.lead(section)
    end = text.end(section)
    content, blocks = text.between(section.start, end), text.blocks(section.start, end)
    if section is whole:
        content, blocks = _without_last_lines(content, blocks)
    content = clean(lead + content)
    if word_count(content, MIN_WORDS) >= MIN_WORDS:
        return MainPart(content, page.around(start, section.end).node, lead_blocks + blocks)
    content = clean(text.between(root.start, root.end))
    if root is not whole or word_count(content, MIN_WORDS) >= MIN_WORDS:
        return MainPart(content, root.node, text.blocks(root.start, root.end))
    return _articles(body)


def _articles(body: LexborNode) -> MainPart | None:
    """Returns the text of the articles of a page that has no prose: lists of links, or None if there are none."""
    articles = [node for node in body.css("article")[:_MOST_ARTICLES] if not _is_beside(node)]
    text = clean(BLOCK.join(["".join(walk(node, ASIDE)) for node in articles]))
    if len(articles) == 1 and text.strip():
        return MainPart(text, articles[0], articles=articles)
    return MainPart(text, body, articles=articles) if word_count(text, MIN_WORDS) >= MIN_WORDS else None


def _text_nodes(root: LexborNode) -> set[int]:
    """Returns the `mem_id` of each text and formula under an element that is not in a part beside the text."""
    nodes = set[int]()
    elements = [root]
    for element in elements:
        node = element.first_child
        while node is not None:
            tag = node.tag_id
            if tag in (TEXT_NODE, MATH):
                nodes.add(node.mem_id)
            elif tag not in ASIDE:
                elements.append(node)
            node = node.next
    return nodes


def _is_beside(node: LexborNode) -> bool:
    """Returns whether a node is in another article, or in a part beside the text."""
    around = node.parent
    while around is not None:
        if around.tag_id == ARTICLE or around.tag_id in ASIDE or kind_of(around.attributes) >= BESIDE:
            return True
        around = around.parent
    return kind_of(node.attributes) >= BESIDE


def word_count(text: str, enough: int) -> int:
    """Returns the number of words of a text; counting may stop at `enough`."""
    count = len(text.split(None, enough)[:enough])
    return count if count >= enough or text.isascii() else count + _unseparated_words(text)


def _unseparated_words(text: str) -> int:
    """Returns about how many words no space separates; only small numbers matter."""
    return len(_IDEOGRAPH.findall(text[:_MAX_IDEOGRAPHS])) // 2


def _marked_part(page: PageText, whole: Section) -> Section | None:
    """Returns the first `main`, or the single `article`, if it has text and enough of the prose."""
    share = _MAIN_SHARE
    marked = [section for section in page.sections if _is_main(section)]
    if not marked:
        share = _NAMED_SHARE
        marked = [section for section in page.sections if section.node.tag_id == ARTICLE]
        if len(marked) > 1 or any(section.contains(marked[0]) for section in page.beside if marked):
            return None
    first = min(marked, key=attrgetter("start"), default=None)
    if first is None or not first.size:
        return None
    outside = whole.prose - first.prose
    return first if outside <= max(_LITTLE_PROSE, (1 - share) * whole.prose) else None


def _is_main(section: Section) -> bool:
    return section.node.tag_id == MAIN or section.attributes.get("role") == "main"


def _is_list_of_links(page: PageText, root: Section) -> bool:
    if root.prose >= _LITTLE_PROSE:
        return False
    return sum(size for start, size in page.links if root.start <= start <= root.end) > root.size


def _main_section(root: Section, sections: list[Section]) -> Section:
    """Returns the smallest section with the prose of the root, or of a section that is named like a main part."""
    named = [section for section in sections if section.prose >= _MUCH_PROSE and _is_named(section)]
    bodies = [section for section in named if is_article_body(section.attributes)]
    most = max([section.prose for section in named], default=0)
    part = root
    if len(bodies) == 1:
        part = bodies[0]
    elif most and most >= _NAMED_SHARE * root.prose:
        part = _smallest(named, _INSIDE_NAMED * most)
    if not part.prose:
        return part
    share = _INSIDE_NAMED if _is_named(part) else _INSIDE_PAGE
    return _smallest([section for section in sections if part.contains(section)], share * part.prose)


def _is_named(section: Section) -> bool:
    attributes = section.attributes
    return section.node.tag_id == ARTICLE or (
        bool(attributes) and (is_article_body(attributes) or names_main_part(attributes))
    )


def _smallest(sections: list[Section], prose: float) -> Section:
    """Returns the smallest section with so much prose; at least one must have it."""
    return min([section for section in sections if section.prose >= prose], key=attrgetter("length"))


def _without_last_lines(text: str, nodes: list[LexborNode]) -> tuple[str, list[LexborNode]]:
    """Removes short blocks at the end, which follow the text of a page that has no sections, with their nodes."""
    blocks = text.split(BLOCK)
    removed = 0
    while blocks and len(last := blocks[-1].strip()) < _SHORT:
        blocks.pop()
        removed += last != ""
    return BLOCK.join(blocks), nodes[: len(nodes) - removed]


class _Text:
    """The text of a part of a page without the parts beside the text.

    A part is not beside the text, whatever its name, if it has most prose of the page.
    """

    def __init__(self, page: PageText, root: Section) -> None:
        self._page = page
        self._root = root
        beside = [section for section in page.beside if not section.contains(root)]
        wrong = self._wrongly_named([section for section in beside if root.contains(section)])
        self._cuts: list[Section] = []
        for section in sorted(beside, key=attrgetter("start")):
            if section not in wrong and (not self._cuts or section.start >= self._cuts[-1].end):
                self._cuts.append(section)
        self._cut_starts = [section.start for section in self._cuts]

    def _wrongly_named(self, beside: list[Section]) -> list[Section]:
        wrong: list[Section] = []
        for section in nlargest(_MOST_WRONG_NAMES, beside, key=attrgetter("inner", "length")):
            rest = max(_MORE_PROSE * self._root.prose, _MORE_TEXT * (self._root.size - self._root.linked))
            if section.inner < max(rest, _MUCH_PROSE):
                break
            if section.kind == COMMENTS and self._root.prose >= _MUCH_PROSE:
                continue
            wrong.append(section)
            for outer in self._page.sections:
                if outer.contains(section) and outer is not section:
                    outer.size += section.size
                    outer.linked += section.linked
                    outer.prose += section.prose
        return wrong

    def sections(self) -> list[Section]:
        """Returns the sections of the part that are not beside the text."""
        return [
            section
            for section in self._page.sections
            if self._root.contains(section) and not self._is_cut(section.start)
        ]

    def between(self, start: int, end: int) -> str:
        """Returns the text from one piece to before another, without parts beside the text."""
        pieces: list[str] = []
        for first, last in self._kept(start, end):
            pieces += self._page.pieces[first:last]
        return "".join(pieces)

    def blocks(self, start: int, end: int) -> list[LexborNode]:
        """Returns the first node with text of each block from one piece to before another."""
        blocks = self._page.blocks
        nodes: list[LexborNode] = []
        for first, last in self._kept(start, end):
            from_block, to_block = (bisect_left(blocks, piece, key=itemgetter(0)) for piece in (first, last))
            nodes += [node for _, node in blocks[from_block:to_block]]
        return nodes

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the ranges of pieces between two that are not in parts beside the text."""
        for number in range(bisect_left(self._cut_starts, start), len(self._cuts)):
            cut = self._cuts[number]
            if cut.end > end:
                break
            yield start, cut.start
            start = cut.end
        yield start, end

    def lead(self, section: Section) -> tuple[int, str, list[LexborNode]]:
        """Returns the prose between the headline and a section: where it starts, its text, and the nodes of its blocks.

        Without such prose, it starts with the section.
        """
        for headings in (self._page.titles, self._page.headings):
            for start, end in reversed(headings):
                if end <= section.start and not self._is_cut(start):
                    texts = [text for text in self.between(end, section.start).split(BLOCK) if text.strip()]
                    blocks = zip(texts, self.blocks(end, section.start), strict=False)
                    lead = [(text, node) for text, node in blocks if len(text.strip()) >= _LEAD]
                    text = BLOCK.join([text for text, _ in lead]) + BLOCK
                    return end if lead else section.start, text, [node for _, node in lead]
        return section.start, "", []

    def end(self, part: Section) -> int:
        """Returns where a section ends, without headings that nothing follows."""
        last = part.end
        for start, end in reversed(self._page.headings):
            if start < part.start:
                break
            if end <= last and not self._is_cut(start):
                if self.between(end, last).strip():
                    break
                last = start
        return last

    def _is_cut(self, start: int) -> bool:
        number = bisect_right(self._cut_starts, start)
        return number > 0 and start < self._cuts[number - 1].end
