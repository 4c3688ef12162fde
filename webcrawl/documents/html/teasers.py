"""Teasers beside an article: siblings of the same kind, each with a title that is a link, and a few words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.data_tables import TABLE_PARTS, is_table
from webcrawl.documents.html.page_text import PageText, Section
from webcrawl.documents.html.text import tag_ids

# The most characters of a teaser.
_MAX_TEASER = 500
# The fewest characters of the title of a teaser that is no heading.
_MIN_TITLE = 15
# The most characters of the link at the end of a teaser, such as "read more".
_MAX_CALL = 20
# Teasers have at least this share of the text of their section, and leave at least so much prose of the page.
_MOST_TEXT, _LEAST_REST = 0.7, 300
# A longer text is the main part with or without its teasers, so most long pages are not searched for them.
_MOST_PROSE = 12_000
_MOST_SECTIONS, _DEEPEST = 300, 6
# Sections of teasers are no larger, have this share of links, and matter if they have this share of the prose.
_MOST_SIZE, _MOST_PIECES, _LEAST_LINKED, _LITTLE = 8_000, 2_000, 0.05, 0.05
_HEADINGS = tag_ids("h2 h3 h4 h5 h6")
_TITLES = _HEADINGS | tag_ids("a")
_CARDS = tag_ids("a article div li section")
_DATA = TABLE_PARTS | tag_ids("dl tr")
_HEADING_NAMES = "h2,h3,h4,h5,h6"
# No teaser has definitions or blocks of code; parts of a reference have, and links at their ends.
_REFERENCE = "dl,pre"
# The items of an article that is a list have titles with links too. They follow a paragraph of the text in the same
# element, and lead to several sites or have so many times the prose of the rest.
_SITES, _MUCH_MORE, _PROSE = 3, 2, 80
_HOST = re.compile(r"(?:https?:)?//(?:www\.)?([^/?#]+)", re.IGNORECASE)
_MOST_LINKS, _MOST_SIBLINGS = 100, 200
(_PARAGRAPH,), (_NUMBERED,) = tag_ids("p"), tag_ids("ol")


def teasers(page: PageText, root: Section) -> list[Section]:
    """Returns the outermost sections of a part that are teasers, if it has a headline, and enough text beside them."""
    if not _LEAST_REST <= root.prose <= _MOST_PROSE or not page.titles:
        return []
    groups = list[Section]()
    alone = list[tuple[object, Section]]()
    sections = _outer_first(page, root)
    if sum(section.prose for section in sections) < _LITTLE * root.prose:
        return []
    for section in sections:
        if groups and groups[-1].contains(section):
            continue
        if _are_teasers(section.node):
            groups.append(section)
        elif section.size <= _MAX_TEASER and _is_teaser(section.node):
            alone.append((kind_of_node(section.node), section))
    kinds = Counter(kind for kind, _ in alone)
    groups += [section for kind, section in alone if kinds[kind] > 1]
    groups = _without_lists_of_other_sites(groups)
    left_out = sum(section.prose for section in groups)
    rest = root.prose - left_out
    if left_out >= _MUCH_MORE * rest:
        listed = [section for section in groups if _is_in_flow(section.node)]
        groups = [section for section in groups if section not in listed]
        rest += sum(section.prose for section in listed)
    return groups if rest >= _LEAST_REST else []


def _without_lists_of_other_sites(groups: list[Section]) -> list[Section]:
    """Returns the sections but those after a text whose links, with those of the same kind, lead to several sites."""
    hosts: dict[object, set[str]] = {}
    for section in groups:
        hosts.setdefault(kind_of_node(section.node), set()).update(
            match[1]
            for link in section.node.css("a[href]")[:_MOST_LINKS]
            if (match := _HOST.match(link.attributes.get("href") or ""))
        )
    return [
        section
        for section in groups
        if len(hosts[kind_of_node(section.node)]) < _SITES or not _meets_text(section.node, "prev")
    ]


def _is_in_flow(node: LexborNode) -> bool:
    """Returns whether an element follows a paragraph of text in the same element, as the items of an article do.

    A list without numbers that holds all items stands between two paragraphs.
    """
    is_all = node.tag_id != _NUMBERED and not _is_teaser(node)
    return _meets_text(node, "prev") and (not is_all or _meets_text(node, "next"))


def _meets_text(node: LexborNode, step: str) -> bool:
    """Returns whether a paragraph of text is among the siblings before ("prev") or after ("next") an element."""
    sibling = getattr(node, step)
    for _ in range(_MOST_SIBLINGS):
        if sibling is None:
            return False
        if sibling.tag_id == _PARAGRAPH and _is_paragraph_of_text(sibling):
            return True
        sibling = getattr(sibling, step)
    return False


def _is_paragraph_of_text(node: LexborNode) -> bool:
    """Returns whether an element has a sentence or more, and few of it in links."""
    text = _length(node)
    return text >= _PROSE and 3 * sum(_length(link) for link in node.css("a")) <= text


def _outer_first(page: PageText, root: Section) -> list[Section]:
    """Returns the sections in a part that may be teasers: they have no headline, and links."""
    links = [start for start, _ in page.links]
    sizes = [0, *accumulate(size for _, size in page.links)]
    sections = [
        section
        for section in page.sections[-_MOST_SECTIONS:]
        if section.prose
        and root.start < section.start
        and section.end <= root.end
        and section.size <= _MOST_SIZE
        and section.length <= _MOST_PIECES
        and _LEAST_LINKED * section.size <= section.linked + _between(links, sizes, section)
        and not page.has_title(section)
    ]
    return sorted(sections, key=lambda section: (section.start, -section.end))


def _between(starts: list[int], sizes: list[int], section: Section) -> int:
    """Returns the size of the links that were left out of a section."""
    return sizes[bisect_left(starts, section.end)] - sizes[bisect_left(starts, section.start)]


def kind_of_node(node: LexborNode) -> tuple[int, int, str]:
    """Returns what siblings of the same kind share: parent, element and first class."""
    parent = node.parent
    names = (node.attributes.get("class") or "").split()
    return parent.mem_id if parent is not None else 0, node.tag_id, names[0] if names else ""


def _are_teasers(node: LexborNode, depth: int = 0) -> bool:
    """Returns whether most text of an element is in teasers."""
    if depth > _DEEPEST or node.tag_id in _DATA or is_table(node.attributes):
        return False
    children = list(node.iter())
    tags = Counter([child.tag_id for child in children])
    if sum(tags[tag] for tag in _TITLES) > 1 and _alternate(children):
        return True
    tag = max(_CARDS, key=lambda tag: tags[tag])
    if tags[tag] < 2:
        return False
    size = count = 0
    for card in children:
        if card.tag_id == tag and (length := _length(card)):
            if not (_is_teaser(card) or _are_teasers(card, depth + 1)):
                return False
            size, count = size + length, count + 1
    return count > 1 and size >= _MOST_TEXT * _length(node)


def _alternate(children: Sequence[LexborNode]) -> bool:
    """Returns whether children are titles, each followed by a few words."""
    if _begins_with_text(children):
        return False
    titles = [
        child
        for child in children
        if child.tag_id in _HEADINGS
        or child.tag_id in _TITLES
        and child.css_first(_HEADING_NAMES) is not None
    ]
    links = [
        link for title in titles if (link := title.css_first("a[href]")) is not None and _leads_away(link)
    ]
    if len(titles) < 2 or len(links) < _MOST_TEXT * len(titles):
        return False
    sizes = [length for child in children if (length := _length(child))]
    return 2 * len(titles) <= len(sizes) <= 3 * len(titles) and sum(sizes) <= _MAX_TEASER * len(titles)


def _begins_with_text(children: Sequence[LexborNode]) -> bool:
    """Returns whether there is a paragraph of text before the first title: then the titles divide an article."""
    for child in children:
        if child.tag_id in _HEADINGS:
            return False
        if child.tag_id == _PARAGRAPH and _is_paragraph_of_text(child):
            return True
    return False


def _is_teaser(node: LexborNode) -> bool:
    """Returns whether an element is a title that links to a page, with a few words."""
    text = _text(node)
    if not text or len(text) > _MAX_TEASER:
        return False
    links = [link for link in node.css("a[href]") if _leads_away(link) and _length(link)]
    if not links or node.css_first(_REFERENCE) is not None:
        return False
    title = _text(links[0])
    if len(title) >= _MIN_TITLE and text.startswith(title) or any(map(_is_heading, links)):
        return True
    call = _text(links[-1])
    return len(call) <= _MAX_CALL and text.endswith(call) and node.css_first(_HEADING_NAMES) is not None


def _is_heading(link: LexborNode) -> bool:
    """Returns whether a link is most of a heading, or has a heading in it."""
    around = link.parent
    if around is not None and around.tag_id in _HEADINGS:
        return _length(link) >= _MOST_TEXT * _length(around)
    return link.css_first(_HEADING_NAMES) is not None


def _leads_away(link: LexborNode) -> bool:
    parent = link.parent
    return not (link.attributes.get("href") or "#").startswith("#") and not (
        parent is not None and parent.tag == "code"
    )


def _text(node: LexborNode) -> str:
    return " ".join(node.text().split())


def _length(node: LexborNode) -> int:
    return len(_text(node))
