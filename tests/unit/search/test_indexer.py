"""An index has what the rows and texts of a crawl have, also after changes, kills and damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.metadata import NOW
from tests.unit.links.rows import entry
from tests.unit.search.indexes import SITE, Pages, page
from tests.unit.search.stored import write_table, write_wet
from webcrawl.errors import StoreError
from webcrawl.links.entry import microseconds
from webcrawl.links.store import LinkStore
from webcrawl.search.folder import damages, open_to_write
from webcrawl.search.indexer import Indexer
from webcrawl.search.query import Filters
from webcrawl.search.schema import VERSION

STATES = st.tuples(st.sampled_from(["good", "gone", "noindex", "soft"]), st.integers(0, 2))
STEPS = st.lists(st.dictionaries(st.sampled_from("abcdef"), STATES, min_size=1), min_size=1, max_size=4)
STORED = [("tables", "a.parquet", write_table), ("wet", "a.warc.wet.gz", write_wet)]
FACTS: dict[str, dict[str, Any]] = {
    "good": {},
    "gone": {"status": 404},
    "noindex": {"warc_file": None, "warc_offset": None, "warc_length": None},
    "soft": {"soft_404": True},
}


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages(tmp_path)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_an_index_has_the_good_pages_in_their_last_version(steps: list[dict[str, tuple[str, int]]]) -> None:
    # threads of tantivy may still write into it
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pages = Pages(Path(folder))
        model: dict[str, tuple[str, int]] = {}
        for number, step in enumerate(steps):
            before = {name: one for name, one in model.items() if one[0] == "good"}
            model |= step
            after = {name: one for name, one in model.items() if one[0] == "good"}
            fetched = NOW + timedelta(hours=number)
            pages.store(
                *(
                    page(f"/{name}", f"common word{version}", fetched_at=fetched, **FACTS[state])
                    for name, (state, version) in step.items()
                )
            )
            figures = pages.index()
            assert figures.pages == len(after)
            assert figures.added == len(after.keys() - before)
            assert figures.removed == len(before.keys() - after)
            assert figures.changed == len(before.keys() & after.keys() & step.keys())
            assert sorted(pages.urls("common")) == sorted(f"/{name}" for name in after)
            for version in range(3):
                expected = sorted(f"/{name}" for name, (_, one) in after.items() if one == version)
                assert sorted(pages.urls(f"+common +word{version}")) == expected


def test_only_new_and_changed_pages_are_read_again(pages: Pages) -> None:
    pages.store(page("/a", "one"), page("/b", "two"))
    pages.index()
    pages.read.clear()
    assert (pages.index().planned, pages.read) == (0, [])
    pages.store(page("/b", "three", fetched_at=NOW + timedelta(days=1)), page("/c", "four"))
    figures = pages.index()
    assert (figures.added, figures.changed, sorted(pages.read)) == (1, 1, [f"{SITE}/b", f"{SITE}/c"])
    assert pages.index(again=True).added == 3
    # an index has facts of the row too
    with pages.metadata() as metadata:
        metadata.update(f"{SITE}/a", lambda row: {"importance": 7.0})
    assert pages.index().changed == 1


def test_a_revisit_without_changes_touches_no_document(pages: Pages) -> None:
    payload = {
        "url": f"{SITE}/a",
        "fetched_at": NOW.isoformat(),
        "warc_file": "a",
        "warc_offset": 0,
        "warc_length": 9,
    }
    pages.store(page("/a", "one", importance=3.1), page("/b", "two", importance=3.1))
    pages.store(page("/copy", duplicate_of=f"{SITE}/b", duplicate_kind="exact"))
    assert pages.index().added == 3
    later = {"fetched_at": NOW + timedelta(days=1), "importance": 3.3}
    pages.store(page("/a", "one", details={"payload": payload}, **later), page("/b", "three", **later))
    pages.read.clear()
    figures = pages.index()
    assert (figures.changed, pages.read) == (1, [f"{SITE}/b"])
    copy = {"payload": {**payload, "url": f"{SITE}/b"}}
    pages.store(page("/copy", duplicate_of=f"{SITE}/b", duplicate_kind="exact", details=copy))
    assert pages.index().planned == 0


def test_another_crawl_touches_only_the_documents_of_changed_pages(pages: Pages) -> None:
    names = [f"/{number}" for number in range(5)]
    pages.store(*(page(name, "common", crawl="one") for name in names), page("/other", "common", crawl="o"))
    pages.index()
    assert sorted(pages.urls("common", Filters(crawl="one"))) == names
    pages.store(*(page(name, "common", crawl="two") for name in names[1:]))
    pages.store(page("/1", "common news", crawl="two", fetched_at=NOW + timedelta(days=1)))
    figures = pages.index()
    assert (figures.planned, figures.changed, figures.added) == (1, 1, 0)
    for crawl, expected in (("two", names[1:]), ("one", names[:1]), ("o", ["/other"])):
        assert sorted(pages.urls("common", Filters(crawl=crawl))) == expected
    hits = {hit.entry.url: (hit.entry.crawl, hit.score) for hit in pages.hits("common", Filters(crawl="two"))}
    assert {crawl for crawl, _ in hits.values()} == {"two"}
    every = {hit.entry.url: hit.score for hit in pages.hits("common")}
    assert all(score == every[url] for url, (_, score) in hits.items())
    # an index of an earlier version
    (pages.folder / "index" / "crawls.npz").unlink()
    assert pages.urls("common", Filters(crawl="one")) and pages.index().planned == 0
    assert sorted(pages.urls("common", Filters(crawl="two"))) == names[1:]


def killed_after(pages: Pages, number: int) -> int:
    """Indexes in another process, which is killed when it has read some pages; returns its signal."""
    child = os.fork()
    if child == 0:
        archived = pages.archived

        def dying(rows: Any) -> Iterator[Any]:
            for place, one in enumerate(archived(rows)):
                if place == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield one

        pages.archived = dying  # type: ignore[method-assign]
        try:
            pages.index(commit_seconds=0)
        finally:
            os._exit(1)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def test_a_killed_run_is_continued_from_its_last_commit(pages: Pages) -> None:
    pages.store(*(page(f"/{number}", "common", fetched_at=NOW) for number in range(1_200)))
    pages.store(*(page(f"/{number}.jpg", mime_type="image/jpeg") for number in range(3)))
    assert killed_after(pages, 100) == signal.SIGKILL
    # what has no text is indexed first; the first 500 pages were not complete
    assert pages.search().searcher.num_docs == 3
    figures = pages.index()
    assert (figures.added, figures.pages) == (1_200, 1_203)
    assert pages.search().find("common").total == 1_200
    assert [path.name for path in (pages.folder / "index").iterdir() if path.name.startswith("plan")] == []


def test_one_process_writes_and_searches_go_on(pages: Pages) -> None:
    pages.store(page("/a", "common"))
    pages.index()
    before = pages.search()
    pages.store(page("/b", "common"))
    with open_to_write(pages.folder / "index"), pytest.raises(StoreError, match="another process"):
        pages.index()
    pages.index()
    assert before.find("common").total == 1
    assert pages.search().find("common").total == 2


def test_a_stopped_run_keeps_what_it_has(pages: Pages) -> None:
    pages.store(*(page(f"/{number}", "common") for number in range(1_200)))

    def run() -> int:

        place = pages.folder / "index"
        with pages.metadata() as metadata, open_to_write(place) as index:
            indexer = Indexer(
                index,
                place,
                pages.config,
                metadata,
                pages.archived,
                pages.media,
                report=lambda _: indexer.stop(),
            )
            indexer.run()
        return indexer.figures.pages

    assert 0 < run() < 1_200
    assert pages.index().pages == 1_200


def test_damage_is_one_sentence_with_the_folder_and_the_way_out(pages: Pages) -> None:
    index = pages.folder / "index"
    with pytest.raises(StoreError, match=r"there is no index in .*: `scrapy search --update` makes it"):
        pages.search()
    pages.store(page("/a", "common"))
    pages.index()
    shutil.copytree(index, pages.folder / "whole")
    (index / "pages" / "meta.json").unlink()
    with pytest.raises(StoreError, match="is not complete"):
        pages.search()
    for damage in ("meta.json", "*.store", "*.term", "*.fast"):
        shutil.rmtree(index)
        shutil.copytree(pages.folder / "whole", index)
        (path,) = (index / "pages").glob(damage)
        path.write_bytes(b"{" + b"\xff" * 20)
        with pytest.raises(StoreError) as error:
            pages.hits("common")
        assert str(index) in str(error.value) and "scrapy search --update --again" in str(error.value), damage
        assert "\n" not in str(error.value)
        assert pages.index(again=True).pages == 1
        assert pages.urls("common") == ["/a"]


def test_who_may_not_lock_an_index_is_told_so(pages: Pages) -> None:
    pages.store(page("/a", "common"))
    pages.index()
    lock = pages.folder / "index" / "pages" / ".tantivy-meta.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    with pytest.raises(StoreError) as error:
        pages.hits("common")
    assert str(error.value) == (
        f"cannot search in {pages.folder}/index: tantivy cannot open its lock file in {pages.folder}/index/pages "
        "(Is a directory). Give yourself the right to write there, or copy the index"
    )


@pytest.mark.parametrize("ending", [". None", '. Some("Failed to acquire\nindex lock")', ""])
def test_what_tantivy_finds_wrong_is_told_without_the_form_of_rust(ending: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error, damages(tmp_path):
        raise ValueError(f"Failed to acquire Lockfile: LockBusy{ending}")
    assert str(error.value) == (
        f"the index in {tmp_path} cannot be used: Failed to acquire Lockfile: LockBusy. If it is damaged, make it anew "
        "by `scrapy search --update --again`"
    )


def test_other_folders_and_versions_are_refused(pages: Pages) -> None:
    index = pages.folder / "index"
    index.mkdir()
    (index / "letters.txt").write_text("mine")
    for again in (False, True):
        with pytest.raises(StoreError, match="is not empty, and no index"):
            pages.index(again=again)
    assert (index / "letters.txt").read_text() == "mine"
    (index / "letters.txt").unlink()
    pages.store(page("/a", "common"))
    pages.index()
    for text, message in ((json.dumps({"version": VERSION + 1}), "another version"), ("[", "is damaged")):
        (index / "index.json").write_text(text)
        with pytest.raises(StoreError, match=message):
            pages.search()
        with pytest.raises(StoreError, match=message):
            pages.index()
        assert pages.index(again=True).pages == 1
    shutil.rmtree(index / "pages")
    with pytest.raises(StoreError, match="is not complete"):
        pages.search()


@pytest.mark.parametrize(("folder", "name", "write"), STORED, ids=["parquet", "wet"])
def test_stored_texts_are_used_before_the_archive(
    pages: Pages, folder: str, name: str, write: Callable[[Path, dict[str, str]], None]
) -> None:
    place = pages.folder / folder
    place.mkdir()
    write(place / name, {f"{SITE}/a": "stored", f"{SITE}/first": "stored once", f"{SITE}/x": "unknown"})
    (place / f"_{name}.journal").write_bytes(b"not read")
    copy = page("/copy", duplicate_of=f"{SITE}/first", duplicate_kind="exact")
    later = page("/later", "archived", fetched_at=NOW + timedelta(days=1))
    pages.store(page("/a"), page("/first"), copy, later)
    assert pages.index().problems == []
    assert pages.read == [f"{SITE}/later"]
    assert sorted(pages.urls("stored")) == ["/a", "/first"] and pages.urls("archived") == ["/later"]
    whole = (place / name).read_bytes()
    (place / name).write_bytes(whole[:20] + b"\xff" * 20 + whole[40:-5])
    figures = pages.index(again=True)
    assert figures.pages == 4
    if folder == "tables":
        assert [problem.partition(" cannot be read")[0] for problem in figures.problems] == [
            str(place / name)
        ]
    assert set(pages.read) > {f"{SITE}/a", f"{SITE}/first", f"{SITE}/copy"}


@pytest.mark.parametrize(("folder", "name", "write"), STORED, ids=["parquet", "wet"])
def test_pages_that_were_read_again_have_their_last_text(
    pages: Pages, folder: str, name: str, write: Callable[[Path, dict[str, str]], None]
) -> None:
    place = pages.folder / folder
    place.mkdir()
    write(place / name, {f"{SITE}/a": "before", f"{SITE}/b": "the same"})
    pages.store(page("/a", details={"text_length": 6}), page("/b", details={"text_length": 8}))
    pages.index()
    # as `scrapy reparse` leaves it: a later file has other texts of the same fetches
    write(place / f"later-{name}", {f"{SITE}/a": "afterwards", f"{SITE}/b": "the same"})
    pages.store(page("/a", details={"text_length": 10}), page("/b", details={"text_length": 8}))
    figures = pages.index()
    assert (figures.planned, figures.changed, pages.read) == (1, 1, [])
    assert pages.urls("afterwards") == ["/a"] and pages.urls("before") == []


def test_texts_of_links_follow_the_link_store(pages: Pages) -> None:
    target, time = f"{SITE}/a", microseconds(NOW)
    pages.store(page("/a", "text"), page("/b", "text"))
    pages.index()
    for number, text in enumerate(["stork"] * 3 + ["heron"] * 2 + ["bird", "gone"]):
        source = f"http://{number}.example/"
        fetched_at = NOW + timedelta(days=text == "gone")
        pages.store(page(source, **FACTS["noindex"], fetched_at=fetched_at))
        store = LinkStore(pages.folder / "links", "broad")
        store.write([entry(source, target, text=text, time=time)])
        store.write([entry(target, target, text="itself", time=time)])
        store.close()
    figures = pages.index()
    assert (figures.added, figures.changed) == (0, 1)
    (hit,) = pages.hits("anchors:heron")
    assert hit.entry.anchors == ["stork", "heron", "bird"]
    assert pages.urls("itself") == []
    assert pages.index().planned == 0
    # a page that is fetched often has no more weight than others
    store = LinkStore(pages.folder / "links", "often")
    for later in range(1, 4):
        pages.store(page("http://5.example/", **FACTS["noindex"], fetched_at=NOW + timedelta(seconds=later)))
        store.write([entry("http://5.example/", target, text="bird", time=time + later * 1_000_000)])
    store.close()
    assert pages.index().planned == 0
