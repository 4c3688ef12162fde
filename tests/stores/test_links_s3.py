"""The link store in S3, against a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CrawlResult, scrapy
from tests.s3server import Line, weed_binary
from tests.stores.buckets import eventually, files, uploads_end
from tests.unit.links.rows import entry
from tests.web import LocalWeb
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.links.merging import merge_files
from webcrawl.links.questions import links_from, links_to
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore, open_link_store
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.uploads import Uploads

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

A, B = "http://a.example/", "http://b.example/"
LINKS = "s3://pages/crawl/links"


def config(folder: Path) -> StoreConfig:
    return StoreConfig("s3://pages/crawl", "sqlite://", folder, links=LINKS)


def store(folder: Path, *, roll_bytes: int = 1, spool_max: int = 0) -> LinkStore:
    spool = folder / "spool" / "pages" / "crawl" / "links"
    uploads = Uploads(open_store(LINKS, "STORE_URI"), spool, SUFFIX)
    return LinkStore(
        spool, "broad", roll_bytes=roll_bytes, uploads=uploads, spool_max=spool_max, close_seconds=0.5
    )


def test_links_are_uploaded_and_read_from_the_bucket(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    links = open_link_store(config(tmp_path), "broad")
    links.write([entry(A, B, A), entry(B, A)])
    assert bucket() == {}
    links.close()
    (name,) = bucket()
    assert name.startswith("crawl/links/broad-") and name.endswith(".parquet")
    assert files(tmp_path) == []
    openers = link_files(config(tmp_path / "elsewhere")).openers
    assert [row["to_url"] for row in links_from(openers, [A]).to_pylist()] == [B, A]
    assert [row["from_url"] for row in links_to(openers, [A]).to_pylist()] == [A, B]
    assert not (tmp_path / "elsewhere").exists()


def test_rolled_files_are_uploaded_during_the_crawl(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    links = store(tmp_path)
    for number in range(3):
        links.write([entry(f"{A}{number}", B)])
    eventually(lambda: len(bucket()) == 3 and files(tmp_path) == [])
    links.close()


def test_links_wait_in_the_spool_while_the_store_is_away(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "spool" / "pages" / "crawl").mkdir(parents=True)
    line.cut()
    links = store(tmp_path, spool_max=1000)
    with pytest.raises(StoreUnavailable, match="STORE_SPOOL_MAX_BYTES is reached"):
        for number in range(100):
            links.write([entry(f"{A}{number}", B)])
    links.close()
    uploads_end()
    waiting = files(tmp_path)
    assert waiting and all(name.endswith(".parquet") for name in waiting)
    line.mend()
    here = link_files(config(tmp_path)).openers
    assert len(links_from(here, [f"{A}0"])) == 1, "this machine reads its spool"
    open_link_store(config(tmp_path), "broad").close()
    assert files(tmp_path) == []
    assert len(bucket()) == len(waiting)


def test_files_in_the_bucket_are_merged(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    """A note of a merge that was killed hides the files that it replaced, until the next merge deletes them."""
    for number in range(3):
        links = open_link_store(config(tmp_path), "broad")
        links.write([entry(f"{A}{number}", B)])
        links.close()
    names = [name.rpartition("/")[2] for name in bucket()]
    assert merge_files(config(tmp_path)) == (3, 1)
    (merged,) = [name.rpartition("/")[2] for name in bucket()]
    remote = open_store(LINKS, "STORE_URI")
    assert len(links_to(link_files(config(tmp_path)).openers, [B])) == 3
    remote.put(names[0], bucket()[f"crawl/links/{merged}"])
    remote.put("_merged-0.merge", json.dumps({"into": merged, "from": names}).encode())
    assert len(links_to(link_files(config(tmp_path)).openers, [B])) == 3
    assert len(bucket()) == 3
    assert merge_files(config(tmp_path)) == (0, 0)
    assert [*bucket()] == [f"crawl/links/{merged}"]
    assert files(tmp_path) == []


def test_a_store_that_is_away_is_an_error_for_readers(line: Line, tmp_path: Path) -> None:
    line.cut()
    with pytest.raises(StoreError, match="s3://pages/crawl/links"):
        link_files(config(tmp_path))


def test_a_crawl_stores_its_links_in_the_bucket(
    bucket: Callable[[], dict[str, bytes]],
    crawl_into: Callable[..., CrawlResult],
    local_web: Callable[..., LocalWeb],
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<a href=/b>to b</a>")
    web.put("127.0.1.1", "/b", "<a href=/>home</a>")
    home = web.url("127.0.1.1")
    result = crawl_into(home, "s3://pages/a", LINKS=True)
    assert [name for name in bucket() if name.startswith("a/links/") and name.endswith(".parquet")]
    assert not [name for name in files(result.data_dir) if name.endswith((".parquet", ".journal"))]
    settings = ["-s", f"DATA_DIR={result.data_dir}", "-s", "STORE_URI=s3://pages/a"]
    shown = scrapy("links", "--in", f"{home}b", *settings)
    assert shown.stdout == f"{home}  (a)  to b\n", shown.stderr
