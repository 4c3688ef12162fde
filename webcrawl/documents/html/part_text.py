"""The text of a part of a page without what is beside it: menus, adverts, and lists of links that are not text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import nlargest
from operator import attrgetter, itemgetter

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.names import (
    BESIDE,
    COMMENTS,
    INVISIBLE,
    is_article_body,
    is_not_displayed,
    kind_of,
    names_main_part,
)
from webcrawl.documents.html.page_text import MORE_PROSE, PageText, Section
from webcrawl.documents.html.teasers import kind_of_node, teasers
from webcrawl.documents.html.text import BLOCK, TEXT_NODE, tag_ids
from webcrawl.documents.link_elements import Attributes

_MORE_TEXT = 2
"""A part beside the text is text after all only if it has so many times the text of the rest."""
# It also has so many characters of prose.
_MUCH_PROSE = 100
_MOST_WRONG_NAMES = 16
# Or if it has more prose than the rest, and a part of it that is named like a main part has this share of that.
_BODY_SHARE = 0.6
# Blocks of so many characters between the headline, or the start of the article, and the main part lead to it.
_LEAD = 80
# A block of so many characters before a list is a sentence that may introduce it.
_SENTENCE = 40
# Items of so many characters on average are names. Longer ones are headlines of other pages.
_MAX_NAME = 25
_LISTS = tag_ids("ol ul")
# What a click shows has this share of prose, follows a heading or, by style, a paragraph, and has nothing to fill in.
_MOST_OF_REST = 0.8
_OPENED_BY, _CONTROLS = tag_ids("h2 h3 h4 h5 h6"), "form,input,select,textarea,video,iframe"
_FLOW = tag_ids("p") | _OPENED_BY
(_BODY,) = tag_ids("body")
(_ARTICLE,), (_ITEM,) = map(tag_ids, ("article", "li"))


class PartText:
    """The text of a part of a page without the parts beside the text.

    A part is not beside the text, whatever its name, if it has most prose of the page.
    """

    def __init__(self, page: PageText, root: Section) -> None:
        self._page = page
        self._root = root
        beside = [section for section in page.beside if not section.contains(root)]
        wrong = self._wrongly_named([section for section in beside if root.contains(section)])
        self._beside = [section for section in beside if section not in wrong]
        self._leave_out(teasers(page, root))
        self._cut(page.link_lists)

    def _cut(self, lists: list[Section]) -> None:
        """Leaves out the parts beside the text, and these lists of links."""
        self._cuts: list[Section] = []
        for section in sorted(self._beside + lists, key=attrgetter("start")):
            if not self._cuts or section.start >= self._cuts[-1].end:
                self._cuts.append(section)
        self._cut_starts = [section.start for section in self._cuts]

    def _wrongly_named(self, beside: list[Section]) -> set[Section]:
        """Returns the parts whose names are wrong, and adds their text to the sections around them.

        Parts of the same kind in the same element count together.
        """
        wrong = set[Section]()
        for part in self._around_body(beside) + [part for part in beside if _goes_on(part)]:
            if part in wrong:
                continue
            self._count([part])
            wrong.add(part)
        beside = [part for part in beside if part not in wrong]
        for parts in nlargest(_MOST_WRONG_NAMES, _groups(beside), key=_amount):
            rest = max(MORE_PROSE * self._root.prose, _MORE_TEXT * (self._root.size - self._root.linked))
            if _amount(parts)[0] < max(rest, _MUCH_PROSE):
                break
            if self._root.prose >= _MUCH_PROSE and _is_never_text(parts[0]):
                continue
            wrong.update(parts)
            self._count(parts)
        return wrong

    def _count(self, parts: list[Section]) -> None:
        """Adds the text of parts beside the text to the sections around them."""
        size, linked, prose = (sum(map(attrgetter(name), parts)) for name in ("size", "linked", "prose"))
        for outer in self._page.sections:
            if outer.contains(parts[0]) and outer.contains(parts[-1]) and outer not in parts:
                outer.size += size
                outer.linked += linked
                outer.prose += prose

    def _around_body(self, beside: list[Section]) -> list[Section]:
        """Returns the parts around the body of the article, outer ones first, such as a lightbox for its pictures.

        So is a part with all headlines and more prose than the rest of the page, such as the layout with a sidebar. The
        body itself may be hidden until a script shows it, if there is no other body. Comments are around the body if
        they have the first headline too.
        """
        large = [
            part
            for part in beside
            if part.inner > self._root.prose and (part.kind != COMMENTS or self._has_first_title(part))
        ]
        if not large:
            return []
        bodies = [body for body in self._page.sections if body.prose >= _MUCH_PROSE and is_named(body)]
        around = list[Section]()
        for part in sorted(large, key=attrgetter("length"), reverse=True):
            is_hidden = _is_hidden(part)
            inside = [body for body in bodies if part.contains(body) and (is_hidden or body is not part)]
            outside = [body for body in bodies if not (part.contains(body) or body.contains(part))]
            least = max(_BODY_SHARE * part.inner, _most_prose(outside))
            is_titled = part.kind == BESIDE and not (outside or is_hidden) and self._has_all_titles(part)
            if is_titled or _most_prose(inside) >= least and not (outside and is_hidden):
                around.append(part)
        return around

    def _has_first_title(self, part: Section) -> bool:
        titles = self._page.titles
        return bool(titles) and part.start <= titles[0][0] < part.end

    def _has_all_titles(self, part: Section) -> bool:
        titles = self._page.titles
        return bool(titles) and part.start <= titles[0][0] and titles[-1][0] < part.end

    def _leave_out(self, parts: list[Section]) -> None:
        """Leaves parts out, and their text out of the amounts of the sections around them."""
        for part in parts:
            self._beside.append(part)
            for outer in self._page.sections:
                if outer is not part and outer.contains(part):
                    outer.size -= part.size
                    outer.linked -= part.linked
                    outer.prose -= part.prose

    def keep_reviews(self, product: Section) -> None:
        """Keeps what readers write within the section of a product."""
        self._beside = [part for part in self._beside if part.kind != COMMENTS or not product.contains(part)]
        self._cut(self._page.link_lists)

    def keep_lists(self, section: Section, *, is_marked: bool) -> None:
        """Keeps the lists of links in the text of a section. `is_marked`: the page says that it is the main part."""
        if not self._page.link_lists:
            return
        end = self._text_end(section)
        titles = {start for start, _ in self._page.headings}
        left_out, at, lead = list[Section](), section.start, ""
        for part in sorted(self._page.link_lists, key=attrgetter("start")):
            if section.start < part.start and part.end <= end:
                if part.end <= at:  # within the list before
                    continue
                lead = _last_block(self.between(at, part.start)) or lead
                at = part.end
                title = "".join(self._page.pieces[part.start : part.list_start]).strip()
                if _is_introduced(part, title or lead, is_titled=part.start in titles, is_marked=is_marked):
                    continue
                at = part.list_start
            left_out.append(part)
        self._cut(left_out)

    def _text_end(self, section: Section) -> int:
        """Returns the last piece with text in a section."""
        for first, last in reversed([*self._kept(section.start, section.end)]):
            for number in range(last - 1, first - 1, -1):
                if self._page.pieces[number].strip():
                    return number
        return section.start

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
        """Returns the prose that leads to a section: where it starts, its text, and the nodes of its blocks.

        Without such prose, it starts with the section.
        """
        start = self._lead_start(section)
        texts = [text for text in self.between(start, section.start).split(BLOCK) if text.strip()]
        blocks = zip(texts, self.blocks(start, section.start), strict=False)
        lead = [(text, node) for text, node in blocks if len(text.strip()) >= _LEAD]
        text = BLOCK.join([text for text, _ in lead]) + BLOCK
        return start if lead else section.start, text, [node for _, node in lead]

    def _lead_start(self, section: Section) -> int:
        """Returns the end of the headline before a section, or else the start of the `article` around it."""
        for headings in (self._page.titles, self._page.headings):
            for start, end in reversed(headings):
                if end <= section.start and not self._is_cut(start):
                    return end
        articles = [outer for outer in self._page.sections if outer.node.tag_id == _ARTICLE]
        return next((outer.start for outer in articles if outer.contains(section)), section.start)

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


def is_named(section: Section) -> bool:
    """Returns whether a section is named like a main part."""
    attributes = section.attributes
    return section.node.tag_id == _ARTICLE or (
        bool(attributes) and (is_article_body(attributes) or names_main_part(attributes))
    )


def _groups(beside: list[Section]) -> list[list[Section]]:
    """Returns parts beside the text in groups of the same parent, element and first class."""
    groups: dict[tuple[int, int, str], list[Section]] = {}
    for part in beside:
        groups.setdefault(kind_of_node(part.node), []).append(part)
    return list(groups.values())


def _most_prose(sections: list[Section]) -> int:
    return max([section.prose for section in sections], default=0)


def _is_hidden(part: Section) -> bool:
    return part.kind == INVISIBLE or is_not_displayed(part.attributes)


def _goes_on(part: Section) -> bool:
    """Returns whether a hidden part goes on with the paragraphs before it, or is what a heading before it opens."""
    node = part.node
    if not _is_hidden(part) or part.inner > part.prose:
        return False
    before = node.prev
    while before is not None and before.tag_id == TEXT_NODE and not (before.text_content or "").strip():
        before = before.prev
    flow = _FLOW if is_not_displayed(part.attributes) else _OPENED_BY
    if before is None or before.tag_id not in flow or kind_of(before.attributes) or node.parent is None:
        return False
    names: Attributes = {name: part.attributes[name] for name in ("class", "id") if name in part.attributes}
    if kind_of(names) or node.parent.tag_id == _BODY or node.css_first(_CONTROLS) is not None:
        return False
    return part.prose >= _MOST_OF_REST * len(" ".join(node.text().split()))


def _is_never_text(part: Section) -> bool:
    """Returns whether a part does not belong to a text beside it, however long it is."""
    return part.kind == COMMENTS or _is_hidden(part)


def _amount(parts: list[Section]) -> tuple[int, int]:
    return sum([part.inner for part in parts]), sum([part.length for part in parts])


def _last_block(text: str) -> str:
    """Returns the last block of a text that is not empty, or ""."""
    return next((block for block in map(str.strip, reversed(text.split(BLOCK))) if block), "")


def _is_introduced(part: Section, lead: str, *, is_titled: bool, is_marked: bool) -> bool:
    """Returns whether a list of links between other text belongs to it. `lead` is the block before the list.

    Tables and definitions do. A list does after a sentence that ends with a colon. A list of names does within an item
    of another list, after a sentence that goes on, and in a marked main part after any sentence or heading.
    """
    if not lead or part.node.tag_id not in _LISTS:
        return lead != ""
    are_names = part.size <= _MAX_NAME * len(part.node.css("a"))
    if is_titled:
        return is_marked and are_names
    is_sentence = len(lead) >= _SENTENCE
    if lead.endswith((":", "\uff1a")):
        return is_sentence or are_names
    around = part.node.parent
    is_marked |= around is not None and around.tag_id == _ITEM
    return is_sentence and are_names and (is_marked or lead[-1].isalnum())
