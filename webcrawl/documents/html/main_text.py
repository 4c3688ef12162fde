"""The part of an HTML page's text that the page is about.

It is what the page marks as such (`article`, `main`, `role=main`, `itemprop=articleBody`), or else its dense blocks of
text. Elements named as something else (`nav`, `aside`, class "sidebar") are left out in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.html.text import HIDDEN, SECTIONS, clean, is_boilerplate, tag_ids, walk
from webcrawl.documents.html.text_blocks import dense_text, word_count

MIN_WORDS = 20
"""The fewest words of a main part that is an article or is not marked."""
MARKED = "[itemprop~=articleBody],article,main,[role=main]"
"""Selects what pages mark as their main part."""
# A single `article` within `main` is the main part if it has this share of the text.
_ARTICLE_SHARE = 1 / 3

_ASIDE = HIDDEN | tag_ids("nav aside footer button select textarea dialog menu")
_NO_ARTICLE_WITHIN = _ASIDE | tag_ids("header")
_NO_MAIN_WITHIN = HIDDEN | tag_ids("dialog")
_ANCHOR = tag_ids("a")


def main_text(tree: LexborHTMLParser, marked: Collection[LexborNode]) -> str | None:
    """Returns the text of the main part with its white space, or None if the page has none.

    `marked` are the nodes that the selector `MARKED` finds, in document order.
    """
    node = _marked_part(marked)
    if node is not None:
        text = clean("".join(walk(node, _ASIDE, SECTIONS)))
        # a main part of few words says little, but the text around it is no better
        if (
            text
            and not text.isspace()
            and (node.tag != "article" or word_count(text, MIN_WORDS) >= MIN_WORDS)
        ):
            return text
    body = tree.body
    text = dense_text("".join(walk(body, _ASIDE, SECTIONS, _ANCHOR))) if body is not None else ""
    return text if word_count(text, MIN_WORDS) >= MIN_WORDS else None


def _marked_part(marked: Collection[LexborNode]) -> LexborNode | None:
    """Returns the node to read; several articles side by side are a list of articles, not the main part.

    Ignores hidden nodes. Articles in boilerplate or beside `main` are teasers, newsletters or comments.
    """
    main = next(_outside(_is_hidden, [node for node in marked if _is_main(node)]), None)
    others = list(_outside(_is_no_place_for_articles, marked))
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
    """Yields the nodes that are not unwanted and not within an unwanted element; checks each element once."""
    answers: dict[int, bool] = {}
    for node in nodes:
        checked: list[int] = []
        above: LexborNode | None = node
        answer = False
        while above is not None and not answer:
            name = above.mem_id
            if name in answers:
                answer = answers[name]
                break
            checked.append(name)
            answer = unwanted(above)
            above = above.parent
        answers.update(dict.fromkeys(checked, answer))
        if not answer:
            yield node


def _is_hidden(node: LexborNode) -> bool:
    return node.tag_id in _NO_MAIN_WITHIN or "hidden" in node.attributes


def _is_no_place_for_articles(node: LexborNode) -> bool:
    tag = node.tag_id
    return (
        tag in _NO_ARTICLE_WITHIN or "hidden" in node.attributes or (tag in SECTIONS and is_boilerplate(node))
    )


def _articles_of(node: LexborNode | None, articles: list[LexborNode]) -> list[LexborNode]:
    """Returns the articles that are within a node, or are it; all of them without a node."""
    if node is None or not articles:
        return articles
    inside = {one.mem_id for one in node.css("article")}
    return [one for one in articles if one.mem_id in inside]


def _outermost(articles: list[LexborNode]) -> LexborNode | None:
    """Returns the article that contains all others (comments are articles too), if there is one."""
    first = articles[0] if articles else None
    return first if len(_articles_of(first, articles)) == len(articles) else None


def _length(node: LexborNode) -> int:
    return len(node.text(skip_empty=True))
