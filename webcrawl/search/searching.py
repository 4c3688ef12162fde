"""Searches an index for the best pages, with snippets; copies of a page are a single result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.search.entry import IndexedPage, key_of, unpacked
from webcrawl.search.folder import damages, open_to_read
from webcrawl.search.prefixes import expanded, has_prefix
from webcrawl.search.query import ANYTHING, Filters, check, conditions, explained, query_of, readable
from webcrawl.search.schema import FACETS, PAGE, schema, tantivy
from webcrawl.search.similar import similar_to
from webcrawl.search.snippets import Snippets
from webcrawl.search.spelling import Spelling
from webcrawl.search.state import PageCrawls
from webcrawl.search.vocabulary import Vocabulary
from webcrawl.search.words import as_typed, composed, searchable

MOST_COPIES = 10
_MOST_CRAWLS = 20
FEW, MANY_MORE = 3, 20
"""A search with fewer results suggests another one that has this many times as many."""
MOST_VALUES = 20
"""The most values of a facet."""
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
    """The hits. `total` includes copies. `has_all`: false if no page has all words, and the hits have some of them.

    corrected  the query with other words, to which the hits belong, because nothing was found for the query itself
    suggested  a query with other words that finds more pages; the hits belong to the query itself
    facets     by the name of a filter (host, language, type): its values, and how many of all results have each
    """

    hits: Sequence[Hit]
    total: int
    has_all: bool = True
    corrected: str | None = None
    suggested: str | None = None
    facets: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)


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

    def find(
        self,
        words: str,
        filters: Filters = ANYTHING,
        limit: int = 10,
        offset: int = 0,
        *,
        by_date: bool = False,
        facets: bool = False,
    ) -> Results:
        """Returns the best pages for a query, or the newest with `by_date`, without the first `offset` ones.

        If no page has all words, words that are written nearly so are searched for, and then pages with any word.
        """
        check(words)
        with damages(self.folder), _wrong_values(words):
            asked, corrected, has_all = searchable(composed(words)), None, True
            total = self._total(self._query(asked, filters))
            better = self._better(asked, filters, total) if total < FEW else None
            if not total and better is not None:
                asked = corrected = better
            elif not total:
                has_all = False
            query = self._query(asked, filters, any_word=not has_all)
            hits, total = self._best(query, asked, offset + limit, offset, by_date=by_date)
            counted = self._facets(query) if facets else {}
        suggested = None if corrected else better
        return Results(hits, total, has_all or not total, as_typed(corrected), as_typed(suggested), counted)

    def like(
        self,
        url: str,
        filters: Filters = ANYTHING,
        limit: int = 10,
        offset: int = 0,
        *,
        by_date: bool = False,
        facets: bool = False,
    ) -> Results:
        """Returns the pages with the most characteristic words of a page, without it and its copies.

        Raises ConfigurationError for a URL that is not in the index.
        """
        must, exclude = tantivy().Occur.Must, tantivy().Occur.MustNot
        with damages(self.folder):
            stored = self._page_of(url)
            if stored is None:
                raise ConfigurationError(
                    f"{url} is not in the index: `scrapy search --update` adds new pages"
                )
            entry, text = stored
            itself = tantivy().Query.term_query(schema(), "first", key_of(entry.first))
            alike = similar_to(self.searcher, entry, text)
            query = self._within([(must, alike), (exclude, itself)], filters)
            asked = searchable(composed(entry.title or ""))
            hits, total = self._best(query, asked, offset + limit, offset, by_date=by_date)
            return Results(hits, total, facets=self._facets(query) if facets else {})

    def _query(self, asked: str, filters: Filters, *, any_word: bool = False) -> Any:
        """Returns the tantivy Query for a `searchable` query and the filters."""
        written = readable(asked)
        written = expanded(self.searcher, written) if has_prefix(written) else written
        query = query_of(
            self.index, written, filters, self.languages, typed=as_typed(asked), any_word=any_word
        )
        return self._within([(tantivy().Occur.Must, query)], filters) if filters.crawl else query

    def _within(self, parts: list[tuple[Any, Any]], filters: Filters) -> Any:
        must, made = tantivy().Occur.Must, [*parts]
        made += [(must, condition) for condition in conditions(filters)]
        condition = self._of_crawl(filters.crawl) if filters.crawl else None
        return tantivy().Query.boolean_query([*made, *([(must, condition)] if condition is not None else [])])

    def _total(self, query: Any) -> int:
        total: int = self.searcher.search(query, 1).count
        return total

    def _better(self, asked: str, filters: Filters, total: int) -> str | None:
        """Returns a query with words that are written nearly so, for which many more pages are found."""
        vocabulary = Vocabulary.read(self.folder)
        if vocabulary is None:
            return None
        spelling = Spelling(self.searcher, vocabulary, self.languages)
        least = max(1, MANY_MORE * total)
        return spelling.corrected(asked, lambda query: self._total(self._query(query, filters)), least)

    def _facets(self, query: Any) -> dict[str, list[tuple[str, int]]]:
        """Returns the most frequent values of each facet. Families of types, such as `text/*`, are no values."""
        wanted = {
            name: {"terms": {"field": field, "size": 2 * MOST_VALUES}} for name, field in FACETS.items()
        }
        counts = self.searcher.aggregate(query, wanted)
        return {
            name: [
                (bucket["key"], bucket["doc_count"])
                for bucket in counts[name]["buckets"]
                if bucket["key"] and not bucket["key"].endswith("/*")
            ][:MOST_VALUES]
            for name in FACETS
        }

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

    def _best(
        self, query: Any, asked: str, limit: int, offset: int, *, by_date: bool
    ) -> tuple[list[Hit], int]:
        """Returns the best or newest pages from `offset` to `limit` and the total. Pages by date have a score of 0.

        Reads more results while too few pages are not copies.
        """
        chosen: dict[int, list[_Candidate]] = {}
        total, done, wanted = 0, 0, limit * 2
        while True:
            order = {"order_by_field": "date"} if by_date else {"weight_by_field": "weight"}
            results = self.searcher.search(query, wanted, offset=done, **order)
            total = total or results.count
            addresses = [address for _, address in results.hits]
            firsts = self.searcher.fast_field_values("first", addresses)
            keys = self.searcher.fast_field_values("key", addresses)
            for (score, address), first, key in zip(results.hits, firsts, keys, strict=True):
                if first in chosen or len(chosen) < limit:
                    candidate = _Candidate(0.0 if by_date else score, address, is_first=key == first)
                    chosen.setdefault(first, []).append(candidate)
            done += len(addresses)
            if len(chosen) >= limit or len(addresses) < wanted or done >= _MOST_READ:
                break
            wanted *= 2
        snippets = Snippets(self.index, self.searcher, query, asked)
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
        with damages(self.folder):
            stored = self._page_of(url)
        if stored is None:
            return None
        entry, text = stored
        return text if entry.kind == PAGE else ""

    def _page_of(self, url: str) -> tuple[IndexedPage, str] | None:
        query = tantivy().Query.term_query(schema(), "key", key_of(url))
        hits = self.searcher.search(query, 1, count=False).hits
        return self.page(hits[0][1]) if hits else None

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
