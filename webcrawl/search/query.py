"""Makes a tantivy query from a person's query and the filters of a command line or a form."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from webcrawl.errors import ConfigurationError, brief
from webcrawl.search.folder import use_words_of
from webcrawl.search.schema import CALLED, MEDIA, NAMES, PAGE, TEXTS, schema, storable, tantivy
from webcrawl.search.words import called, stemmer
from webcrawl.stores.selection import of_type
from webcrawl.urls.canonical import authority

PHRASE, PAIR, WHOLE = 2.0, 2.0, 6.0
"""The weights of a phrase of all words, of each pair of neighbours, and of a title or link text with no other words.

They only change the order of pages that have the words. Fitted by `make bench-search ARGS="--fit"`.
"""
BOOSTS = {"text": 1.0, "title": 3.0, "anchors": 2.0}
"""The weight of a word in each field. A title or link text says what a page is about."""

LONGEST, DEEPEST = 1_000, 20
"""The most characters and nested brackets of a query: tantivy's parser recurses for each bracket and may overflow."""

_SIGNS = 'Put words with signs such as : ( ) [ ] + - * ^ ~ into quotation marks: "a: b"'
# a text in quotation marks, or the word NOT
_NOT = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![^\s(])NOT\s+(?=\S)')
# words without signs that tantivy's parser knows
_PLAIN = re.compile(r"\s*\w[\w.'\u2019-]*(?:\s+\w[\w.'\u2019-]*)*\s*")
# what stays as it is: texts in quotation marks of both kinds, and values; then an apostrophe, or other white space
_OTHERWISE = re.compile(
    rf"""("(?:[^"\\]|\\.)*+"?|(?<!\w)'[^'"]*'(?!\w)|\b(?:{"|".join(NAMES)}):\S*)|(')|[^\S ]"""
)
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT|IN|TO)\b")
_MOST_PAIRS = 10
_FIELD = re.compile(r"Field does not exist: '(.*)'")


@dataclass(frozen=True, slots=True)
class Filters:
    """The conditions on pages; None for no condition. Several languages or types are alternatives."""

    host: str | None = None
    languages: Sequence[str] = ()
    types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    crawl: str | None = None
    kinds: Sequence[str] = (PAGE,)


ANYTHING = Filters()


def readable(words: str) -> str:
    """Returns a query as the parser reads it: an apostrophe in a word begins no quotation, white space is a blank.

    Words and the length of the query stay the same.
    """
    return _OTHERWISE.sub(lambda match: match[1] or ("\u2019" if match[2] else " "), words)


def query_of(
    index: Any,
    words: str,
    filters: Filters,
    languages: Sequence[str],
    *,
    typed: str | None = None,
    any_word: bool = False,
) -> Any:
    """Returns a tantivy Query for pages that have all words, or any of them; raises ConfigurationError.

    `words`: a `searchable` query. `languages`: the languages in the index. Each page is searched for the stems of the
    words in its language. `typed`: the query as errors show it.
    """
    library = tantivy()
    occur, query = library.Occur, library.Query
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for language in filters.languages or languages or [""]:
        alike[stemmer(language)].append(language)
    parsed: dict[str, tuple[Any, list[str]]] = {}
    for group in alike.values():
        try:
            parsed_query = _parsed(index, words, group[0], any_word=any_word)
        except ValueError as error:
            raise ConfigurationError(explained(typed or words, str(error))) from error
        parsed.setdefault(repr(parsed_query), (parsed_query, []))[1].extend(group)
    parts = [parsed_query for parsed_query, _ in parsed.values()]
    if len(parts) > 1:
        parts = [
            query.boolean_query([(occur.Must, parsed_query), (occur.Must, _any_of("language", group))])
            for parsed_query, group in parsed.values()
        ]
    wanted = parts[0] if len(parts) == 1 else query.disjunction_max_query(parts)
    return query.boolean_query(
        [(occur.Must, wanted), *((occur.Must, condition) for condition in conditions(filters))]
    )


def check(words: str) -> None:
    """Raises ConfigurationError for a query that is empty, or that could overflow the parser."""
    if not words.strip():
        raise ConfigurationError("give the words to search for")
    if len(words) > LONGEST:
        raise ConfigurationError(f"the query has {len(words):,} characters; {LONGEST:,} are allowed")
    depth = 0
    for sign in words:
        depth += (sign == "(") - (sign == ")")
        if depth > DEEPEST:
            raise ConfigurationError(f"the query has more than {DEEPEST} nested brackets. {_SIGNS}")


def conditions(filters: Filters) -> list[Any]:
    """Returns the filters as queries that do not change scores, except that by crawl: see `Search`."""
    library = tantivy()
    made = [_any_of("kind", filters.kinds)]
    if filters.host:
        host = filters.host.lower()
        made.append(_any_of("host", [authority(host) if "://" in host else host]))
    if filters.languages:
        made.append(_any_of("language", filters.languages))
    if filters.types:
        made.append(_any_of("type", [kind.lower() for kind in filters.types]))
    if filters.since or filters.until:
        made.append(
            library.Query.range_query(
                schema(),
                "fetched",
                library.FieldType.Date,
                filters.since and storable(filters.since),
                filters.until and storable(filters.until),
            )
        )
    return [library.Query.const_score_query(condition, 0.0) for condition in made]


def _any_of(field: str, values: Sequence[str]) -> Any:
    library = tantivy()
    if len(values) == 1:
        query = library.Query.term_query(schema(), field, values[0])
    else:
        query = library.Query.term_set_query(schema(), field, list(values))
    return library.Query.const_score_query(query, 0.0)


def _parsed(index: Any, words: str, language: str, *, any_word: bool) -> Any:
    """Parses words of a language; raises ValueError."""
    use_words_of(index, language, words)
    # tantivy finds no page for "a AND NOT b", and the right pages for "a AND -b"
    written = _NOT.sub(lambda match: match[1] or "-", words)
    query = index.parse_query(written, list(TEXTS), field_boosts=BOOSTS, conjunction_by_default=not any_word)
    return _in_order(index, query, written, language) if _PLAIN.fullmatch(written) else query


def _in_order(index: Any, query: Any, words: str, language: str) -> Any:
    """Returns the query with more weight for pages that have the words as they follow each other."""
    library, each = tantivy(), words.split()
    pairs = [f"{first} {second}" for first, second in pairwise(each)]
    phrases = [(PHRASE, words)] if len(each) > 2 else []
    phrases += [(PAIR, pair) for pair in pairs[:_MOST_PAIRS] if not _OPERATOR.search(pair)]
    more = [
        library.Query.boost_query(index.parse_query(f'"{phrase}"', list(TEXTS), field_boosts=BOOSTS), weight)
        for weight, phrase in phrases
    ]
    name = library.Query.term_query(schema(), CALLED, called(language, words))
    more.append(library.Query.boost_query(name, WHOLE))
    occur = library.Occur
    return library.Query.boolean_query([(occur.Must, query), *((occur.Should, other) for other in more)])


def explained(words: str, error: str) -> str:
    """Returns a message for tantivy's error about a query."""
    if match := _FIELD.search(error):
        return f"{match[1]!r} before a colon is not a field; the fields are {', '.join((*TEXTS, *NAMES))}. {_SIGNS}"
    if "not a fast field" in error:
        return "a field cannot be searched for any value (`field:*`): name one"
    if "Only excluding" in error:
        return "the query only says what pages must not have: add a word that they must have"
    # the text of a syntax error is the query as it was rewritten
    why = "" if error.startswith("Syntax Error") else f": {brief(error)}"
    return f"{brief(words)!r} is not a query{why}. {_SIGNS}"


def asked_filters(
    *,
    host: str | None = None,
    language: str | None = None,
    type: str | None = None,  # the name of the option
    since: str | None = None,
    until: str | None = None,
    crawl: str | None = None,
    media: bool = False,
) -> Filters:
    """Returns the filters; None is no condition. Raises ConfigurationError."""
    if type:
        of_type(type)  # raises ConfigurationError
    return Filters(
        host=host,
        languages=_words(language),
        types=_words(type),
        since=read_time("--since", since),
        until=read_time("--until", until, is_end=True),
        crawl=crawl,
        kinds=MEDIA if media else (PAGE,),
    )


def _words(text: str | None) -> list[str]:
    return [word.strip().lower() for word in (text or "").split(",") if word.strip()]


def read_time(option: str, text: str | None, *, is_end: bool = False) -> datetime | None:
    """Reads the date or time of an option, by default in UTC. A date that ends a period includes its day."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        is_date = len(text) == len("2026-02-03")
        if is_end and is_date:
            moment += timedelta(days=1, microseconds=-1)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{option}: {text!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z"
        ) from error
