"""Texts in S3: WET files and tables are uploaded beside the archive, also those that a killed process left."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.s3server import Line, weed_binary
from tests.stores.buckets import eventually, files, page, uploads_end
from webcrawl.config import StoreConfig
from webcrawl.documents.page import Page
from webcrawl.stores.archive import open_conversion
from webcrawl.stores.conversions import conversions
from webcrawl.stores.tables.texts import open_text_table

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")


def config(folder: Path) -> StoreConfig:
    return StoreConfig.from_settings(
        {"DATA_DIR": str(folder), "STORE_URI": "s3://pages/crawl", "STORE_MIN_FREE_BYTES": 0}
    )


class Wet:
    """WET files of a crawl."""

    def __init__(self, folder: Path) -> None:
        stores = config(folder)
        self._files = open_conversion(stores, conversions(stores)[0], prefix="news")
        self.close = self._files.close

    def write(self, one: Page) -> None:
        self._files.write(one)


class Table:
    """The table of a crawl."""

    def __init__(self, folder: Path) -> None:
        self._table = open_text_table(config(folder), "news")
        self.close = self._table.close

    def write(self, one: Page) -> None:
        self._table.write([one])


@pytest.mark.parametrize(("kind", "made"), [("wet", Wet), ("parquet", Table)])
def test_texts_are_uploaded_and_nothing_stays(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    tmp_path: Path,
    kind: str,
    made: Callable[[Path], Wet | Table],
) -> None:
    one, two = page("a"), page("b")
    one.archived.record_id, one.main_text = "<urn:uuid:1>", "the text"
    two.archived.record_id, two.main_text = "<urn:uuid:2>", "another"
    left = made(tmp_path / "left")
    left.write(one)
    (begun,) = [path for path in (tmp_path / "left").rglob("*news-*") if path.is_file()]
    assert files(tmp_path) == [begun.name]
    # as a killed process leaves it
    found = tmp_path / "new" / begun.relative_to(tmp_path / "left")
    found.parent.mkdir(parents=True)
    found.write_bytes(begun.read_bytes())
    store = made(tmp_path / "new")
    store.write(two)
    store.close()
    eventually(lambda: files(tmp_path / "new") == [])
    objects = bucket()
    folder = "texts" if kind == "parquet" else kind
    assert len(objects) == 2 and all(name.startswith(f"crawl/{folder}/news-") for name in objects)
    assert sorted(text for data in objects.values() for text in texts(kind, data)) == ["another", "the text"]
    left.close()
    uploads_end()


def texts(kind: str, data: bytes) -> list[str]:
    if kind == "parquet":
        return [str(row["text"]) for row in pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()]
    return [
        record.content_stream().read().decode()
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise")
        if record.rec_type == "conversion"
    ]
