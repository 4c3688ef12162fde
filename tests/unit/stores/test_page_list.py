"""Lists of stored pages by filters and orders, in SQLite and PostgreSQL."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.metadata import row
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores import page_list
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_filter import PageFilter
from webcrawl.stores.page_list import LISTED, ORDERS, PageList

BEGIN = datetime(2026, 2, 3, 12, tzinfo=UTC)
HOSTS = ("https://a.test", "https://a.test:8443", "https://b.test")

FILTERS: Mapping[str, tuple[dict[str, str], Callable[[dict[str, Any]], bool]]] = {
    "all": ({}, lambda row: True),
    "a usual status": ({"status": "200"}, lambda row: row["status"] == 200),
    "an unusual status": ({"status": "404"}, lambda row: row["status"] == 404),
    "a class": ({"status": "4xx"}, lambda row: row["status"] in (403, 404)),
    "several": ({"status": "301, 5xx"}, lambda row: row["status"] in (301, 503)),
    "no answer": ({"status": "none"}, lambda row: row["status"] is None),
    "none and others": ({"status": "none,404"}, lambda row: row["status"] in (None, 404)),
    "host": ({"host": HOSTS[0]}, lambda row: row["host"] == HOSTS[0]),
    "usual type": ({"mime_type": "text/html"}, lambda row: row["mime_type"] == "text/html"),
    "type": ({"mime_type": "image/png"}, lambda row: row["mime_type"] == "image/png"),
    "types": ({"mime_type": "image/*"}, lambda row: (row["mime_type"] or "").startswith("image/")),
    "language": ({"language": "de"}, lambda row: row["language"] in ("de", "de-AT")),
    "no language": ({"language": "none"}, lambda row: row["language"] is None),
    "depth": ({"depth": "2"}, lambda row: row["depth"] == 2),
    "depths": ({"depth": "1-2"}, lambda row: row["depth"] in (1, 2)),
    "deep": ({"depth": "2-"}, lambda row: row["depth"] >= 2),
    "copies": ({"duplicates": "any"}, lambda row: row["duplicate_of"] is not None),
    "near": ({"duplicates": "near"}, lambda row: row["duplicate_kind"] == "near"),
    "originals": ({"duplicates": "no"}, lambda row: row["duplicate_of"] is None),
    "since": ({"since": "2026-02-04T00:00"}, lambda row: row["fetched_at"].day >= 4),
    "until": ({"until": "2026-02-03"}, lambda row: row["fetched_at"].day == 3),
    "text": ({"text": "100%"}, lambda row: "100%" in (row["title"] or "")),
    "in the URL": ({"text": "B.TEST/1"}, lambda row: "b.test/1" in row["url"]),
    "two": (
        {"status": "404", "host": HOSTS[2]},
        lambda row: row["status"] == 404 and row["host"] == HOSTS[2],
    ),
}


def some_rows() -> list[dict[str, Any]]:
    """Thirty rows of a crawl, with every kind of value and with equal times."""
    chance = random.Random(5)
    rows = []
    for number in range(30):
        host, copy = chance.choice(HOSTS), chance.choice([None, None, "exact", "near"])
        rows.append(
            row(
                f"{host}/{number}",
                host=host,
                crawl="news",
                status=chance.choice([200, 200, 200, 301, 403, 404, 404, 503, None]),
                mime_type=chance.choice(["text/html", "text/html", "image/png", "image/gif", None]),
                language=chance.choice(["en", "de", "de-AT", None]),
                depth=chance.randrange(4),
                duplicate_of=copy and HOSTS[0] + "/0",
                duplicate_kind=copy,
                importance=chance.choice([None, 0.5, 1.0, 2.5, 7.0]),
                length=chance.choice([None, 10, 2000]),
                title=chance.choice([None, "100% cotton", "100 % wool"]),
                fetched_at=BEGIN + timedelta(hours=number),
            )
        )
    return rows


def read_windows(pages: PageList, most: int = 5) -> list[page_list.PageWindow]:
    windows, after, start = [], "", 0
    while True:
        windows.append(window := pages.window(after, start, most))
        assert len(window.rows) <= most
        if not (window.following or window.after):
            return windows
        after, start = (after, window.following) if window.following else (window.after, 0)


def is_sorted(rows: list[dict[str, Any]], order: str) -> bool:
    column, descending = ORDERS[order.removeprefix("-")]
    values = [row[column.name] for row in rows]
    known = [value for value in values if value is not None]
    nulls_last = values == known + [None] * (len(values) - len(known))
    return nulls_last and known == sorted(known, reverse=descending != order.startswith("-"))


@pytest.mark.parametrize(
    ("most_read", "has_indexes", "first_order"), [(7, True, 0), (1000, True, 2), (7, False, 4)]
)
def test_each_filter_lists_its_rows_once_in_each_order(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, most_read: int, has_indexes: bool, first_order: int
) -> None:
    monkeypatch.setattr(page_list, "MOST_READ", most_read)
    rows = some_rows()
    metadata.upsert([*rows, row("https://a.test/other", crawl="other", status=404)])
    if not has_indexes:
        drop_indexes(metadata)
    orders = [*ORDERS, "-date", "-url", "-importance"]
    for number, (name, (words, matches)) in enumerate(FILTERS.items()):
        expected = sorted(row["url"] for row in rows if matches(row))
        # each filter with some orders, in turn
        for order in orders[(number + first_order) % 6 :: 6]:
            windows = read_windows(PageList(metadata, PageFilter(crawl="news", **words), order))
            listed = [row for window in windows for row in window.rows]
            wanted = expected
            if windows[0].above_the_mean:
                wanted = [url for url in expected if importance(rows, url) >= 1]
            assert sorted(row["url"] for row in listed) == wanted, (name, order)
            if all(window.in_order for window in windows):
                assert is_sorted(listed, order), (name, order)
            if most_read > len(rows) and has_indexes:
                assert windows[0].in_order and windows[0].matching == len(expected), (name, order)


def importance(rows: list[dict[str, Any]], url: str) -> float:
    return next(row["importance"] for row in rows if row["url"] == url) or 0.0


def drop_indexes(metadata: Metadata) -> None:
    """Makes the table as it was before there were indexes."""
    names = ("by_time", "by_status", "by_type", "of_duplicates", "by_importance")
    for name in names:
        metadata.database.write(
            lambda connection, name=name: connection.execute(text(f"DROP INDEX pages_{name}"))
        )  # type: ignore[misc]


@pytest.mark.parametrize("order", ["date", "url", "importance"])
def test_a_long_list_is_in_order_from_window_to_window(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(page_list, "MOST_READ", 9)
    metadata.upsert(some_rows())
    windows = read_windows(PageList(metadata, PageFilter(crawl="news"), order), 5)
    assert all(window.in_order for window in windows)
    assert is_sorted([row for window in windows for row in window.rows], order)
    assert windows[0].above_the_mean == (order == "importance")


def test_the_latest_rows_need_the_index_of_times(metadata: Metadata) -> None:
    rows = some_rows()
    metadata.upsert([*rows, row("https://a.test/other", crawl="other", fetched_at=BEGIN + timedelta(days=9))])
    latest = PageList(metadata, PageFilter(crawl="news")).latest(3)
    assert [row["url"] for row in latest] == [row["url"] for row in rows[:-4:-1]]
    assert PageList(metadata, PageFilter()).latest(3) == []
    drop_indexes(metadata)
    assert PageList(metadata, PageFilter(crawl="news")).latest(3) == []


def test_the_rows_of_all_crawls_are_listed_by_url(metadata: Metadata) -> None:
    metadata.upsert([row("https://b.test/", crawl="b"), row("https://a.test/", crawl="a", status=404)])
    assert [row["url"] for row in PageList(metadata, PageFilter(), "url").rows()] == [
        "https://a.test/",
        "https://b.test/",
    ]
    [missing] = PageList(metadata, PageFilter(status="404")).rows()
    assert set(missing) == set(LISTED)
    assert missing["crawl"] == "a"


def test_a_window_reads_no_more_than_it_may(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that nothing matches ends the window, and the next one goes on behind it."""
    monkeypatch.setattr(page_list, "MOST_READ", 20)
    metadata.upsert(some_rows())
    windows = read_windows(PageList(metadata, PageFilter(crawl="news", text="nowhere")))
    assert [len(window.rows) for window in windows] == [0, 0]


@pytest.mark.parametrize(
    "words",
    [
        {"status": "four"},
        {"mime_type": "html"},
        {"language": "x y"},
        {"depth": "deep"},
        {"duplicates": "some"},
        {"since": "soon"},
        {"until": "2026-13-01"},
    ],
)
def test_a_wrong_filter_is_refused(metadata: Metadata, words: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="is not|no kind"):
        PageList(metadata, PageFilter(**words))


@pytest.mark.parametrize(
    "after",
    ["x", "[]", "{}", '["pages_by_time"]', '["pages_by_time","soon","u"]', '["nothing","u"]', "[[],1]", "1"],
)
def test_a_cursor_of_another_list_is_refused(metadata: Metadata, after: str) -> None:
    metadata.upsert(some_rows())
    with pytest.raises(StoreError, match="the list has changed"):
        PageList(metadata, PageFilter(crawl="news")).window(after)


def test_an_unknown_order_is_refused(metadata: Metadata) -> None:
    with pytest.raises(ConfigurationError, match="'size' is no order: choose one of date, url"):
        PageList(metadata, PageFilter(), "size")


def test_sqlite_reads_each_path_by_its_index(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of a crawl by its URLs uses the primary key: an index of the crawl would sort all of its rows."""
    if metadata.database.dialect.name != "sqlite":
        pytest.skip("PostgreSQL decides by its statistics")
    metadata.upsert(some_rows())
    plans = []
    with metadata.database.reading() as connection:
        for where, order in (
            ("crawl = 'news' AND url > 'https:'", "url"),
            (
                "crawl = 'news' AND fetches > 0 AND (tried_at, url) < ('2026-02-04', 'u')",
                "tried_at DESC, url DESC",
            ),
            (
                "crawl = 'news' AND (status IS NULL OR status != 200) AND status = 404 "
                "AND (tried_at, url) < ('2026-02-04', 'u')",
                "tried_at DESC, url DESC",
            ),
        ):
            query = f"EXPLAIN QUERY PLAN SELECT * FROM pages WHERE {where} ORDER BY {order} LIMIT 9"
            plans.append(json.dumps([line[3] for line in connection.execute(text(query))]))
    assert "autoindex_pages_1 (url>?)" in plans[0] and "TEMP" not in plans[0]
    assert "pages_by_time" in plans[1] and "FOR ORDER BY" not in plans[1]
    assert "pages_by_status" in plans[2] and "FOR ORDER BY" not in plans[2]
