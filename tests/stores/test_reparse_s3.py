"""Pages in a bucket are read again."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.crawl.reparsing import rows
from tests.crawls import CrawlResult, scrapy
from tests.s3server import Line, weed_binary
from tests.stores.buckets import environment
from tests.web import LocalWeb
from webcrawl.config import StoreConfig
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.locations import own_location
from webcrawl.stores.read_ahead import ReadAhead
from webcrawl.stores.warc.files import WarcLocation

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

SITE = "127.0.1.1"


class Counted:
    """An archive whose reads are counted."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.reads = 0

    def chunks(self, place: WarcLocation) -> Iterator[bytes]:
        self.reads += 1
        yield from self._records.chunks(place)


def test_rows_come_from_the_bucket_in_few_reads(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    local_web: Callable[..., LocalWeb],
    crawl_into: Callable[..., CrawlResult],
) -> None:
    web = local_web(SITE)
    for number in range(30):
        web.put(SITE, f"/{number}", f"<title>page {number}</title>{number}")
    web.put(SITE, "/", "".join(f"<a href=/{number}>x</a>" for number in range(30)))
    env, uri = environment(line), "s3://pages/again"
    tables = {"LINKS": "True", "TEXT": "parquet"}
    result = crawl_into(web.url(SITE), uri, **tables)
    before_tables = stored(bucket())
    assert [len(rows) for rows in before_tables] == [30, 31]
    assert any(name.endswith(".warc.gz") for name in bucket())
    assert not list(result.data_dir.rglob("*.warc.gz*")), "the archive is in the bucket alone"
    before = rows(result.data_dir)
    with closing(sqlite3.connect(result.data_dir / "metadata.db")) as database:
        database.execute("UPDATE pages SET title = NULL, simhash = 1, length = 0")
        database.commit()
    settings = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"STORE_URI={uri}", "--processes", "2", "--json")
    settings += tuple(word for name, value in tables.items() for word in ("-s", f"{name}={value}"))
    done = scrapy("reparse", "broad", *settings, env=env, timeout=60)
    assert (json.loads(done.stdout)["rows"], json.loads(done.stdout)["failed"]) == (31, 0)
    assert rows(result.data_dir) == before
    assert stored(bucket()) == before_tables, "rows of the crawl are replaced"
    check_reads(result.data_dir, uri, [place for row in before.values() if (place := own_location(row))])


def stored(objects: dict[str, bytes]) -> list[list[Any]]:
    """The rows of the links and of the texts in a bucket, without the time at which they were read."""
    found = []
    for name in ("links", "texts"):
        tables = [pq.read_table(io.BytesIO(data)) for key, data in objects.items() if f"/{name}/" in key]
        texts_or_links = [row for table in tables for row in table.drop_columns("read_at").to_pylist()]
        found.append(sorted(texts_or_links, key=repr))
    return found


def check_reads(data_dir: Path, uri: str, places: list[WarcLocation]) -> None:
    archive = Counted(archive_to_read(StoreConfig(uri, "", data_dir)))
    ahead = ReadAhead(archive)  # type: ignore[arg-type]
    ahead.expect(places)
    for place in sorted(places):
        assert b"".join(ahead.chunks(place)).startswith(b"\x1f\x8b")
    assert (len(places), archive.reads) == (31, 1)
