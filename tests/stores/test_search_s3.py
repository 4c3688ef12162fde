"""Texts and links in S3 are read into a local index, against a real S3 server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.s3server import Line, weed_binary
from tests.unit.links.rows import entry
from tests.unit.search.indexes import NOW, SITE, Pages, page
from tests.unit.search.stored import write_table, write_wet
from webcrawl.config import StoreConfig
from webcrawl.links.entry import microseconds
from webcrawl.links.store import open_link_store
from webcrawl.stores.objects.store import open_store

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

BUCKET = "s3://pages/crawl"


def test_texts_and_links_of_a_bucket_are_indexed(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    uris = {"links": f"{BUCKET}/links", "wet": f"{BUCKET}/wet", "tables": f"{BUCKET}/texts"}
    config = StoreConfig(BUCKET, f"sqlite:///{tmp_path}/metadata.db", tmp_path, **uris)
    table, wet = tmp_path / "broad.parquet", tmp_path / "broad.warc.wet.gz"
    write_table(table, {f"{SITE}/a": "a grebe dives", f"{SITE}/other": "not wanted"})
    write_wet(wet, {f"{SITE}/c": "a grebe nests"})
    open_store(f"{BUCKET}/texts", "STORE_URI").put_file(table.name, table)
    open_store(f"{BUCKET}/wet", "STORE_URI").put_file(wet.name, wet)
    links = open_link_store(config, "broad")
    links.write([entry(f"{SITE}/b", f"{SITE}/a", text="water bird", time=microseconds(NOW))])
    links.close()
    pages = Pages(tmp_path)
    pages.store(page("/a", "never read"), page("/b", "a grebe in the archive"), page("/c", "never read"))
    pages.index(config=config)
    assert pages.read == [f"{SITE}/b"]
    assert sorted(pages.urls("grebe")) == ["/a", "/b", "/c"]
    assert pages.urls("dives") == pages.urls("anchors:water") == ["/a"]
