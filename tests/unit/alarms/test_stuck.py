"""Table `stuck` in SQLite and PostgreSQL."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.metadata import NOW, at, row
from tests.postgres import PostgresServer
from webcrawl.alarms.stuck import Kind, RawPage, StuckPage, StuckPages
from webcrawl.errors import StoreError
from webcrawl.stores.columns import LONGEST_KEY
from webcrawl.stores.database import Database
from webcrawl.stores.metadata import Metadata


@pytest.fixture
def stuck(uri: str) -> Iterator[StuckPages]:
    with StuckPages(uri) as pages:
        yield pages


def a_page(number: int, kind: Kind = "SCHEMA", crawl: str = "news", minutes: float = 0) -> StuckPage:
    then = at(minutes)
    return StuckPage(crawl, f"https://example.org/{number:03}", kind, f"reason {number}", then, then)


def test_pages_are_listed_by_url_and_read_in_batches(stuck: StuckPages) -> None:
    pages = [a_page(number) for number in range(7)] + [a_page(3, "DOCUMENT")]
    stuck.add([*reversed(pages), a_page(9, crawl="shop")])
    expected = sorted(pages, key=lambda page: (page.url, page.kind))
    found: list[StuckPage] = []
    while batch := stuck.pages("news", found[-1] if found else None, limit=3):
        found += batch
    assert found == expected
    assert stuck.count("news") == {"SCHEMA": 7, "DOCUMENT": 1}
    assert stuck.count("other") == {}


def test_page_that_is_stuck_again_keeps_when_it_first_was(stuck: StuckPages) -> None:
    stuck.add([a_page(1)])
    stuck.mark_notified("news", "SCHEMA", at(1), until=at(1))
    again = StuckPage("news", a_page(1).url, "SCHEMA", "NUL \0 and \ud800", at(5), at(5))
    stuck.add([a_page(1), again, again])
    assert stuck.pages("news") == [
        StuckPage("news", again.url, "SCHEMA", "NUL \ufffd and ?", NOW, at(5), at(1))
    ]


def test_page_that_is_stuck_again_keeps_when_it_was_queued_first(stuck: StuckPages) -> None:
    for minute, queued in ((5, None), (6, 1), (7, 2), (8, None)):
        page = replace(a_page(1, minutes=minute), queued_at=None if queued is None else at(queued))
        stuck.add([page])
    (found,) = stuck.pages("news")
    assert (found.queued_at, found.created, found.updated) == (at(1), at(5), at(8))


def test_an_older_file_that_may_only_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path}/metadata.db"
    StuckPages(uri).close()
    monkeypatch.setattr("webcrawl.alarms.stuck.is_read_only", lambda _: True)
    StuckPages(uri).close()
    database = Database(uri)
    database.write(lambda connection: connection.exec_driver_sql("UPDATE alarms_version SET version = 1"))
    database.close()
    with pytest.raises(
        StoreError, match="written by an older webcrawl: its schema is 1, this version supports 2"
    ):
        StuckPages(uri)


def test_notifications_tell_of_each_page_once(stuck: StuckPages) -> None:
    stuck.add([a_page(1), a_page(2), a_page(3, "DOCUMENT"), a_page(4, minutes=9), a_page(5, crawl="shop")])
    assert stuck.count_untold("news") == {"SCHEMA": (3, at(9)), "DOCUMENT": (1, NOW)}
    assert stuck.untold("news", "DOCUMENT") == [a_page(3, "DOCUMENT")]
    assert stuck.mark_notified("news", "SCHEMA", at(2), until=at(1)) == 2
    assert stuck.untold("news", "SCHEMA") == [a_page(4, minutes=9)]
    assert stuck.mark_notified("news", "SCHEMA", at(3), until=at(9)) == 1
    assert stuck.mark_notified("news", "SCHEMA", at(3), until=at(9)) == 0
    assert stuck.count_untold("news") == {"DOCUMENT": (1, NOW)}
    assert stuck.count_untold("shop") == {"SCHEMA": (1, NOW)}


def test_pages_are_forgotten_by_crawl_kind_and_url(stuck: StuckPages) -> None:
    stuck.add([a_page(1), a_page(1, "DOCUMENT"), a_page(2), a_page(3), a_page(3, crawl="shop")])
    assert stuck.remove("news", "DOCUMENT") == 1
    assert stuck.remove("news", url=a_page(2).url) == 1
    assert [page.url for page in stuck.pages("news")] == [a_page(1).url, a_page(3).url]
    assert stuck.remove("news") == 2
    assert stuck.count("shop") == {"SCHEMA": 1}


def test_place_of_the_raw_page_is_known_when_it_was_archived(uri: str, stuck: StuckPages) -> None:
    archived, other = a_page(1).url, a_page(2).url
    with Metadata(uri) as metadata:
        place = {"warc_file": "a.warc.gz", "warc_offset": 7, "warc_length": 9}
        metadata.upsert([row(archived, **place), row(other, fetched_at=NOW + timedelta(days=1))])
    assert stuck.raw([archived, other, "https://example.org/none"]) == {archived: RawPage("a.warc.gz", 7, 9)}


def random_url(length: int) -> str:
    """PostgreSQL compresses keys, so its letters are random."""
    letters = string.ascii_letters + string.digits
    return "http://a/" + "".join(random.Random(1).choices(letters, k=length - 9))


def test_the_longest_url_of_a_crawl_with_the_longest_name_is_kept(stuck: StuckPages) -> None:
    page = replace(a_page(1, "DEAD_LETTER", crawl=64 * "c"), url=random_url(LONGEST_KEY))
    stuck.add([page])
    assert stuck.pages(page.crawl) == [page]


def test_one_page_that_the_database_refuses_keeps_no_other_from_being_stored(
    postgres: PostgresServer,
) -> None:
    """Also of a crawl that was begun with a larger URLLENGTH_LIMIT, beside another database."""
    pages = [a_page(1), replace(a_page(2), url=random_url(4_000)), a_page(3)]
    with StuckPages(postgres.new_database()) as stuck:
        ((refused, error),) = stuck.add_accepted(pages)
        assert refused == pages[1] and "index row size" in str(error)
        assert stuck.pages("news") == [pages[0], pages[2]]
        assert stuck.add_accepted(pages[:1]) == []
