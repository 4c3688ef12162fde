"""Tables of Iceberg in S3: files and tables of a crawl in a bucket, read by pyiceberg without help of the project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tests.metadata import NOW, row
from tests.s3server import ACCESS_KEY, SECRET_KEY, Line, weed_binary
from webcrawl.config import StoreConfig
from webcrawl.lake.update import update_lake
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables import texts

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")


def test_tables_in_a_bucket_have_the_files_of_each_run(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    config = StoreConfig.from_settings({"DATA_DIR": str(tmp_path), "STORE_URI": "s3://pages/crawl"})
    store = open_store(config.tables, "STORE_URI")
    with Metadata(config.metadata) as metadata:
        for url in ("http://a.example/1", "http://a.example/2"):
            store.put(f"{url[-1]}.parquet", text_file(url))
            metadata.upsert([row(url)])
            tables = update_lake(config, metadata, "news")
    assert {name: state.rows for name, state in tables.items()} == {"texts": 2, "pages": 2}
    from pyiceberg.catalog.sql import SqlCatalog  # slow, and every process of tests imports this file

    catalogue = SqlCatalog(
        "webcrawl",
        **{"uri": config.metadata, "s3.endpoint": f"http://127.0.0.1:{line.port}", "s3.region": "us-east-1"},
        **{"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY},
    )
    for name in ("texts", "pages"):
        table = catalogue.load_table(("webcrawl", name))
        counts = [len(table.scan(snapshot_id=entry.snapshot_id).to_arrow()) for entry in table.history()]
        assert counts == [1, 2]
    catalogue.close()
    # what the tables store about themselves has no credentials
    assert not any(SECRET_KEY.encode() in data for data in bucket().values())


def text_file(url: str) -> bytes:
    row = {"url": url, "host": "example.a", "origin": "http://a.example", "fetched_at": NOW, "text": "text"}
    missing = {field.name: 0 for field in texts.schema() if not field.nullable and field.name not in row}
    missing |= {name: "" for name in missing if texts.schema().field(name).type == pyarrow.string()}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row | missing], schema=texts.schema()), sink)
    return bytes(sink.getvalue())
