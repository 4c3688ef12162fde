"""The column `importance`, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.metadata import row
from webcrawl.stores import chosen_columns
from webcrawl.stores.chosen_columns import ImportanceColumn
from webcrawl.stores.metadata import Metadata

URLS = [f"https://example.org/{number}" for number in range(5)]


@pytest.fixture
def column(uri: str, metadata: Metadata) -> Iterator[ImportanceColumn]:
    metadata.upsert([row(url, crawl="news", importance=float(n)) for n, url in enumerate(URLS)])
    metadata.upsert([row("https://example.org/other", crawl="other")])
    column = ImportanceColumn(uri)
    yield column
    column.close()


def test_the_pages_of_one_crawl_are_read_in_parts(
    column: ImportanceColumn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_columns, "IMPORTANCE_ROWS", 2)
    found, after = [], ""
    while part := column.read("news", after):
        assert len(part) <= 2
        found += part.items()
        after = found[-1][0]
    assert found == [(url, float(n)) for n, url in enumerate(URLS)]


def test_importance_is_updated_and_nothing_else(column: ImportanceColumn, metadata: Metadata) -> None:
    before = metadata.get_many(URLS)
    column.write({URLS[3]: 0.5, URLS[0]: 12.25, "https://example.org/unknown": 1.0})
    column.write({})
    after = metadata.get_many(URLS)
    assert [after[url]["importance"] for url in URLS] == [12.25, 1.0, 2.0, 0.5, 4.0]
    for url in URLS:
        assert before[url] | {"importance": None} == after[url] | {"importance": None}
