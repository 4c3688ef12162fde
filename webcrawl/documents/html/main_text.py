"""What a reader sees of an HTML page: all of its text, and the part of it that the page is about.

The main part is what the page marks as such (`article`, `main`, `role=main`, `itemprop=articleBody`). Elsewhere
blocks of text are told from boilerplate by their words and links: Kohlschütter, Fankhauser, Nejdl, "Boilerplate
detection using shallow text features", WSDM 2010, algorithm 2. What is named as something else (`nav`, `aside`, class
"sidebar") is left out in both cases.

Walks have a stack of their own, so no nesting is too deep, and take one pass: 0.3 ms for a page of 27 KB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

# What is not marked, or is an article, and has fewer words is not what the page is about.
MIN_WORDS = 20
# Of the text in `main`, a single `article` has to have this part to be what the page is about.
_ARTICLE_SHARE = 1 / 3
# So many short blocks in a row (headings, one-line paragraphs) belong to the text around them.
_MOST_SHORT_BLOCKS = 4
_MOST_CHARS = 200
# A block of no more words is short.
_SHORT = 16

# In the text of a walk: what ends a block (white space to str.split, and hardly in any page), and where a link begins
# and ends.
_BLOCK, _LINK, _LINK_END = "\x1e", "\x01", "\x02"

# Chinese and Japanese do not separate words: two characters are about one.
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")

MARKED = "[itemprop~=articleBody],article,main,[role=main]"
"""What pages mark their main part with."""

# Names (class, id) of what is no part of the text; of what may hold the text all the same. As in Mozilla's Readability.
_BESIDE = re.compile(
    r"(?:^|[\s_-])(?:ad|ads|advert\w*|banner|breadcrumbs?|comments?|cookies?|disqus|menu|modal|nav\w*|newsletter"
    r"|pager|pagination|popup|promo\w*|related\w*|share\w*|sharing|social|sponsor\w*|subscribe|toolbar|widget"
    r")(?:$|[\s_-])|footer(?:$|[\s_-])|sidebar",
    re.IGNORECASE,
)
_PERHAPS_WITHIN = re.compile(r"article|body|column|content|main|page|wrap|has-|with-|no-", re.IGNORECASE)
_UNKNOWN, _NAMED_BESIDE, _NAMED_WITHIN = range(3)
_ROLES_BESIDE = frozenset(
    {"banner", "complementary", "contentinfo", "navigation", "search", "dialog", "menu"}
)


def _tag_ids(names: str) -> frozenset[int]:
    """Lexbor's numbers for element names; comparing them is several times faster than comparing names."""
    tree = LexborHTMLParser("")
    return frozenset(tree.create_node(name).tag_id for name in names.split())


def _number_of(markup: str) -> int:
    body = LexborHTMLParser(markup).body
    node = body.first_child if body is not None else None
    if node is None:
        raise AssertionError(f"Lexbor builds no node for {markup!r}")
    return node.tag_id


_TEXT = _number_of("<body>text")
_COMMENT = _number_of("<body><!--comment-->")
_JOINING = {_COMMENT} | _tag_ids(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb s samp small"
    " span strike strong sub sup time tt u var wbr"
)
_HIDDEN = _tag_ids("script style noscript template iframe noembed noframes head title")
_ASIDE = _HIDDEN | _tag_ids("nav aside footer button select textarea dialog menu")
_AROUND_NO_ARTICLE = _ASIDE | _tag_ids("header")
_AROUND_NO_MAIN = _HIDDEN | _tag_ids("dialog")
# Only these are asked for their class: to ask all would take as long as the walk.
_SECTIONS = _tag_ids("div section ul ol dl table form header")
_ANCHOR = _tag_ids("a")


def visible_text(tree: LexborHTMLParser) -> str:
    """The body's text: scripts, styles and fallbacks left out, white space collapsed.

    Elements separate words unless they are inline (`fo<b>o</b>` is one word, `<td>a<td>b` are two).
    """
    body = tree.body
    return " ".join(_clean("".join(_walk(body, _HIDDEN))).split()) if body is not None else ""


def main_text(tree: LexborHTMLParser, marked: Collection[LexborNode]) -> str | None:
    """The text of the part that the page is about, white space as it comes; None where nothing stands out.

    `marked` are the nodes that the selector `MARKED` finds, in document order.
    """
    node = _marked_part(marked)
    if node is not None:
        text = _clean("".join(_walk(node, _ASIDE, _SECTIONS)))
        # a main part of few words says little, but what is around it is no better
        if (
            text
            and not text.isspace()
            and (node.tag != "article" or word_count(text, MIN_WORDS) >= MIN_WORDS)
        ):
            return text
    body = tree.body
    text = _dense_text(body) if body is not None else ""
    return text if word_count(text, MIN_WORDS) >= MIN_WORDS else None


def word_count(text: str, enough: int) -> int:
    """The number of words of a text, as far as `enough` of them are asked for."""
    count = len(text.split(None, enough)[:enough])
    return count if count >= enough or text.isascii() else count + _further_words(text)


def _marked_part(marked: Collection[LexborNode]) -> LexborNode | None:
    """The node to read; several articles side by side are a list of articles, not one.

    Nobody sees what is hidden. Articles in boilerplate, or beside `main`, are teasers, newsletters, comments.
    """
    main = next(_outside(_tells_nothing, [node for node in marked if _is_main(node)]), None)
    others = list(_outside(_is_boilerplate, marked))
    bodies = [node for node in others if "articleBody" in (node.attributes.get("itemprop") or "").split()]
    if len(bodies) == 1:
        return bodies[0]
    article = _outermost(_articles_of(main, [node for node in others if node.tag == "article"]))
    if article is not None and (main is None or _length(article) >= _ARTICLE_SHARE * _length(main)):
        return article
    return main


def _is_main(node: LexborNode) -> bool:
    return node.tag == "main" or node.attributes.get("role") == "main"


def _outside(unwanted: Callable[[LexborNode], bool], nodes: Iterable[LexborNode]) -> Iterator[LexborNode]:
    """Those nodes that neither are unwanted nor in an element that is; each element is asked once."""
    answers: dict[int, bool] = {}
    for node in nodes:
        asked: list[int] = []
        above: LexborNode | None = node
        answer = False
        while above is not None and not answer:
            name = above.mem_id
            if name in answers:
                answer = answers[name]
                break
            asked.append(name)
            answer = unwanted(above)
            above = above.parent
        answers.update(dict.fromkeys(asked, answer))
        if not answer:
            yield node


def _tells_nothing(node: LexborNode) -> bool:
    return node.tag_id in _AROUND_NO_MAIN or "hidden" in node.attributes


def _is_boilerplate(node: LexborNode) -> bool:
    tag = node.tag_id
    return tag in _AROUND_NO_ARTICLE or "hidden" in node.attributes or (tag in _SECTIONS and _is_beside(node))


def _articles_of(node: LexborNode | None, articles: list[LexborNode]) -> list[LexborNode]:
    """Those of the articles that are in a node, or are it; all where there is no node."""
    if node is None or not articles:
        return articles
    inside = {one.mem_id for one in node.css("article")}
    return [one for one in articles if one.mem_id in inside]


def _outermost(articles: list[LexborNode]) -> LexborNode | None:
    """The article that all others are inside of (comments are articles too), if there is one."""
    first = articles[0] if articles else None
    return first if len(_articles_of(first, articles)) == len(articles) else None


def _length(node: LexborNode) -> int:
    return len(node.text(skip_empty=True))


def _walk(
    root: LexborNode,
    hidden: Collection[int],
    sections: Collection[int] = (),
    links: Collection[int] = (),
) -> list[str]:
    """The pieces of text under a node, with _BLOCK where an element begins or ends that is not inline.

    Left out are `hidden` elements, and those of `sections` whose names say that they are beside the text. Around those
    of `links` are _LINK and _LINK_END.
    """
    pieces: list[str] = []
    add = pieces.append
    joining = _JOINING.difference(links)
    open_elements: list[tuple[LexborNode, int]] = []
    node = root.first_child
    while node is not None or open_elements:
        if node is None:
            node, tag = open_elements.pop()
        else:
            tag = node.tag_id
            if tag == _TEXT:
                add(node.text_content or "")
                node = node.next
                continue
            if tag not in joining:
                if tag in hidden:
                    node = node.next
                    continue
                add(_LINK if tag in links else _BLOCK)
                if tag in sections and _is_beside(node):
                    node = node.next
                    continue
            child = node.first_child
            if child is not None and child.tag_id == _TEXT:  # most elements hold nothing else
                add(child.text_content or "")
                child = child.next
            if child is not None:
                open_elements.append((node, tag))
                node = child
                continue
        if tag not in joining:
            add(_LINK_END if tag in links else _BLOCK)
        node = node.next
    return pieces


def _is_beside(node: LexborNode) -> bool:
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("role") in _ROLES_BESIDE:
        return True
    name, other = attributes.get("class"), attributes.get("id")
    return (
        max(_place_of(name) if name else _UNKNOWN, _place_of(other) if other else _UNKNOWN) == _NAMED_BESIDE
    )


@lru_cache(2**13)
def _place_of(name: str) -> int:
    """What a class or id says of where its element is; the same ones come on page after page."""
    if len(name) > _MOST_CHARS:  # no name, and would take long
        return _UNKNOWN
    if _PERHAPS_WITHIN.search(name):
        return _NAMED_WITHIN
    return _NAMED_BESIDE if _BESIDE.search(name) else _UNKNOWN


def _clean(text: str) -> str:
    return text.replace("\0", "\ufffd").replace(_BLOCK, "\n")


class _Block(NamedTuple):
    """A block of text: how many words it has, and how many of them are in links."""

    text: str
    words: int
    linked: int


def _dense_text(body: LexborNode) -> str:
    text = "".join(_walk(body, _ASIDE, _SECTIONS, _ANCHOR))
    blocks = _blocks(text)
    edge = _Block("", 0, 0)
    kept = list(map(_is_content, [edge, *blocks], blocks, [*blocks[1:], edge]))
    _settle_short_ones(blocks, kept)
    return _clean("\n".join([block.text for block in compress(blocks, kept)]))


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    inside = False
    for part in text.split(_BLOCK):
        if not part or part.isspace():
            continue
        linked = -1
        if _LINK in part or _LINK_END in part:
            linked, inside = _linked(part, inside)
            part = part.replace(_LINK, "").replace(_LINK_END, "")
        words = part.split()
        count = len(words) if part.isascii() else len(words) + _further_words(part)
        if words:
            blocks.append(_Block(part, count, count * inside if linked < 0 else min(linked, count)))
    return blocks


def _linked(part: str, inside: bool) -> tuple[int, bool]:
    """How many words of a block are in links, and whether it ends in one, when it begins in one or not."""
    count = 0
    for number, piece in enumerate(part.split(_LINK)):
        before, end, _ = piece.partition(_LINK_END)
        if number or inside:
            count += _words(before)
        inside = (number > 0 or inside) and not end
    return count, inside


def _words(text: str) -> int:
    count = len(text.split())
    return count if text.isascii() else count + _further_words(text)


def _further_words(text: str) -> int:
    """Words that no space separates, as far as it matters how many they are."""
    return len(_IDEOGRAPH.findall(text[:_MOST_CHARS])) // 2


def _is_content(before: _Block, block: _Block, after: _Block) -> bool:
    """The paper's decision tree over the numbers of words and the densities of links of three blocks in a row."""
    if 3 * block.linked > block.words:
        return False
    if 9 * before.linked <= 5 * before.words:
        return block.words > _SHORT or after.words > 15 or before.words > 4
    return block.words > 40 or after.words > 17


def _settle_short_ones(blocks: list[_Block], kept: list[bool]) -> None:
    """Keep the few blocks between two that are kept, unless they are links; none after the last that is not short.

    The former are headings and short paragraphs; the latter what follows an article, as a rule.
    """
    last = len(blocks)
    for place in [place for place, one in enumerate(kept) if one]:
        if 1 < place - last <= _MOST_SHORT_BLOCKS + 1:
            for between in range(last + 1, place):
                kept[between] = 3 * blocks[between].linked <= blocks[between].words
        last = place
    while last < len(blocks) and last >= 0 and not (kept[last] and blocks[last].words > _SHORT):
        kept[last] = False
        last -= 1
