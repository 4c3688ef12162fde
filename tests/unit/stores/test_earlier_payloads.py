"""Payloads that earlier fetches of the same URL have archived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.warcs import NOW, exchange
from webcrawl.documents.page import Page
from webcrawl.stores.earlier_payloads import Across, EarlierPayloads
from webcrawl.stores.folder_archive import FolderArchive
from webcrawl.stores.locations import location_of, location_with_body, own_location
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.spooled_archive import SpooledReader
from webcrawl.stores.warc.files import WarcLocation
from webcrawl.stores.warc.reading import has_body

SITE = "http://www.example.org"
BODY = b"<p>the same"


def day(number: int) -> datetime:
    return NOW + timedelta(days=number)


def fetched(path: str, payload: bytes = BODY, at: datetime = NOW, **more: Any) -> Page:
    """Returns a page as the archive gets it; `more` are fields of the page or of `archived`."""
    about = {"truncated": more.pop("cut", None), "fetched_at": at, "status": more.get("status", 200)}
    one = replace(exchange(path, payload, b"X: y\r\n"), **about)
    page = Page(url=f"{SITE}/{path}", host=SITE, fetched_at=at, status=200, digest=one.payload.digest)
    page.archived.exchange = one
    for name, value in more.items():
        setattr(page if hasattr(page, name) else page.archived, name, value)
    return page


class Crawls:
    """Crawls with one database and one archive."""

    def __init__(self, folder: Path, *, history: int = 30) -> None:
        self.folder = folder / "warc"
        self.uri = f"sqlite:///{folder}/metadata.db"
        self.metadata = Metadata(self.uri, history=history)
        self.archive = FolderArchive(self.folder)

    @contextmanager
    def earlier(self, crawl: str = "second", across: Across = "database") -> Iterator[EarlierPayloads]:
        with closing(EarlierPayloads(self.uri, crawl, across, self.archive.has_payload)) as earlier:
            yield earlier

    def fetch(self, page: Page, crawl: str = "first", across: Across = "database") -> bool:
        """Stores a page as a crawl does; returns whether its payload was archived again."""
        with self.earlier(crawl, across) as earlier:
            if contents := earlier.find([page]).get(page.url):
                page.archived.payload, page.archived.stored_text, page.archived.stored_links = contents
        with closing(FolderArchive(self.folder, prefix=crawl)) as archive:
            location = archive.write(page)
        page.warc_file, page.warc_offset, page.warc_length = location
        self.metadata.upsert([page.row() | {"crawl": crawl}])
        return has_body(self.archive.read(location))

    def body_of(self, location: WarcLocation) -> WarcLocation | None:
        return location_with_body(location, self.archive.read, self.metadata.history)


@pytest.fixture
def crawls(tmp_path: Path) -> Crawls:
    return Crawls(tmp_path)


def test_the_same_payload_refers_to_the_fetch_that_archived_it(crawls: Crawls) -> None:
    assert crawls.fetch(fetched("a"))
    for number in (1, 2, 3):
        page = fetched("a", at=day(number))
        assert not crawls.fetch(page, f"crawl{number}")
        assert page.archived.payload is not None and page.archived.payload.fetched_at == NOW
        assert page.warc_file is not None and page.warc_file.startswith(f"crawl{number}-")
        own = WarcLocation(page.warc_file, page.warc_offset or 0, page.warc_length or 0)
        headers = crawls.archive.read(own).headers
        assert headers["WARC-Refers-To-Target-URI"] == f"{SITE}/a"
        assert headers["WARC-Refers-To-Date"] == "2026-02-03T04:05:06.000789Z"
        assert headers["WARC-Profile"].endswith("/identical-payload-digest")
    assert crawls.fetch(fetched("a", b"<p>other", day(4)))
    assert not crawls.fetch(fetched("a", b"<p>other", day(5)))
    assert crawls.fetch(fetched("a", at=day(6)))


@pytest.mark.parametrize(
    "page",
    [
        fetched("b", at=day(1)),
        fetched("a", b"<p>other", day(1)),
        fetched("a", at=day(1), cut="length"),
        fetched("a", at=day(1), status=304),
        fetched("a", at=day(1), duplicate_kind="exact", duplicate_of=f"{SITE}/x", duplicate_fetched_at=NOW),
    ],
    ids=["another URL", "changed", "truncated", "304", "copy in this crawl"],
)
def test_other_responses_have_no_earlier_payload(crawls: Crawls, page: Page) -> None:
    crawls.fetch(fetched("a"))
    with crawls.earlier() as earlier:
        assert earlier.find([page]) == {}
        assert set(earlier.find([page, fetched("a", at=day(2))])) == {f"{SITE}/a"}


def test_a_record_that_is_missing_or_damaged_is_not_referred_to(crawls: Crawls) -> None:
    crawls.fetch(fetched("a"))
    (path,) = crawls.folder.glob("*.warc.gz")
    path.write_bytes(b"\0" * path.stat().st_size)
    assert crawls.fetch(fetched("a", at=day(1)))
    for path in crawls.folder.glob("*.warc.gz"):
        path.unlink()
    assert crawls.fetch(fetched("a", at=day(2)))
    assert not crawls.fetch(fetched("a", at=day(3)))


def test_a_crawl_may_refer_to_its_own_records_only(crawls: Crawls) -> None:
    crawls.fetch(fetched("a"), "first")
    assert crawls.fetch(fetched("a", at=day(1)), "second", "crawl")
    assert not crawls.fetch(fetched("a", at=day(2)), "second", "crawl")
    assert not crawls.fetch(fetched("a", at=day(3)), "third")
    assert crawls.fetch(fetched("a", at=day(4)), "third", "crawl")


def test_a_copy_of_another_page_refers_to_the_payload_of_that_page(crawls: Crawls) -> None:
    crawls.fetch(fetched("a"))
    crawls.fetch(fetched("b", duplicate_kind="exact", duplicate_of=f"{SITE}/a", duplicate_fetched_at=NOW))
    page = fetched("b", at=day(1))
    assert not crawls.fetch(page, "second")
    assert page.archived.payload is not None and page.archived.payload.url == f"{SITE}/a"
    # whether the record of a copy has the payload is not known once the other page has changed
    crawls.fetch(fetched("c", duplicate_kind="exact", duplicate_of=f"{SITE}/a", duplicate_fetched_at=NOW))
    crawls.fetch(fetched("a", b"<p>other", day(2)))
    assert crawls.fetch(fetched("c", at=day(3)))
    assert not crawls.fetch(fetched("b", at=day(3)))


@pytest.mark.parametrize("history", [0, 2])
def test_the_payload_is_found_when_the_history_is_short(tmp_path: Path, history: int) -> None:
    crawls = Crawls(tmp_path, history=history)
    for number in range(6):
        assert crawls.fetch(fetched("a", at=day(number))) == (number == 0)
    fetches = [fetch.row(f"{SITE}/a") for fetch in crawls.metadata.history(f"{SITE}/a")]
    assert [fetch["fetched_at"] for fetch in fetches] == (
        [day(0), day(3), day(4), day(5)] if history else [day(5)]
    )
    bodies = [crawls.body_of(location) for fetch in fetches if (location := own_location(fetch))]
    assert len(set(bodies)) == 1 and (None in bodies) == (history == 0)
    row = crawls.metadata.get(f"{SITE}/a")
    assert row is not None and (location := location_of(row, crawls.metadata.get)) is not None
    assert has_body(crawls.archive.read(location))


def test_records_in_an_object_store_are_known_by_the_size_of_their_object(tmp_path: Path) -> None:
    spool, remote = tmp_path / "spool", tmp_path / "remote"
    with closing(FolderArchive(spool)) as archive:
        location = archive.write(fetched("a"))
    (path,) = spool.glob("*.warc.gz")
    remote.mkdir()

    def known(place: WarcLocation) -> bool:
        return SpooledReader(FolderStore(remote.as_uri()), spool).has_payload(place)

    request = location._replace(offset=location.offset + location.length, length=20)
    assert (known(location), known(request)) == (True, False)
    path.rename(remote / path.name)
    beyond = location._replace(length=(remote / path.name).stat().st_size)
    missing = location._replace(file="missing.warc.gz")
    assert [known(place) for place in (location, beyond, missing)] == [True, False, False]


def test_without_the_database_payloads_are_archived_in_full(crawls: Crawls) -> None:
    crawls.fetch(fetched("a"))
    with crawls.earlier() as earlier:
        crawls.metadata.database.write(lambda connection: connection.exec_driver_sql("DROP TABLE pages"))
        assert earlier.find([fetched("a", at=day(1))]) == {}
