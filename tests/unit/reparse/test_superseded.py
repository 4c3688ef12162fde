"""Links of pages that are fetched, read again and killed in between: a query sees the last ones, and no others stay."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from tests.crawls import CHECKOUT
from tests.project.documentation import blocks
from tests.unit.links.rows import entry
from tests.unit.stores.test_text_tables import NOW as TEXT_TIME, page as text_page
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links.questions import links_from
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore
from webcrawl.reparse.plan import Reading
from webcrawl.reparse.superseded import leave_out
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.tables.merges import ReplacedFiles, locked_tables
from webcrawl.stores.tables.text_merges import merge_texts
from webcrawl.stores.tables.texts import TextTable, text_files

PAGES = [f"http://a.example/{number}" for number in range(4)]
LAST = next(code for code in blocks(CHECKOUT / "docs" / "reference" / "links.md", "sql") if "QUALIFY" in code)
Targets = tuple[str, ...]

fetches = st.tuples(st.just("fetch"), st.sampled_from(PAGES), st.integers(1, 3))
rereads = st.tuples(
    st.just("reread"), st.sets(st.sampled_from(PAGES), min_size=1), st.integers(0, 3), st.integers(0, 3)
)


@dataclass
class Model:
    """What a store must have of one crawl: the links of each fetch, by its time, as they were read last."""

    folder: Path
    clock: Iterator[int] = field(default_factory=lambda: count(1_000))
    fetched: dict[str, dict[int, Targets]] = field(default_factory=dict)

    @property
    def config(self) -> StoreConfig:
        uri = self.folder.as_uri()
        return StoreConfig(uri, "sqlite://", self.folder, keeps_links=True, links=uri)

    def write(
        self, url: str, targets: Targets, time: int, read_at: int | None = None, crawl: str = "broad"
    ) -> None:
        store = LinkStore(self.folder, crawl)
        store.write([entry(url, *targets, time=time, read_at=read_at, crawl=crawl)])
        store.close()

    def fetch(self, url: str, number: int) -> None:
        time, targets = next(self.clock), tuple(f"{url}/f{one}" for one in range(number))
        self.write(url, targets, time)
        self.fetched.setdefault(url, {})[time] = targets

    def reread(self, urls: set[str], number: int, killed: int) -> None:
        """Reads pages again: `killed` times it is killed at the end and begins anew."""
        readings = {}
        for _ in range(killed + 1):
            for url in sorted(urls & self.fetched.keys()):
                time, read_at = max(self.fetched[url]), next(self.clock)
                targets = tuple(f"{url}/r{read_at}/{one}" for one in range(number))
                self.write(url, targets, time, read_at)
                readings[url] = Reading(time, read_at)
                if number:
                    self.fetched[url][time] = targets
            self.check_last()
        leave_out(self.config, "broad", lambda some: {url: readings[url] for url in some if url in readings})
        for url, reading in readings.items():
            self.fetched[url][reading.fetched_at] = tuple(
                f"{url}/r{reading.read_at}/{one}" for one in range(number)
            )

    def check_last(self) -> None:
        if not list(self.folder.glob("*.parquet")):
            return
        query = LAST.replace("FROM links", f"FROM '{self.folder}/*.parquet'").rstrip().rstrip(";")
        rows = duckdb.sql(f"SELECT from_url, to_url FROM ({query}) WHERE crawl = 'broad'").fetchall()
        last = {url: [one for one in reversed(times.values()) if one] for url, times in self.fetched.items()}
        expected = [(url, target) for url, found in last.items() if found for target in found[0]]
        assert sorted(rows) == sorted(expected)
        shown = links_from(link_files(self.config).openers, PAGES, "broad").to_pylist()
        assert sorted((row["from_url"], row["to_url"]) for row in shown) == sorted(expected)

    def check_all(self) -> None:
        """Without any condition, the table has each fetch once."""
        rows = duckdb.sql(
            f"SELECT from_url, epoch_us(time), to_url FROM '{self.folder}/*.parquet' WHERE crawl = 'broad'"
        ).fetchall()
        assert sorted(rows) == sorted(
            (url, time, target)
            for url, times in self.fetched.items()
            for time, targets in times.items()
            for target in targets
        )


@settings(max_examples=12, deadline=None)
@given(st.lists(fetches | rereads, min_size=2, max_size=6))
def test_the_last_reading_replaces_those_before(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        model = Model(Path(name))
        model.write(PAGES[0], ("http://other.example/",), 1, crawl="other")
        for step, *values in steps:
            getattr(model, str(step))(*values)
            model.check_all()
            model.check_last()
        others = duckdb.sql(f"SELECT to_url FROM '{name}/*.parquet' WHERE crawl = 'other'").fetchall()
        assert others == [("http://other.example/",)]
        assert {path.suffix for path in Path(name).iterdir()} == {".parquet"}


def test_newer_fetches_count_and_confirmations_are_of_the_fetch_that_is_read(tmp_path: Path) -> None:
    url, other = PAGES[:2]
    model = Model(tmp_path)
    model.fetch(url, 1)
    model.fetch(url, 2)
    # read while the crawl fetched it for the second time, so the reading is not noted
    model.write(url, (f"{url}/stale",), min(model.fetched[url]), next(model.clock))
    model.check_last()
    model.fetch(other, 1)
    fetched_at = max(model.fetched[other])
    # a 304 confirms it, with the links of the archived response
    model.write(other, (f"{other}/f0",), next(model.clock))
    read_at = next(model.clock)
    model.write(other, (f"{other}/r0", f"{other}/r1"), fetched_at, read_at)
    leave_out(model.config, "broad", lambda urls: {other: Reading(fetched_at, read_at)})
    model.fetched[other][fetched_at] = f"{other}/r0", f"{other}/r1"
    model.check_last()
    rows = duckdb.sql(
        f"SELECT epoch_us(time) FROM '{tmp_path}/*.parquet' WHERE from_url = '{other}'"
    ).fetchall()
    assert rows == [(fetched_at,)] * 2


def text_files_of(folder: Path) -> StoreConfig:
    """The stores of a crawl with two pages and one in files of texts."""
    for numbers in ((0, 1), (2,)):
        table = TextTable(folder / "texts", "broad")
        table.write([text_page(number, url=PAGES[number]) for number in numbers])
        table.close()
    return StoreConfig.from_settings({"DATA_DIR": str(folder), "TEXT": "parquet"})


def rows_of(config: StoreConfig) -> list[str]:
    files = [opened() for opened in text_files(config)]
    return sorted(
        url for file in files for group in file.groups for url in file.read(group, ["url"])["url"].to_pylist()
    )


def later(urls: Sequence[str]) -> dict[str, Reading]:
    """The first page was read again."""
    fetched = int(TEXT_TIME.timestamp() * 1e6)
    return {url: Reading(fetched, fetched + 5_000_000) for url in urls if url == PAGES[0]}


def test_a_merge_and_a_rewriting_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = text_files_of(tmp_path)
    with (
        locked_tables(tmp_path / "texts"),
        pytest.raises(StoreError, match="another process is merging or rewriting"),
    ):
        leave_out(config, "broad", later)
    refused, move = [], FolderStore.move_file

    def merging(store: FolderStore, name: str, path: Path) -> None:
        """Rewrites a file while a merge begins."""
        with pytest.raises(StoreError) as error:
            merge_texts(config)
        refused.append(error)
        move(store, name, path)

    monkeypatch.setattr(FolderStore, "move_file", merging)
    assert leave_out(config, "broad", later) == 1 and refused
    assert rows_of(config) == sorted(PAGES[1:3])


def test_a_rewritten_merged_file_names_what_it_replaced(tmp_path: Path) -> None:
    config = text_files_of(tmp_path)
    before = {path.stem for path in (tmp_path / "texts").glob("*.parquet")}
    merge_texts(config)
    assert leave_out(config, "broad", later) == 1
    replaced = ReplacedFiles(FolderStore((tmp_path / "texts").as_uri()))
    assert all(name in replaced for name in before)
