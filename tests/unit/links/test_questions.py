"""Answers about stored links, compared with a plain search through all rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as parquet
import pytest

from tests.unit.links.rows import TIME, entry, table
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links import store as link_store
from webcrawl.links.merging import merge_files
from webcrawl.links.questions import (
    CurrentLinkCounts,
    current,
    link_counts,
    linked_hosts,
    links_from,
    links_to,
)
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore
from webcrawl.stores.current_pages import CurrentPages, PageContents
from webcrawl.urls.reversed_hosts import reversed_host

HOSTS = [f"http://{name}.example" for name in ("a", "b", "www.b", "c")]
URLS = [f"{host}/{number}" for host in HOSTS for number in range(12)]
KNOWN = ("from_url", "to_url", "text", "place", "crawl")


def config(folder: Path) -> StoreConfig:
    return StoreConfig(folder.as_uri(), "sqlite://", folder, links=(folder / "links").as_uri())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several files of several row groups."""
    folder, dice = tmp_path_factory.mktemp("store"), random.Random(7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_store, "GROUP_ROWS", 40)
        for crawl, urls in (("one", URLS[:30]), ("one", URLS[30:]), ("two", URLS[:5])):
            links = LinkStore(folder / "links", crawl)
            for url in urls:
                targets = dice.choices(URLS, k=dice.randrange(12))
                links.write([entry(url, *targets, text=f"to {dice.randrange(9)}", crawl=crawl)])
            links.close()
    return folder


def known(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in KNOWN) for row in rows)


@pytest.mark.parametrize("url", [*URLS[::5], "http://nowhere.example/"])
@pytest.mark.parametrize("crawl", [None, "two"])
def test_answers_are_those_of_a_search_through_all_rows(store: Path, url: str, crawl: str | None) -> None:
    files = link_files(config(store))
    rows = [row for row in table(store / "links") if crawl in (None, row["crawl"])]
    assert len(files.openers) == 3 and files.unfinished == 0
    out = links_from(files.openers, [url], crawl).to_pylist()
    assert known(out) == known(row for row in rows if row["from_url"] == url)
    assert [(row["crawl"], row["place"]) for row in out] == sorted(
        (row["crawl"], row["place"]) for row in out
    )
    found = links_to(files.openers, [url], crawl).to_pylist()
    assert known(found) == known(row for row in rows if row["to_url"] == url)
    assert [row["from_url"] for row in found] == sorted(
        (row["from_url"] for row in found), key=lambda url: (reversed_host(url), url)
    )


@pytest.mark.parametrize("host", [*map(reversed_host, HOSTS), "example"])
def test_hosts_are_counted_by_links(store: Path, host: str) -> None:
    openers, rows = link_files(config(store)).openers, table(store / "links")
    for inbound, own, other in ((False, "from_host", "to_host"), (True, "to_host", "from_host")):
        expected = Counter(row[other] for row in rows if row[own] == host)
        found = linked_hosts(openers, host, inbound=inbound)
        assert dict(found) == expected
        assert [number for _, number in found] == sorted(expected.values(), reverse=True)
        some = Counter(row[other] for row in rows if row[own] == host and row["crawl"] == "two")
        assert dict(linked_hosts(openers, host, inbound=inbound, crawl="two")) == some


def test_a_question_reads_only_what_may_have_the_answer(store: Path) -> None:
    files = [opener() for opener in link_files(config(store)).openers]
    target = files[0].read(0, ["to_url"])["to_url"][0].as_py()
    groups = [group for group in files[0].groups if files[0].may_have(group, "to_url", [target])]
    assert len(files[0].groups) > 3 > len(groups) > 0
    page = files[1].read(0, ["from_url"])["from_url"][0].as_py()
    assert [file.may_have_page([page]) for file in files] == [False, True, False]


def test_of_a_page_that_was_fetched_twice_the_last_fetch_counts(tmp_path: Path) -> None:
    """As after a kill between storing the links and acknowledging the page."""
    page, target = URLS[0], URLS[1]
    for time in (TIME, TIME + 1):
        links = LinkStore(tmp_path / "links", "broad")
        links.write([entry(page, target, target, time=time)])
        links.close()
    openers = link_files(config(tmp_path)).openers
    assert [row["place"] for row in links_from(openers, [page]).to_pylist()] == [0, 1]
    assert [row["place"] for row in links_to(openers, [target]).to_pylist()] == [0, 1]


def test_links_of_pages_that_have_changed_since_are_not_current(tmp_path: Path) -> None:
    links = LinkStore(tmp_path / "links", "broad")
    for url in URLS[:4]:
        links.write([entry(url, URLS[9], time=TIME)])
    links.close()
    openers = link_files(config(tmp_path)).openers
    fetched = datetime.fromtimestamp(TIME / 1_000_000, UTC)
    later = fetched + timedelta(microseconds=1)
    stored = dict.fromkeys(("warc_offset", "warc_length"), 0)
    payload = {"url": URLS[2], "fetched_at": fetched.isoformat(), "warc_file": "a", **stored}
    rows = {
        URLS[0]: {"fetched_at": fetched, "details": None},
        URLS[1]: {"fetched_at": later, "details": None},
        URLS[2]: {"fetched_at": later, "details": {"payload": payload}},
    }

    def known_rows(urls: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {url: {"url": url, **rows[url]} for url in urls if url in rows}

    shown = current(links_to(openers, [URLS[9]]), known_rows)
    assert shown["from_url"].to_pylist() == [URLS[0], URLS[2], URLS[3]]
    assert len(current(shown.slice(0, 0), known_rows)) == 0
    host = reversed_host(URLS[9])
    assert linked_hosts(openers, host, inbound=True, rows=known_rows) == [(host, 3)]
    assert linked_hosts(openers, host, inbound=True) == [(host, 4)]


@pytest.mark.parametrize("merged", [False, True])
def test_links_of_changed_and_deleted_pages_do_not_count(tmp_path: Path, merged: bool) -> None:
    """The page is unchanged since its first fetch, another has changed since its last, and the third is gone."""
    page, changed, gone, target, without_links = URLS[:5]
    moments = [datetime.fromtimestamp(TIME / 1_000_000, UTC) + timedelta(microseconds=n) for n in range(4)]
    for crawl, time in (("first", 0), ("second", 2)):
        links = LinkStore(tmp_path / "links", crawl)
        for url in (page, changed, gone) if time == 0 else (page,):
            about = {"crawl": crawl, "time": TIME + time}
            links.write([entry(url, target, target, **about), entry(url, url, **about)])
        links.close()
    if merged:
        merge_files(config(tmp_path))
    openers = link_files(config(tmp_path)).openers
    rows = [
        PageContents(page, moments[0], moments[3], is_good=True),
        PageContents(changed, moments[1], moments[3], is_good=True),
        PageContents(gone, moments[3], moments[3], is_good=False),
    ]
    counts = CurrentLinkCounts(openers, CurrentPages(rows))
    assert counts.of([target, page, changed, without_links]) == {target: 2, page: 1}
    assert counts.of([]) == CurrentLinkCounts(openers, CurrentPages([])).of([target]) == {}
    assert link_counts(openers, [target]) == {target: 6}


@pytest.mark.parametrize("merged", [False, True])
def test_links_count_once_in_the_last_fetch_by_any_crawl(tmp_path: Path, merged: bool) -> None:
    page, other, target = URLS[0], URLS[1], URLS[2]
    crawls = [("first", [(page, 0), (other, 0)]), ("second", [(page, 1), (page, 2)]), ("third", [(other, 3)])]
    for crawl, fetches in crawls:
        links = LinkStore(tmp_path / "links", crawl)
        for url, time in fetches:
            links.write([entry(url, target, target, text=f"at {time}", crawl=crawl, time=TIME + time)])
        links.close()
    if merged:
        merge_files(config(tmp_path))
    openers = link_files(config(tmp_path)).openers
    assert len(openers) == (1 if merged else 3)
    assert known(links_to(openers, [target]).to_pylist()) == [
        (page, target, "at 2", 0, "second"), (page, target, "at 2", 1, "second"),
        (other, target, "at 3", 0, "third"), (other, target, "at 3", 1, "third"),
    ]  # fmt: skip
    assert {row["text"] for row in links_from(openers, [page]).to_pylist()} == {"at 2"}
    assert link_counts(openers, [target, page]) == {target: 4}
    host = reversed_host(page)
    assert linked_hosts(openers, host, inbound=True) == [(host, 4)]
    assert linked_hosts(openers, host, crawl="first") == [(host, 4)]
    assert linked_hosts(openers, host, crawl="second") == [(host, 2)]
    single = [opener().has_pages_once() for opener in openers]
    assert single == ([False] if merged else [True, False, True])


def test_the_links_of_a_journal_are_answered_when_its_writer_is_dead(tmp_path: Path) -> None:
    links = LinkStore(tmp_path / "links", "broad")
    links.write([entry(URLS[0], URLS[1])])
    files = link_files(config(tmp_path))
    assert (len(files.openers), files.unfinished) == (0, 1)
    links.close()
    files = link_files(config(tmp_path))
    assert (len(files.openers), files.unfinished) == (1, 0)


def test_files_that_other_software_wrote_are_read(store: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    duckdb.sql(f"COPY (FROM '{store}/links/*.parquet') TO '{tmp_path}/links/all.parquet'")
    openers, both = link_files(config(tmp_path)).openers, link_files(config(store)).openers
    for url in URLS[::9]:
        assert known(links_from(openers, [url]).to_pylist()) == known(links_from(both, [url]).to_pylist())
        assert known(links_to(openers, [url]).to_pylist()) == known(links_to(both, [url]).to_pylist())


def test_a_damaged_file_is_named(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (source, *_) = sorted((store / "links").glob("*.parquet"))
    data = source.read_bytes()
    for name, content in (("cut", data[:-20]), ("empty", b""), ("page", data[:400] + b"x" + data[401:])):
        path = folder / f"{name}.parquet"
        path.write_bytes(content)
        openers = link_files(config(tmp_path)).openers
        with pytest.raises(StoreError, match=rf"{path} cannot be read: .+\. Move it away"):
            links_from(openers, URLS)
        path.unlink()
    other = parquet.read_table(source).drop_columns(["block"])
    parquet.write_table(other, folder / "other.parquet")
    with pytest.raises(StoreError, match="is not a file of links: it has no column block"):
        links_to(link_files(config(tmp_path)).openers, URLS)


def test_nothing_stored_is_an_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"no links are stored in {tmp_path}/links: crawl with LINKS = True"):
        link_files(config(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("urls", [[], URLS[:1], URLS[3::7], [*URLS, "http://nowhere.example/"]])
def test_links_are_counted_for_many_urls_at_once(store: Path, urls: list[str]) -> None:
    rows = Counter(row["to_url"] for row in table(store / "links"))
    found = link_counts(link_files(config(store)).openers, urls)
    assert found == {url: rows[url] for url in urls if rows[url]}
