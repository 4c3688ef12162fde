"""Searches an index for the best pages, with snippets; copies of a page are a single result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.search.entry import IndexedPage, key_of, unpacked
from webcrawl.search.folder import damages, open_to_read, use_words_of
from webcrawl.search.query import ANYTHING, Filters, explained, query_of
from webcrawl.search.schema import PAGE, schema, tantivy
from webcrawl.search.state import PageCrawls
from webcrawl.search.words import searchable

SNIPPET = 200
"""The approximate characters of a snippet."""
_PART = 100_000
"""The characters that are searched at a time for a snippet."""
_MOST_PARTS = 4
MOST_COPIES = 10
_MOST_CRAWLS = 20
_MOST_READ = 20_000
"""The most results that are read to find pages that are not copies."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A page with the words. `marks`: the start and end of each word in `snippet`.

    `copies`: the URLs of up to MOST_COPIES further results that are copies of this page, or of the same original.
    """

    entry: IndexedPage
    score: float
    snippet: str
    marks: Sequence[tuple[int, int]]
    copies: list[str] = field(default_factory=list)


class _Candidate(NamedTuple):
    score: float
    address: Any
    is_first: bool


@dataclass(frozen=True, slots=True)
class Results:
    """The hits. `total` includes copies. `has_all`: false if no page has all words, and the hits have some of them."""

    hits: Sequence[Hit]
    total: int
    has_all: bool = True


class Search:
    """An index that is open for searches. Methods raise StoreError, or ConfigurationError for an invalid query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = open_to_read(folder)
        with damages(folder):
            self.searcher = self.index.searcher()
            terms = self.searcher.terms_with_prefix("language", "")
        self._crawls = PageCrawls.read(folder)
        self.languages = [language for language, _ in terms]
        """The languages of the pages; "" for pages without a language."""

    def find(self, words: str, filters: Filters = ANYTHING, limit: int = 10, offset: int = 0) -> Results:
        """Returns the best pages for a query, without the first `offset` ones."""
        condition = self._of_crawl(filters.crawl) if filters.crawl else None
        for any_word in (False, True):
            query = query_of(self.index, words, filters, self.languages, any_word=any_word)
            if condition is not None:
                must = tantivy().Occur.Must
                query = tantivy().Query.boolean_query([(must, query), (must, condition)])
            with damages(self.folder), _wrong_values(words):
                hits, total = self._best(query, offset + limit, offset)
            if total:
                return Results(hits, total, not any_word)
        return Results([], 0)

    def _of_crawl(self, crawl: str) -> Any:
        """Returns a query for the pages that a crawl requested last; None if these are all pages.

        Raises ConfigurationError, which names the crawls with pages, for a crawl without pages.
        """
        if self._crawls is None:
            return tantivy().Query.term_query(schema(), "crawl", crawl)
        names = sorted(filter(None, self._crawls.names))
        if crawl not in names:
            others = f"; crawls in it: {', '.join(names[:_MOST_CRAWLS])}" if names else ""
            raise ConfigurationError(f"no page in the index was fetched last by crawl {crawl!r}{others}")
        return self._crawls.condition(crawl)

    def _best(self, query: Any, limit: int, offset: int) -> tuple[list[Hit], int]:
        """Returns the best pages from `offset` to `limit` and the total.

        Reads more results while too few pages are not copies.
        """
        chosen: dict[int, list[_Candidate]] = {}
        total, done, wanted = 0, 0, limit * 2
        while True:
            results = self.searcher.search(query, wanted, offset=done, weight_by_field="weight")
            total = total or results.count
            addresses = [address for _, address in results.hits]
            firsts = self.searcher.fast_field_values("first", addresses)
            keys = self.searcher.fast_field_values("key", addresses)
            for (score, address), first, key in zip(results.hits, firsts, keys, strict=True):
                if first in chosen or len(chosen) < limit:
                    chosen.setdefault(first, []).append(_Candidate(score, address, is_first=key == first))
            done += len(addresses)
            if len(chosen) >= limit or len(addresses) < wanted or done >= _MOST_READ:
                break
            wanted *= 2
        snippets = Snippets(self.index, self.searcher, query)
        return [
            self._hit(candidates, snippets) for candidates in islice(chosen.values(), offset, None)
        ], total

    def _hit(self, candidates: Sequence[_Candidate], snippets: Snippets) -> Hit:
        """Returns the original if it is among the results, or else the best copy, with the best score of all."""
        best = next((candidate for candidate in candidates if candidate.is_first), candidates[0])
        entry, text = self.page(best.address)
        snippet, marks = snippets.of(entry, text)
        others = [candidate for candidate in candidates if candidate is not best][:MOST_COPIES]
        copies = [self.page(candidate.address)[0].url for candidate in others]
        return Hit(entry, candidates[0].score, snippet, marks, copies)

    def text_of(self, url: str) -> str | None:
        """Returns the text of a page, or None if the page is not in the index or is an image, audio or video file."""
        query = tantivy().Query.term_query(schema(), "key", key_of(url))
        with damages(self.folder):
            hits = self.searcher.search(query, 1, count=False).hits
            if not hits:
                return None
            entry, text = self.page(hits[0][1])
            return text if entry.kind == PAGE else ""

    def page(self, address: Any) -> tuple[IndexedPage, str]:
        """Returns the entry and the text of a page."""
        data = self.searcher.doc(address).get_first("page")
        if data is None:
            raise StoreError(
                f"the index in {self.folder} is damaged: make it anew by `scrapy search --update --again`"
            )
        entry, text = unpacked(bytes(data))
        return entry if self._crawls is None else replace(entry, crawl=self._crawls.of(entry.key)), text


@contextmanager
def _wrong_values(words: str) -> Iterator[None]:
    """Raises ConfigurationError for errors in a query that tantivy detects only when it searches."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Schema error"):
            raise
        raise ConfigurationError(explained(words, str(error))) from error


class Snippets:
    """Finds the part of a text with the most words of a query."""

    def __init__(self, index: Any, searcher: Any, query: Any) -> None:
        self._index = index
        self._generator = tantivy().SnippetGenerator.create
        self._about = (searcher, query, schema(), "text")

    def of(self, entry: IndexedPage, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Returns the best part as one line, and the marks of words in it; the start of the text if it has no word."""
        text = text or entry.description or ""
        use_words_of(self._index, entry.language, text[:_PART])
        generator = self._generator(*self._about)
        generator.set_max_num_chars(SNIPPET)
        for start in range(0, min(len(text), _PART * _MOST_PARTS), _PART):
            document, searched = tantivy().Document(), searchable(text[start : start + _PART])
            document.add_text("text", searched)
            snippet = generator.snippet_from_doc(document)
            if marks := [(span.start, span.end) for span in snippet.highlighted()]:
                return _line(
                    snippet.fragment(), marks, _as_written(snippet.fragment(), searched, text, start)
                )
        return " ".join(text[:SNIPPET].split()), []


def _as_written(fragment: str, searched: str, text: str, start: int) -> str:
    """Returns a fragment as the text writes it. `searched` is the searched part, which begins at `start`."""
    offset = start + searched.find(fragment)
    return text[offset : offset + len(fragment)]


def _line(fragment: str, marks: Sequence[tuple[int, int]], written: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns a text as one line, and its marks, converted from offsets in UTF-8 to offsets in characters.

    Marks that touch are joined, for example the marks of a phrase in Chinese.
    """
    raw = fragment.encode()
    joined: list[tuple[int, int]] = []
    for mark in sorted({*marks}):
        start, end = (len(raw[:offset].decode("utf-8", "ignore")) for offset in mark)
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return "".join(" " if sign.isspace() else sign for sign in written), joined
