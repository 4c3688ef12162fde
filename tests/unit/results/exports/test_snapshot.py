"""The current rows of links and texts, after two crawls with one database: of each page those of its contents now."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow.parquet
import pytest

from tests.metadata import NOW, row
from tests.unit.links.rows import entry
from webcrawl.config import StoreConfig
from webcrawl.documents.page import Page
from webcrawl.documents.payload import StoredPayload
from webcrawl.errors import StoreError
from webcrawl.links.entry import microseconds
from webcrawl.links.store import LinkStore
from webcrawl.results.exports import partitions
from webcrawl.results.exports.snapshot import TableName, current_rows, write_snapshot
from webcrawl.stores.current_pages import CurrentPages
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.tables.store import TableFile
from webcrawl.stores.tables.texts import TextTable

SITE = "https://www.example.org/"
ANSWERS = ("change", "same", "same", "unmodified", "gone", "soft", "failed")


class Answer(NamedTuple):
    """The last contents of a page in the model. `stored_at`: the last time at which its links and texts were stored."""

    version: str
    since: datetime
    stored_at: datetime | None


class Crawls:
    """Crawls with one database, and a model of what is current."""

    def __init__(self, folder: Path) -> None:
        self.config = StoreConfig(
            folder.as_uri(),
            f"sqlite:///{folder}/metadata.db",
            folder,
            links=(folder / "links").as_uri(),
            tables=(folder / "texts").as_uri(),
        )
        self.folder, self.pages = folder, dict[str, Answer]()
        self._fetches = 0

    def crawl(self, name: str, fetches: list[tuple[str, str]], *, stores: bool = True) -> None:
        """Fetches pages in a crawl, which stores links and texts or none of them."""
        links, texts = LinkStore(self.folder / "links", name), TextTable(self.folder / "texts", name)
        with Metadata(self.config.metadata) as metadata:
            for path, answer in fetches:
                self._fetch(metadata, path, answer, (links, texts) if stores else None, name)
        links.close()
        texts.close()

    def _fetch(self, metadata: Metadata, path: str, answer: str, tables: Any, crawl: str) -> None:
        self._fetches += 1
        now, before = NOW + timedelta(hours=self._fetches), self.pages.get(path)
        facts: dict[str, Any] = {"fetched_at": now, "crawl": crawl, "status": 200}
        if answer == "failed" or (answer == "unmodified" and before is None):
            metadata.upsert([row(SITE + path, **facts | {"status": None, "error": "timeout"})])
            return
        keeps = before is not None and answer in ("same", "unmodified")
        version = before.version if before is not None and keeps else f"{answer} {self._fetches}"
        facts["digest"] = version
        if answer == "unmodified":
            facts["status"] = 304
        elif version.startswith("gone"):
            facts["status"] = 404
        facts["soft_404"] = version.startswith("soft")
        if before is not None and answer == "same":
            payload = StoredPayload(SITE + path, before.since, "a.warc.gz", 0, 9)
            facts["details"] = {"payload": payload.facts()}
        metadata.upsert([row(SITE + path, **facts)])
        stored_at = before.stored_at if before is not None and keeps else None
        if tables is not None and answer != "unmodified":
            _store(tables, version, crawl, facts, SITE + path)
            stored_at = now
        since = before.since if before is not None and keeps else now
        self.pages[path] = Answer(version, since, stored_at)

    def expected(self) -> list[tuple[str, str, datetime]]:
        """URL, contents and time of the rows of pages that are there."""
        return sorted(
            (SITE + path, page.version, page.stored_at)
            for path, page in self.pages.items()
            if page.stored_at is not None and not page.version.startswith(("gone", "soft"))
        )

    def current(self, table: TableName) -> Iterator[dict[str, Any]]:
        with Metadata(self.config.metadata) as metadata:
            pages = CurrentPages(metadata.contents())
        for rows in current_rows(self.config, table, pages):
            yield from rows.to_pylist()


def _store(
    tables: tuple[LinkStore, TextTable], version: str, crawl: str, facts: dict[str, Any], url: str
) -> None:
    links, texts = tables
    if facts["status"] == 200 and not facts["soft_404"]:
        targets = [f"{SITE}{version.replace(' ', '/')}"] * 2
        links.write([entry(url, *targets, text=version, crawl=crawl, time=microseconds(facts["fetched_at"]))])
    page = Page(url=url, host=SITE, fetched_at=facts["fetched_at"], status=facts["status"])
    page.main_text = version
    texts.write([page])


def fetches(dice: random.Random) -> list[tuple[str, str]]:
    """Up to four answers of each of 60 pages, in any order."""
    drawn = [(str(page), dice.choice(ANSWERS)) for page in range(60) for _ in range(dice.randrange(5))]
    return dice.sample(drawn, len(drawn))


@pytest.mark.parametrize("seed", range(2))
def test_each_page_has_the_rows_of_its_contents_now_and_each_once(tmp_path: Path, seed: int) -> None:
    dice, crawls = random.Random(seed), Crawls(tmp_path)
    for name, stores in (("one", True), ("two", seed % 2 == 0), ("three", True)):
        crawls.crawl(name, fetches(dice), stores=stores)
    expected = crawls.expected()
    assert len(expected) > 10
    texts = [(page["url"], page["text"], page["fetched_at"]) for page in crawls.current("texts")]
    assert sorted(texts) == expected
    links = [(link["from_url"], link["text"], link["time"]) for link in crawls.current("links")]
    assert sorted(links) == sorted(2 * expected)


def test_rows_of_a_fetch_whose_page_is_not_stored_yet_are_not_current(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls.crawl("one", [("a", "change"), ("a", "unmodified")])
    facts = {"fetched_at": NOW + timedelta(hours=3), "status": 200, "soft_404": False}
    links, texts = LinkStore(tmp_path / "links", "two"), TextTable(tmp_path / "texts", "two")
    _store((links, texts), "killed", "two", facts, f"{SITE}a")
    links.close()
    texts.close()
    for table in ("texts", "links"):
        assert {row["text"] for row in crawls.current(table)} == {"change 1"}


def test_of_a_fetch_that_was_read_again_the_last_reading_is_current(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls.crawl("one", [("a", "change"), ("b", "change")])
    page = Page(url=f"{SITE}a", host=SITE, fetched_at=NOW + timedelta(hours=1), status=200)
    for hours in (3, 2):
        page.archived.read_at, page.main_text = NOW + timedelta(hours=hours), f"read after {hours}"
        texts = TextTable(tmp_path / "texts", "again")
        texts.write([page])
        texts.close()
    assert {row["url"]: row["text"] for row in crawls.current("texts")} == {
        f"{SITE}a": "read after 3",
        f"{SITE}b": "change 2",
    }


def test_texts_that_are_not_current_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawls = Crawls(tmp_path)
    for name in ("one", "two", "three"):
        crawls.crawl(name, [("a", "change")])
    read = list[set[str]]()
    of_group = TableFile.read
    monkeypatch.setattr(
        TableFile,
        "read",
        lambda file, group, columns: read.append({*columns}) or of_group(file, group, columns),
    )
    assert [row["text"] for row in crawls.current("texts")] == ["change 3"]
    assert sum("text" in columns for columns in read) == 1 and len(read) == 7


def test_files_of_earlier_versions_and_without_pages_are_read(tmp_path: Path) -> None:
    crawls = Crawls(tmp_path)
    crawls.crawl("one", [("a", "change")])
    (path,) = (tmp_path / "texts").glob("*.parquet")
    old = pyarrow.parquet.read_table(path).drop_columns(["crawl", "markdown"])
    pyarrow.parquet.write_table(old, path)
    (row,) = crawls.current("texts")
    assert (row["text"], row["crawl"], row["markdown"]) == ("change 1", None, None)
    assert list(current_rows(crawls.config, "texts", CurrentPages([]))) == []
    assert write_snapshot(crawls.config, "texts", CurrentPages([]), tmp_path, "1") == {}
    path.write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"texts/one-.* cannot be read: .+\. Move it away"):
        next(crawls.current("texts"))
    path.unlink()
    with pytest.raises(StoreError, match="no texts are stored in .*: crawl with TEXT = 'parquet'"):
        next(crawls.current("texts"))


@pytest.mark.parametrize("partition", ["date", "crawl", "shard", "none"])
def test_links_and_texts_of_a_page_are_in_the_same_partition(
    tmp_path: Path, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "OPEN_FILES", 2)
    crawls = Crawls(tmp_path)
    for name in ("one", "two"):
        crawls.crawl(name, [(f"{name}/{number}", "change") for number in range(30)])
    with Metadata(crawls.config.metadata) as metadata:
        pages = CurrentPages(metadata.contents())
    folders = {}
    for table, column in (("links", "from_url"), ("texts", "url")):
        folder = tmp_path / "export" / table
        folder.mkdir(parents=True)
        counts = write_snapshot(crawls.config, table, pages, folder, "1", partition=partition)
        rows = duckdb.sql(
            f"SELECT DISTINCT {column}, parse_dirpath(filename) AS parent FROM read_parquet("
            f"'{folder}/**/*.parquet', filename = true, hive_partitioning = {str(partition != 'none').lower()})"
        ).fetchall()
        assert sum(counts.values()) == (120 if table == "links" else 60)
        folders[table] = {url: Path(parent).relative_to(folder).as_posix() for url, parent in rows}
    assert folders["links"] == folders["texts"]
    expected = {"date": 3, "crawl": 2, "shard": 1, "none": 1}
    assert len({*folders["texts"].values()}) == expected[partition]
