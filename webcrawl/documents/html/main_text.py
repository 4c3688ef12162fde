"""The part of an HTML page's text that the page is about.

It is the smallest section that has nearly all prose of the part that the page marks (`main`, `article`,
`itemprop=articleBody`, class `entry-content`), or else most prose of the page, with the prose that leads to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.names import BESIDE, INVISIBLE, is_article_body, kind_of
from webcrawl.documents.html.page_text import MORE_PROSE, PageText, Section
from webcrawl.documents.html.part_text import PartText, is_named
from webcrawl.documents.html.sections import ARTICLE, ASIDE, MAIN, MATH, read_sections
from webcrawl.documents.html.text import BLOCK, TEXT_NODE, clean, tag_ids, walk
from webcrawl.documents.link_elements import Attributes

MIN_WORDS = 20
"""The fewest words of a main part, unless the page marks it: `main`, or its single `article`."""

# `main` counts if it has this share of the prose.
_MAIN_SHARE = 0.25
# A section that is named like a main part, or a single `article`, counts if it has this share of the prose.
_NAMED_SHARE = 0.6
# A section with such a name that has the headline counts if it has this share.
_TITLED_SHARE = 0.3
# A section inside of a named section has all the text if it has this share of the prose of the named section.
_INSIDE_NAMED = 0.9
# A section inside of a page or of `main` has all the text if it has this share of the prose of the page or `main`.
_INSIDE_PAGE = 0.8
# A section with the headline needs a smaller share.
_TITLED_INSIDE_PAGE = 0.7
# It also needs this share of the text that is not links, because tables, code and definitions are no prose.
_TEXT_INSIDE_PAGE, _TEXT_INSIDE_MAIN = 0.75, 0.9
# A section that is named like a main part counts if it has so many characters of prose.
_MUCH_PROSE = 100
_MOST_ARTICLES = 100
# So many characters of prose say little: a marked part with less, and more links than text, is a list of links.
_LITTLE_PROSE = 200
# A marked part with less prose may have what leads to a text, and not the text.
_MAX_LEAD = 300
# Shorter blocks at the end of a page without sections follow the text.
_SHORT = 40
_MARGINS, _MOST_MARGINS = "nav,aside,footer", 3
_HEADLINE = "h1,main,article,[itemprop~=articleBody]"
# Elements that have most of a page in them if their end is missing, with or without the headline.
_OPEN = "audio,button,object,video"
_IS_OPEN = tag_ids("audio button object video")
_PRODUCT = re.compile(r"(?:^|[\s_-])product(?:$|[\s_-])", re.IGNORECASE)
# A number is read once, from its start.
_PRICE = re.compile(r"[€$£¥₹]\s?\d|(?<![\d.,])[.,]*+\d[\d.,]*+\s?(?:[€£¥₹]|(?:EUR|USD|GBP|CHF|zł|kr)\b)")
_MAX_NAMES, _MOST_PRODUCTS = 500, 8
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
    page = _page_within(body)
    whole = page.sections[-1]
    root = _marked_part(page, whole) or whole
    text = PartText(page, root)  # may add text to the root
    if root is not whole and _is_list_of_links(page, root):
        return MainPart(clean("".join(walk(root.node, ASIDE))), root.node, articles=[root.node])
    sections = text.sections()
    product = _product(page, root, sections)
    section = product or _main_section(page, root, sections)
    if product is not None:
        text.keep_reviews(product)
    text.keep_lists(section, is_marked=root is not whole or is_named(section))
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


def _page_within(body: LexborNode) -> PageText:
    """Returns the text of a page; of a menu, margin or footer that has nearly all of it, because its end is missing."""
    page = read_sections(body)
    whole = page.sections[-1]
    if page.named and (names := page.wrong_names(max(whole.prose, _MUCH_PROSE))):
        page = read_sections(body, names)
        whole = page.sections[-1]
    if whole.prose < _LITTLE_PROSE:
        for node in body.css(_MARGINS)[:_MOST_MARGINS]:
            if node.css_first(_HEADLINE) is None:
                continue
            inner = read_sections(node)
            if inner.sections[-1].prose >= MORE_PROSE * max(whole.size, _MUCH_PROSE):
                return inner
    least = MORE_PROSE * max(whole.prose, _MUCH_PROSE)
    for node in _wrong_elements(body, least):
        inner = read_sections(node)
        if inner.sections[-1].prose >= least:
            return inner
    return page


def _wrong_elements(body: LexborNode, least: int) -> list[LexborNode]:
    """Returns the outermost elements that hold no text as a rule, and here a headline or the rest of a page.

    Those whose text is shorter than `least` characters are left out, if the page has no formulas.
    """
    # a search takes a tenth of the time of reading a page; it returns an element for each selector that it matches
    candidates = {node.mem_id: node for node in body.css(f"{_OPEN},{_HEADLINE},math")}.values()
    wrong = [node for node in candidates if node.tag_id in _IS_OPEN][:_MOST_MARGINS]
    has_math = any(node.tag_id == MATH for node in candidates)
    headlines = [
        node
        for node in candidates
        if node.tag_id not in _IS_OPEN and node.tag_id != MATH or is_article_body(node.attributes)
    ]
    for headline in headlines[:_MOST_MARGINS]:
        around, outermost = headline.parent, None
        while around is not None:
            if around.tag_id in ASIDE or around.tag_id in _IS_OPEN:
                outermost = around
            around = around.parent
        if outermost is not None:
            wrong.append(outermost)
    return wrong if has_math else [node for node in wrong if len(node.text()) >= least]


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
    words = text.split(None, enough)[:enough]
    count = len(words)
    return count if count >= enough or text.isascii() else count + _unseparated_words("".join(words))


def _unseparated_words(text: str) -> int:
    """Returns about how many words no space separates; only small numbers matter."""
    return len(_IDEOGRAPH.findall(text[:_MAX_IDEOGRAPHS])) // 2


def _marked_part(page: PageText, whole: Section) -> Section | None:
    """Returns the first `main`, or the single `article`, if it has text and enough of the prose."""
    share = _MAIN_SHARE
    marked = [section for section in page.sections if _is_main(section) and section.kind != INVISIBLE]
    if not marked:
        share = _NAMED_SHARE
        marked = [section for section in page.sections if section.node.tag_id == ARTICLE]
        if len(marked) > 1 or any(section.contains(marked[0]) for section in page.beside if marked):
            return None
    first = min(marked, key=attrgetter("start"), default=None)
    if first is None or not first.size:
        return None
    if _has_lead_alone(page, first, whole):
        return None
    outside = whole.prose - first.prose
    return first if outside <= max(_LITTLE_PROSE, (1 - share) * whole.prose) else None


def _has_lead_alone(page: PageText, marked: Section, whole: Section) -> bool:
    """Returns whether a marked part holds only the lead or a menu, and a part whose name says margin holds the text."""
    if marked.prose >= _MAX_LEAD:
        return False
    inside = marked.prose + sum(part.prose for part in page.beside if marked.contains(part))
    # without prose it may be a list of links, as front pages have
    least = MORE_PROSE * max(inside, whole.prose, 0 if marked.prose else max(marked.size, _MUCH_PROSE))
    return inside < _MAX_LEAD and any(
        part.kind == BESIDE and part.inner >= least and not (marked.contains(part) or part.contains(marked))
        for part in page.beside
    )


def _is_main(section: Section) -> bool:
    attributes = section.attributes
    return bool(attributes) and attributes.get("role") == "main" or section.node.tag_id == MAIN


def _is_list_of_links(page: PageText, root: Section) -> bool:
    if root.prose >= _LITTLE_PROSE:
        return False
    return sum(size for start, size in page.links if root.start <= start <= root.end) > root.size


def _main_section(page: PageText, root: Section, sections: list[Section]) -> Section:
    """Returns the smallest section with the prose of the root, or of a section that is named like a main part."""
    named = [section for section in sections if section.prose >= _MUCH_PROSE and is_named(section)]
    bodies = [
        section
        for section in named
        if is_article_body(section.attributes)
        and (section.prose >= _MAX_LEAD or MORE_PROSE * section.prose >= root.prose)
    ]
    most = max([section.prose for section in named], default=0)
    part = root
    if len(bodies) == 1:
        part = bodies[0]
    elif most and most >= _NAMED_SHARE * root.prose:
        part = _smallest(named, _INSIDE_NAMED * most)
    elif titled := _with_title(page, named, _TITLED_SHARE * root.prose):
        part = _smallest(titled, _INSIDE_NAMED * max(section.prose for section in titled))
    if not part.prose:
        return part
    inside = [section for section in sections if part.contains(section)]
    if is_named(part):
        return _smallest(inside, _INSIDE_NAMED * part.prose)
    text = (_TEXT_INSIDE_MAIN if _is_main(part) else _TEXT_INSIDE_PAGE) * part.text
    titled = _with_title(page, inside, _TITLED_INSIDE_PAGE * part.prose)
    whole = _smallest([section for section in inside if section.text >= text], _INSIDE_PAGE * part.prose)
    return min([*titled, whole], key=attrgetter("length"))


def _with_title(page: PageText, sections: list[Section], prose: float) -> list[Section]:
    """Returns the sections that have the headline and so much prose."""
    return [section for section in sections if section.prose >= prose and page.has_title(section)]


def _product(page: PageText, root: Section, sections: list[Section]) -> Section | None:
    """Returns the smallest section that is named as a product and has headline, price and most prose, or None."""
    named = [
        section
        for section in sections
        if section.prose >= _NAMED_SHARE * root.prose
        and section.attributes
        and _is_product(section.attributes)
        and page.has_title(section)
    ]
    for section in sorted(named, key=attrgetter("length"))[:_MOST_PRODUCTS]:
        if _PRICE.search("".join(page.pieces[section.start : section.end])) is not None:
            return section
    return None


def _is_product(attributes: Attributes) -> bool:
    return (attributes.get("itemtype") or "").endswith("schema.org/Product") or bool(
        _PRODUCT.search((attributes.get("class") or "")[:_MAX_NAMES])
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
