"""Known-item queries: words that lead to one page, taken from documentation by rules, and the same with typing errors.

    title    a title that one page has, without the name of the site; of four words or more, one is left out
    heading  a heading of a section (h2, h3) of two to six words that one page has
    entry    an entry of the index of a book (bookindex.html, genindex-*.html) that leads to one page, without the words
             in brackets that say what it is: "pairwise itertools", not "pairwise (in module itertools)"

The pages from which entries are taken are not searched. Titles, headings and entries are drawn by a fixed seed.
A typing error is one edit in the longest word, not of its first letter: a letter is left out, doubled, replaced by
another one, or swapped with the next.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urldefrag, urljoin

from selectolax.lexbor import LexborHTMLParser

ENTRY_PAGES = r"/(?:bookindex|genindex[^/]*|py-modindex)\.html"
"""Pages that list entries: they are read for queries, and not searched."""
_SITE = re.compile(r"\s+[—–-]\s+(?:Python [\d.]+ documentation|(?:The |Rust ).*)$")
_NUMBER = re.compile(r"^(?:(?:Chapter|Appendix)\s+\w+\.\s*|(?:[A-Z]\.)?\d[\d.]*\s+)")
_NOTE = re.compile(r"\(([^)]*)\)")
_KINDS = re.compile(
    "in|module|class|method|static|attribute|property|function|built-in"
    "|c|member|macro|type|struct|enum|var|exception"
)
_WORD = re.compile(r"[^\W_]+(?:[_'.-][^\W_]+)*")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
SEED = 300
_LEAST, _MOST = 2, 6
_LEAST_LETTERS = 5


class KnownItem(NamedTuple):
    """A query, the rule by which it was made, and the URL of the page that is wanted."""

    words: str
    rule: str
    url: str


def known_items(pages: Mapping[str, bytes], entry_pages: Mapping[str, bytes], number: int) -> list[KnownItem]:
    """Returns `number` queries, a third by each rule; the HTML of the pages is given by URL."""
    chance = random.Random(SEED)
    chosen: list[KnownItem] = []
    entries = _entries(pages, entry_pages)
    for rule, made in (("title", _titles(pages)), ("heading", _headings(pages)), ("entry", entries)):
        urls_by_words: defaultdict[str, set[str]] = defaultdict(set)
        for words, url in made:
            urls_by_words[words].add(url)
        unique = sorted((words, *urls) for words, urls in urls_by_words.items() if len(urls) == 1)
        for words, url in chance.sample(unique, min(number // 3, len(unique))):
            chosen.append(KnownItem(_shortened(words, chance) if rule == "title" else words, rule, url))
    return chosen


def misspelt(items: list[KnownItem]) -> list[KnownItem]:
    """Returns the queries that have a word of five letters or more, with a typing error in the longest one."""
    chance = random.Random(SEED + 1)
    return [
        item._replace(words=item.words.replace(word, _with_error(word, chance), 1))
        for item in items
        if len(word := max(re.findall(r"[a-z]+", item.words), key=len, default="")) >= _LEAST_LETTERS
    ]


def _with_error(word: str, chance: random.Random) -> str:
    while True:
        at = chance.randrange(1, len(word))
        letter = chance.choice(_LETTERS)
        swapped = word[at + 1 : at + 2] + word[at]
        rest = word[at + 1 :], word[at] + word[at:], letter + word[at + 1 :], swapped + word[at + 2 :]
        changed = word[:at] + chance.choice(rest)
        if changed != word:
            return changed


def _shortened(words: str, chance: random.Random) -> str:
    parts = words.split()
    if len(parts) >= 4:
        del parts[chance.randrange(len(parts))]
    return " ".join(parts)


def _titles(pages: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for url, html in pages.items():
        title = LexborHTMLParser(html).css_first("title")
        if title is not None and (words := _words(_SITE.sub("", title.text().strip()))):
            yield words, url


def _headings(pages: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for url, html in pages.items():
        for heading in LexborHTMLParser(html).css("h2, h3"):
            words = _words(heading.text().replace("¶", "").strip())
            if _LEAST <= len(words.split()) <= _MOST:
                yield words, url


def _entries(pages: Mapping[str, bytes], entry_pages: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yields entries of the first level: those below them are words without their head."""
    for base, html in entry_pages.items():
        tree = LexborHTMLParser(html)
        for link in tree.css("table.genindextable > tbody > tr > td > ul > li > a[href]"):
            if (url := _target(base, link.attributes["href"])) in pages:
                yield _words(_NOTE.sub(_without_kind, link.text())), url
        for entry in tree.css("div.indexdiv > dl > dt"):
            links = entry.css("a.indexterm")
            name = entry.text().rpartition(", " + links[0].text())[0] if len(links) == 1 else ""
            if name and (url := _target(base, links[0].attributes["href"])) in pages:
                yield _words(name), url


def _without_kind(note: re.Match[str]) -> str:
    """Returns a note in brackets without what it says about the kind of an entry."""
    return " ".join(word for word in note[1].split() if not _KINDS.fullmatch(word.lower()))


def _target(base: str, link: str | None) -> str:
    return urldefrag(urljoin(base, link or ""))[0]


def _words(text: str) -> str:
    """Returns the words of a text, without the number of a section."""
    return " ".join(_WORD.findall(_NUMBER.sub("", text).lower()))
