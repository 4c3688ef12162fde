"""Exports as the index table of Common Crawl: its columns, and one of its published queries in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from webcrawl.documents.page import Page
from webcrawl.errors import StoreError
from webcrawl.results.exports.cc_index import FIELDS, index_rows
from webcrawl.results.exports.export import export
from webcrawl.results.exports.parts import ParquetPart
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import location, open_store
from webcrawl.urls.canonical import split

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
CRAWL = "CC-MAIN-2018-05"

# published at https://github.com/commoncrawl/cc-index-table as count-by-tld-page-host-domain.sql
COUNT_BY_TLD = """
SELECT COUNT(*) AS n_pages,
       url_host_tld AS tld,
       COUNT(DISTINCT url_host_name) AS n_hosts,
       COUNT(DISTINCT url_host_registered_domain) AS n_domains
FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05'
  AND subset = 'warc'
GROUP BY  url_host_tld
ORDER BY n_pages DESC;
"""
# and as get-records-of-domain.sql
RECORDS_OF_DOMAIN = """
SELECT url,
       warc_filename,
       warc_record_offset,
       warc_record_length
FROM "ccindex"."ccindex"
WHERE crawl = 'CC-MAIN-2018-05'
  AND subset = 'warc'
  AND url_host_registered_domain = 'commoncrawl.org'
LIMIT 1000;
"""


def page(url: str, number: int, **more: Any) -> dict[str, Any]:
    facts = {"status": 200, "mime_type": "text/html", "charset": "utf-8", "language": "de", **more}
    one = Page(url=url, host=split(url)[0], fetched_at=NOW, warc_file="a.warc.gz", **facts)
    one.warc_offset, one.warc_length = 1000 * number, 10 + number
    return one.row() | {"crawl": CRAWL}


COPY = {"digest": "sha1:ABC", "duplicate_of": "https://commoncrawl.org/", "duplicate_kind": "exact"}
LANGUAGES = {"languages": {"content_languages": ["xx", "en", "de"]}}
PAGES = [
    page("https://commoncrawl.org/", 1, digest="sha1:ABC"),
    page("https://index.commoncrawl.org:8443/A?b=c&d", 2, **COPY),
    page("https://example.com/a.pdf", 3, mime_type="application/pdf", charset="cp1252", truncated="coding"),
    page("http://a.b.example.co.uk/", 4, truncated="length", language="xx", details=LANGUAGES),
    page("http://me.github.io/?", 5, status=204, digest=None),
    page("http://[::1]:8000/", 6, charset=None),
    page("http://192.0.2.7/", 7),
    page("http://printer/", 8),
    page("https://example.com/old", 9, status=301, final_url="https://example.com/new"),
    page("https://example.com/gone", 10, status=404),
    page("https://example.com/private", 11) | {"warc_file": None},
]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{tmp_path_factory.mktemp('rows')}/metadata.db") as metadata:
        metadata.upsert(PAGES)
        yield metadata


def exported(metadata: Metadata, folder: Path) -> duckdb.DuckDBPyConnection:
    """A database whose table ccindex.ccindex is an export."""
    store = open_store(location(str(folder)), "--output")
    rows = index_rows(metadata.scan(), metadata.get)
    manifest = export(rows, store, ParquetPart, "cc-index", source="the test", fields=FIELDS)
    assert manifest["rows"] == 10
    database = duckdb.connect()
    database.sql("CREATE SCHEMA ccindex")
    database.sql(
        f"CREATE VIEW ccindex.ccindex AS FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    )
    return database


def test_published_queries_run_unchanged(metadata: Metadata, tmp_path: Path) -> None:
    database = exported(metadata, tmp_path)
    # addresses have no top-level domain, and count as hosts
    assert sorted(database.sql(COUNT_BY_TLD).fetchall(), key=str) == [
        (1, "com", 1, 1),
        (1, "io", 1, 1),
        (1, "printer", 1, 0),
        (1, "uk", 1, 1),
        (2, "org", 2, 1),
        (2, None, 2, 0),
    ]
    assert sorted(database.sql(RECORDS_OF_DOMAIN).fetchall()) == [
        ("https://commoncrawl.org/", "a.warc.gz", 1000, 11),
        # the body of a copy is in the record of the first page
        ("https://index.commoncrawl.org:8443/A?b=c&d", "a.warc.gz", 1000, 11),
    ]
    by_subset = "SELECT subset, count(*) FROM ccindex.ccindex GROUP BY ALL ORDER BY ALL"
    assert database.sql(by_subset).fetchall() == [("crawldiagnostics", 2), ("warc", 8)]


ROW = {
    "url_surtkey": "org,commoncrawl,index:8443)/a?b=c&d",
    "url": "https://index.commoncrawl.org:8443/A?b=c&d",
    "url_host_name": "index.commoncrawl.org",
    "url_host_tld": "org",
    "url_host_2nd_last_part": "commoncrawl",
    "url_host_3rd_last_part": "index",
    "url_host_4th_last_part": None,
    "url_host_5th_last_part": None,
    "url_host_registry_suffix": "org",
    "url_host_registered_domain": "commoncrawl.org",
    "url_host_private_suffix": "org",
    "url_host_private_domain": "commoncrawl.org",
    "url_host_name_reversed": "org.commoncrawl.index",
    "url_protocol": "https",
    "url_port": 8443,
    "url_path": "/A",
    "url_query": "b=c&d",
    "fetch_time": NOW,
    "fetch_status": 200,
    "fetch_redirect": None,
    "content_digest": "ABC",
    "content_mime_type": "text/html",
    "content_mime_detected": "text/html",
    "content_charset": "UTF-8",
    "content_languages": "deu",
    "content_truncated": None,
    "warc_record_id": None,
    "warc_filename": "a.warc.gz",
    "warc_record_offset": 1000,
    "warc_record_length": 11,
    "warc_segment": "0",
}


def test_columns_are_those_of_the_table(metadata: Metadata, tmp_path: Path) -> None:
    exported(metadata, tmp_path)
    (path,) = tmp_path.glob(f"crawl={CRAWL}/subset=warc/*.parquet")
    schema = pyarrow.parquet.read_schema(path)
    assert schema.names == list(FIELDS) and len(schema.names) == 31
    types = {
        name: str(schema.field(name).type) for name in ("fetch_status", "url_port", "warc_record_offset")
    }
    assert types == {"fetch_status": "int16", "url_port": "int32", "warc_record_offset": "int32"}
    rows = {row["url"]: row for row in pyarrow.parquet.read_table(path, partitioning=None).to_pylist()}
    assert rows["https://index.commoncrawl.org:8443/A?b=c&d"] == ROW
    assert (
        rows["https://example.com/a.pdf"]["content_charset"],
        rows["https://example.com/a.pdf"]["content_truncated"],
    ) == (
        "windows-1252",
        "unspecified",
    )
    british = rows["http://a.b.example.co.uk/"]
    assert (british["url_host_registry_suffix"], british["url_host_registered_domain"]) == (
        "co.uk",
        "example.co.uk",
    )
    assert (british["url_host_5th_last_part"], british["content_languages"]) == ("a", "eng,deu")
    mine = rows["http://me.github.io/?"]
    assert (mine["url_host_registered_domain"], mine["url_host_private_suffix"]) == ("github.io", "github.io")
    assert (mine["url_host_private_domain"], mine["url_query"], mine["content_digest"]) == (
        "me.github.io",
        "",
        None,
    )
    local, address = rows["http://[::1]:8000/"], rows["http://192.0.2.7/"]
    assert (local["url_host_name"], local["url_port"], local["url_host_tld"]) == ("[::1]", 8000, None)
    assert (address["url_host_name"], address["url_port"]) == ("192.0.2.7", None)
    assert address["url_host_name_reversed"] is None


def test_redirects_name_their_target(metadata: Metadata) -> None:
    rows = {row["url"]: row for row in index_rows(metadata.scan(), metadata.get)}
    assert rows["https://example.com/old"]["fetch_redirect"] == "https://example.com/new"
    assert "https://example.com/private" not in rows


def test_place_beyond_the_type_of_the_table_is_an_error() -> None:
    row = page("http://a.example/", 1) | {"warc_offset": 2**31}
    with pytest.raises(StoreError, match=r"a\.warc\.gz at byte 2147483648: .* WARC_ROLL_BYTES must be less"):
        list(index_rows([row], lambda url: None))
