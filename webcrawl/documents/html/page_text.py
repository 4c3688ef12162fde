"""The text of an HTML page in pieces, with its sections: what `webcrawl.documents.html.sections` reads from a tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.names import TEXT
from webcrawl.documents.link_elements import Attributes

MORE_PROSE = 6
"""Parts that are beside the text by name are text after all if they have so many times the prose of the rest."""
_SEVERAL = 3


@dataclass(slots=True, eq=False)  # Lexbor compares nodes by their markup
class Section:
    """An element: the pieces of text from `start` to `end`, and how many characters they have.

    size      all characters, without parts beside the text
    linked    characters in links
    prose     characters outside of links, in blocks of at least 40
    kind      the kind that its attributes name, see `kind_of`
    inner     of a part beside the text: its prose, with the prose of such parts inside of it
    total     of a part beside the text: the prose of all such parts up to this one
    list_start  of a list of links: where it starts without the heading or label right before it
    """

    start: int
    end: int
    size: int
    linked: int
    prose: int
    node: LexborNode
    attributes: Attributes
    kind: int = TEXT
    inner: int = 0
    total: int = 0
    list_start: int = 0

    @property
    def length(self) -> int:
        """The number of pieces."""
        return self.end - self.start

    @property
    def text(self) -> int:
        """The number of characters that are not in links."""
        return self.size - self.linked

    def contains(self, other: Section) -> bool:
        """Returns whether another section is in this one, or is this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(slots=True)
class PageText:
    """The text of a page and its sections, inner ones before outer ones.

    pieces      pieces of text, with BLOCK where an element begins or ends that is not inline
    blocks      for each block with text: the index of its first piece with text, and the node of this piece
    sections    all sections that were not left out; the last section is the whole text
    beside      the `sections` whose names say that they are beside the text
    headings    start and end of the headings h2 to h6 that were not left out, in order
    titles      start and end of the headings h1
    links       start and size of each section of links that was left out
    link_lists  those sections of links that are lists or tables; their pieces remain
    named       parts that are notes or beside the text by name: their number and prose, by classes and whether they
                are paragraphs
    """

    pieces: list[str] = field(default_factory=list)
    blocks: list[tuple[int, LexborNode]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    beside: list[Section] = field(default_factory=list)
    headings: list[tuple[int, int]] = field(default_factory=list)
    titles: list[tuple[int, int]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    link_lists: list[Section] = field(default_factory=list)
    named: dict[tuple[str, bool], tuple[int, int]] = field(default_factory=dict)

    def add_named(self, names: str, prose: int, *, is_paragraph: bool) -> None:
        """Counts a part with these classes, which say that it is a note or beside the text."""
        count, amount = self.named.get((names, is_paragraph), (0, 0))
        self.named[names, is_paragraph] = count + 1, amount + prose

    def wrong_names(self, prose: int) -> set[str]:
        """Returns the classes of several parts that are the paragraphs of a text, beside other text with so much prose.

        Paragraphs are, if they have more prose; other elements, if they have several times as much.
        """
        return {
            names
            for (names, is_paragraph), (count, amount) in self.named.items()
            if count >= _SEVERAL and amount >= (1 if is_paragraph else MORE_PROSE) * prose
        }

    def cut(self, lead: int, start: int) -> None:
        """Forgets everything from `lead` on, which leads to an element at `start`; open elements keep their start."""
        while self.link_lists and self.link_lists[-1].end > lead:
            lead = min(lead, self.link_lists.pop().start)
        self.pieces[lead:] = [""] * (start - lead)
        while self.blocks and self.blocks[-1][0] >= lead:
            self.blocks.pop()
        while self.sections and self.sections[-1].start >= lead:
            self.sections.pop()
        while self.beside and self.beside[-1].start >= lead:
            self.beside.pop()
        while self.headings and self.headings[-1][0] >= lead:
            self.headings.pop()
        while self.titles and self.titles[-1][0] >= lead:
            self.titles.pop()

    def take_links(self, start: int) -> int:
        """Forgets the sections of links that were left out from a piece on; returns their size."""
        size = 0
        while self.links and self.links[-1][0] >= start:
            size += self.links.pop()[1]
        return size

    def around(self, start: int, end: int) -> Section:
        """Returns the smallest section that has the pieces from `start` to before `end`."""
        return next(section for section in self.sections if section.start <= start and end <= section.end)

    def has_title(self, section: Section) -> bool:
        """Returns whether a section has a heading h1 in it."""
        first = bisect_left(self.titles, (section.start, 0))
        return first < len(self.titles) and self.titles[first][0] < section.end

    def put_beside(self, section: Section) -> None:
        """Adds a part beside the text."""
        section.inner = section.prose + self.prose_beside(section.start)
        section.total = section.prose + (self.beside[-1].total if self.beside else 0)
        self.beside.append(section)
        self.sections.append(section)

    def prose_beside(self, start: int) -> int:
        """Returns how much prose is in the parts beside the text from a piece on."""
        if not self.beside or self.beside[-1].end <= start:
            return 0
        first = bisect_right(self.beside, start, key=attrgetter("end"))
        return self.beside[-1].total - (self.beside[first - 1].total if first else 0)
