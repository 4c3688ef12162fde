"""Pages of the records of an iteration that the tables have; those in the engine are in tests/crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.metadata import NOW, at, row
from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.errors import StoreError
from webcrawl.jobs.record_pages import SHOWN, RecordPages
from webcrawl.jobs.url_records import RecordState, Sources, URLRecord
from webcrawl.stores.chosen_columns import ChosenColumns
from webcrawl.stores.metadata import Metadata

CRAWL = "news-20260327T053000Z"
SITE = "https://example.org"


class Stored:
    """A database that iterations share, with rows and stuck pages."""

    def __init__(self, uri: str, stack: ExitStack) -> None:
        self.uri = uri
        self.metadata = stack.enter_context(Metadata(uri))
        self.stuck = stack.enter_context(StuckPages(uri))

    def add(self, *paths: str, crawl: str = CRAWL, **more: Any) -> None:
        self.metadata.upsert([row(f"{SITE}{path}", status=200, **more) | {"crawl": crawl} for path in paths])

    def read(self, state: str = "", prefix: str = "") -> list[list[URLRecord]]:
        """The records of each page."""
        sources = Sources(CRAWL, NOW - timedelta(days=1), 0, None, self.stuck, self.metadata)
        pages = RecordPages(
            sources, lambda: ChosenColumns(self.uri), RecordState(state) if state else None, prefix
        )
        found, after = [], ""
        while after or not found:
            page = asyncio.run(pages.page(after))
            found.append(page.records)
            after = page.after
        return found

    def paths(self, state: str = "", prefix: str = "") -> list[str]:
        return [one.url.removeprefix(SITE) for records in self.read(state, prefix) for one in records]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    with ExitStack() as stack:
        yield Stored(f"sqlite:///{tmp_path}/metadata.db", stack)


def a_stuck(path: str, kind: Any = "DOCUMENT", **more: Any) -> StuckPage:
    return StuckPage(CRAWL, f"{SITE}{path}", kind, "why", at(1), at(2), **more)


def test_each_url_is_on_one_page_in_one_state(stored: Stored) -> None:
    rows = [f"/{number:04}" for number in range(250)]
    stored.add(*rows, "/z")
    stored.stuck.add([a_stuck(path) for path in rows[:150]])
    stored.stuck.add([a_stuck(path, "SCHEMA") for path in rows[95:110]])
    stored.stuck.add(
        [a_stuck("/letter", "DEAD_LETTER"), StuckPage("other", f"{SITE}/z", "SCHEMA", "", NOW, NOW)]
    )
    found = stored.read()
    assert [max(map(len, found)) <= SHOWN, len(found)] == [True, 4]
    assert stored.paths() == [*rows[:150], "/letter", *rows[150:], "/z"]
    assert stored.paths("STUCK") == [*rows[:150], "/letter"]
    assert stored.paths("PROCESSED") == [*rows[150:], "/z"]
    assert stored.paths("QUEUED") == stored.paths("CRAWLED") == []


def test_records_have_their_times(stored: Stored) -> None:
    stored.add("/queued", fetched_at=at(5), queued_at=at(3))
    stored.add("/old", fetched_at=at(5))
    stored.stuck.add([a_stuck("/stuck", queued_at=at(0.5)), a_stuck("/stuck-old")])
    stored.stuck.mark_notified(CRAWL, "DOCUMENT", at(9), until=at(9))
    times = {one.url.removeprefix(SITE): one[2:5] for records in stored.read() for one in records}
    assert times == {
        "/stuck": (at(0.5), at(2), at(9)),
        "/stuck-old": (at(1), at(2), at(9)),
        "/queued": (at(3), at(5), None),
        "/old": (at(5), at(5), None),
    }


@pytest.mark.parametrize(
    "prefix", ["https://example.org/a", "https://example.org/a/%_", "https://example.or", "https://x"]
)
def test_a_prefix_is_taken_as_it_is(stored: Stored, prefix: str) -> None:
    paths = ["/a", "/a/%_", "/a/%_/b", "/a/x", "/b", "/aé"]
    stored.add(*paths)
    stored.stuck.add([a_stuck(f"{path}/stuck") for path in paths])
    wanted = [path for path in paths if f"{SITE}{path}".startswith(prefix)]
    stuck = [f"{path}/stuck" for path in paths if f"{SITE}{path}/stuck".startswith(prefix)]
    assert sorted(stored.paths(prefix=prefix)) == sorted(wanted + stuck)


def test_rows_of_other_iterations_are_read_past(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page reads a bounded number of them, and says where to read on."""
    monkeypatch.setattr("webcrawl.jobs.record_pages._READ_TOGETHER", 10)
    monkeypatch.setattr("webcrawl.jobs.record_pages._MOST_READ", 30)
    stored.add(*(f"/{number:04}" for number in range(95)), crawl="news-20260326T053000Z")
    stored.add("/0040", "/9999")
    assert [[one.url.removeprefix(SITE) for one in page] for page in stored.read("PROCESSED")] == [
        [],
        ["/0040"],
        [],
        ["/9999"],
    ]


@pytest.mark.parametrize(
    ("state", "place"), [("", "x"), ("", "pages:/a"), ("STUCK", "rows:/a"), ("QUEUED", "stuck:")]
)
def test_a_place_of_no_page_is_refused(stored: Stored, state: str, place: str) -> None:
    sources = Sources(CRAWL, NOW, 0, None, stored.stuck, stored.metadata)
    pages = RecordPages(sources, lambda: ChosenColumns(stored.uri), RecordState(state) if state else None)
    with pytest.raises(StoreError, match="is no position in these records: begin at their first page"):
        asyncio.run(pages.page(place))
