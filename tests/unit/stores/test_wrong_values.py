"""Values of pages that a spider or a pipeline has set wrongly: only their own pages fail."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.metadata import NOW
from tests.unit.warcs import check, exchange, one_file
from webcrawl.documents.page import Page
from webcrawl.pipelines.counts import CountsPipeline
from webcrawl.pipelines.metadata import MetadataPipeline
from webcrawl.pipelines.warc import WarcPipeline, _Write
from webcrawl.stores.group_commit import write_apart
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.files import WarcLocation, read_record
from webcrawl.stores.warc.writer import WarcWriter


def page(path: str, **values: Any) -> Page:
    made = Page(url=f"http://a.test/{path}", host="http://a.test", fetched_at=NOW, status=200)
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    "wrong", [{"length": 2**70}, {"title": 5}, {"referrer": {"page": 1}}, {"details": "text"}, {"caching": 5}]
)
def test_a_row_that_cannot_be_stored_fails_its_page_alone(wrong: dict[str, Any], tmp_path: Path) -> None:
    pages = [page("before"), page("wrong", **wrong), page("after")]
    pages[1].archived.remarks = ("noarchive",)
    with Metadata(f"sqlite:///{tmp_path / 'pages.db'}") as metadata:
        pipeline: Any = object.__new__(MetadataPipeline)
        pipeline._metadata = metadata
        keys = SimpleNamespace(crawl="crawl")
        pipeline._session = SimpleNamespace(connection=SimpleNamespace(keys=keys), revisit_dates=True)
        before, failed, after = write_apart(pages, pipeline._write)
        assert before is None and after is None
        assert isinstance(failed, Exception)
        assert set(metadata.get_many([made.url for made in pages])) == {pages[0].url, pages[2].url}


class Lookup:
    """Looks up earlier payloads by URL, as the database does."""

    def find(self, pages: list[Page]) -> dict[str, Any]:
        return {made.url: (None, None, None) for made in pages}


@pytest.mark.parametrize("wrong", [{"url": ["no", "text"]}, {"fetched_at": "yesterday"}])
def test_records_that_cannot_be_written_fail_their_page_alone(wrong: dict[str, Any], tmp_path: Path) -> None:
    with WarcWriter(tmp_path, "crawl", "webcrawl/1") as writer:
        pipeline: Any = object.__new__(WarcPipeline)
        pipeline._earlier = Lookup()
        pages = [page("before"), page("", **wrong), page("after")]
        before, failed, after = pipeline._write(
            [_Write(partial(_append, writer, made), made) for made in pages]
        )
    assert isinstance(failed, Exception)
    path = one_file(tmp_path)
    kept = [read_record(path, *place[1:]).headers["WARC-Target-URI"] for place in (before, after)]
    assert kept == [exchange(made.url).url for made in (pages[0], pages[2])]
    check(path)


def _append(writer: WarcWriter, made: Page) -> WarcLocation:
    return writer.write(replace(exchange(made.url), fetched_at=made.fetched_at))


def test_only_lengths_are_added_to_the_bytes_of_a_type() -> None:
    counted: list[int] = []
    pipeline: Any = object.__new__(CountsPipeline)
    pipeline._known = frozenset({"text/html"})
    tasks = SimpleNamespace(count=lambda name, amount=1: counted.append(amount) if "bytes" in name else None)
    engine = SimpleNamespace(scheduler=SimpleNamespace(tasks=tasks))
    pipeline._crawler = SimpleNamespace(engine=engine)
    for length in (7, 1.5, 2**70, -1, "9", None, True):
        pipeline.process_item(page("", length=length, mime_type="text/html"))
    assert counted == [7, 0, 0, 0, 0, 0, 0]
