"""Rows that are read again, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.metadata import at, row
from webcrawl.errors import ConfigurationError
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.reread_rows import READ_FIELDS, ComparedText, RereadRows, sql_condition
from webcrawl.stores.selection import of_type

A, B, C, D, E = (f"https://example.org/{name}" for name in "abcde")
PLACE = {"crawl": "news", "status": 200, "digest": "sha1:A", "warc_file": "f", "warc_length": 9}


@pytest.fixture
def rows(uri: str, metadata: Metadata) -> Iterator[RereadRows]:
    metadata.upsert(
        [
            row(A, **PLACE, warc_offset=20, title="it's 100%: a", mime_type="text/html"),
            row(B, **PLACE, warc_offset=10, mime_type="image/png"),
            row(C, crawl="news", status=200),
            row(D, crawl="news", error="refused"),
            row(E, **PLACE | {"crawl": "other", "warc_offset": 0}),
        ]
    )
    rows = RereadRows(uri, "news")
    yield rows
    rows.close()


def test_archived_pages_of_a_crawl_are_chosen_in_the_order_of_the_archive(rows: RereadRows) -> None:
    assert rows.crawls() == ["news", "other"]
    assert [tuple(place) for place in rows.locations([])] == [(B, "f", 10), (A, "f", 20)]
    assert rows.count([]) == {"pages": 2, "not_archived": 1, "no_response": 1}
    assert [place.url for place in rows.locations([of_type("text/*")])] == [A]
    nothing = {"pages": 0, "not_archived": 0, "no_response": 0}
    conditions = {
        "title = 'it''s 100%: a' -- :x": [A],
        "title LIKE '%100!%: _' ESCAPE '!'": [A],
        "status = 404": [],
        "warc_offset < 15 OR title IS NULL": [B],
    }
    for sql, urls in conditions.items():
        assert [place.url for place in rows.locations([sql_condition(sql)])] == urls, sql
    assert rows.count([sql_condition("status = 404")]) == nothing


@pytest.mark.parametrize("sql", ["nonsense here", "colour = 'red'", "status = ", "(", "status = 200)"])
def test_a_condition_that_the_database_refuses_is_named(rows: RereadRows, sql: str) -> None:
    with pytest.raises(ConfigurationError, match="the rows cannot be chosen: "):
        rows.count([sql_condition(sql)])


def test_only_what_reading_gives_changes_and_only_of_the_same_fetch(
    rows: RereadRows, metadata: Metadata
) -> None:
    before = metadata.get_many([A, B, C, D])
    new: dict[str, Any] = {
        **dict.fromkeys(READ_FIELDS),
        "title": "new",
        "simhash": 2**64 - 1,
        "details": {"a": 1},
    }
    new |= {"error": "cut", "language": "fr", "length": 3}
    fetch = {"fetched_at": at(0), "warc_file": "f"}
    changes = [
        {**new, **fetch, "url": A, "warc_offset": 20},
        {**new, **fetch, "url": B, "warc_offset": 11},
        {**new, **fetch, "url": "https://example.org/gone", "warc_offset": 0},
    ]
    assert rows.rewrite(changes) == [True, False, False]
    assert rows.rewrite([{**changes[0], "fetched_at": at(1), "title": "newer"}]) == [False]
    assert rows.rewrite([]) == []
    assert metadata.get_many([A, B, C, D]) == before | {A: {**before[A], **new}}


def test_texts_are_listed_in_the_order_of_fetching_and_marked(rows: RereadRows, metadata: Metadata) -> None:
    def put(url: str, minutes: int, simhash: int | None, **values: Any) -> None:
        metadata.upsert(
            [row(url, crawl="news", status=200, fetched_at=at(minutes), simhash=simhash, **values)]
        )

    put(A, 5, 2**63)
    put(B, 3, 1, duplicate_kind="near", duplicate_of=A)
    put(C, 4, None, duplicate_kind="near", duplicate_of=A)
    put(D, 2, 1, duplicate_kind="exact", duplicate_of=A)
    put("https://example.org/f", 1, 1, soft_404=True)
    assert list(rows.texts()) == [
        ComparedText(B, 1, A),
        ComparedText(C, None, A),
        ComparedText(A, 2**63, None),
    ]
    rows.mark({B: None, A: B, "https://example.org/gone": B})
    found = metadata.get_many([A, B, C])
    assert {url: (one["duplicate_kind"], one["duplicate_of"]) for url, one in found.items()} == {
        A: ("near", B),
        B: (None, None),
        C: ("near", A),
    }
