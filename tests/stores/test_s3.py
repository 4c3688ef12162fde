"""The archive in S3, against a real S3 server."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawl.test_replay import check_wacz
from tests.crawls import CHECKOUT, CrawlResult, scrapy
from tests.s3server import Line, S3Server, weed_binary
from tests.stores.buckets import archive, archived, eventually, files, page, uploads_end
from tests.web import LocalWeb, generated_web
from webcrawl.config import StoreConfig
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.archive import open_archive
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.spooled_archive import SpooledReader
from webcrawl.stores.warc.files import WarcLocation

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

dice = random.Random(7)


def test_pages_are_uploaded_and_read_from_the_bucket(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    store = archive(tmp_path)
    place = store.write(page("a"))
    assert store.read(place).payload == b"<p>body"  # from the spool: nothing is uploaded yet
    member = b"".join(store.chunks(place))
    assert bucket() == {}
    away = SpooledReader(open_store("s3://pages/crawl/1", "STORE_URI", check=False), tmp_path / "nothing")
    assert list(away.files()) == []
    store.close()
    assert away.read(place).payload == b"<p>body"
    assert place.file in {file.name for file in away.files()}
    assert not (tmp_path / "nothing").exists()
    assert files(tmp_path) == []
    objects = bucket()
    assert list(objects) == [f"crawl/1/{place.file.removesuffix('.warc.gz')}.cdxj", f"crawl/1/{place.file}"]
    assert archived(objects) == {"http://www.example.org/a": b"<p>body"}
    assert place.file.encode() in next(iter(objects.values()))
    stored = archive(tmp_path).read(place)
    assert stored.payload == b"<p>body"
    assert stored.headers["WARC-Target-URI"] == "http://www.example.org/a"
    assert b"".join(archive(tmp_path).chunks(place)) == member


def test_files_are_uploaded_during_the_crawl(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    store = archive(tmp_path, prefix_path="", roll_bytes=1)
    places = [store.write(page(str(number))) for number in range(4)]
    eventually(lambda: len(bucket()) == 6)
    assert [store.read(place).headers["WARC-Target-URI"][-1] for place in places] == list("0123")
    store.close()
    assert set(bucket()) >= {place.file for place in places}
    assert len(archived(bucket())) == 4


def test_a_large_file_is_uploaded_in_parts(
    server: S3Server, line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    payload = dice.randbytes(35_000_000)
    store = archive(tmp_path)
    place = store.write(page("large", payload))
    store.close()
    found = server.client.head_object(Bucket="pages", Key=f"crawl/1/{place.file}")
    assert found["ETag"].strip('"').endswith("-3")
    assert archive(tmp_path).read(place).payload == payload
    # reading streams the object in small pieces, too
    pieces = [len(piece) for piece in archive(tmp_path).chunks(place)]
    assert sum(pieces) == place.length and max(pieces) < 10_000_000


def test_files_of_a_killed_run_are_uploaded(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    """The killed process left closed files and one open file."""
    program = """
        import os, sys
        from pathlib import Path
        from tests.stores.buckets import archive, page
        store = archive(Path(sys.argv[1]), roll_bytes=300)
        store._uploads.wake = lambda: None
        for number in range(3):
            store.write(page(str(number)))
        os.kill(os.getpid(), 9)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path], cwd=CHECKOUT, timeout=60, check=False
    )
    assert run.returncode == -signal.SIGKILL
    assert [name for name in files(tmp_path) if name.endswith(".open")]
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert {url[-1] for url in archived(bucket())} == set("012")


def test_a_reader_uploads_nothing(line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path) -> None:
    line.cut()
    store = archive(tmp_path, close_seconds=0)
    place = store.write(page("a"))
    store.close()
    uploads_end()
    line.mend()
    reader = archive(tmp_path)
    assert reader.read(place).payload == b"<p>body"
    assert bucket() == {}
    assert len(files(tmp_path)) == 2


def test_a_crawl_stores_its_pages_in_the_bucket(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    crawl_into: Callable[..., CrawlResult],
    local_web: Callable[..., LocalWeb],
    tmp_path: Path,
) -> None:
    """Runs the real commands; `scrapy page` and `scrapy export --format wacz` then read from the bucket."""
    web = local_web("127.0.1.1")
    graph = generated_web(3, web, pages=12)
    home = web.url("127.0.1.1")
    result = crawl_into(home, "s3://pages/a/b")
    assert not [name for name in files(result.data_dir) if ".warc" in name]
    pages = {url for url in archived(bucket()) if not url.endswith("/robots.txt")}
    assert pages == graph.reachable(home)
    robotstxt = {name: data for name, data in bucket().items() if name.startswith("a/b/robotstxt/broad-")}
    assert list(archived(robotstxt)) == [home + "robots.txt"]
    assert any(name.endswith(".robotstxt.cdxj") for name in robotstxt)
    settings = ["-s", f"DATA_DIR={result.data_dir}", "-s", "STORE_URI=s3://pages/a/b"]
    shown = scrapy("page", home, "--body", *settings)
    assert shown.stdout.encode() == archived(bucket())[home], shown.stderr
    scrapy("export", "--format", "wacz", "-o", str(tmp_path / "c.wacz"), *settings)
    assert {page["url"] for page in check_wacz(tmp_path / "c.wacz")[0]} == pages


@pytest.mark.parametrize(
    ("uri", "changes", "reason"),
    [
        ("s3://nowhere/a", {}, "there is no bucket 'nowhere'"),
        ("s3://pages/a", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "access denied"),
        ("s3://pages/a", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "redentials"),
        ("s3://pages/a", {"AWS_ENDPOINT_URL": "nonsense"}, "nonsense"),
        ("s3:///a", {}, "must be s3://bucket"),
        ("s3://../a", {}, "use s3://bucket"),
        ("s3://pages/a/../../b", {}, "use s3://bucket"),
    ],
)
def test_an_unusable_store_is_refused_at_startup(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uri: str,
    changes: dict[str, str],
    reason: str,
) -> None:
    for name, value in changes.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    with pytest.raises((StoreError, ConfigurationError)) as raised:
        open_archive(StoreConfig(uri, "sqlite://", tmp_path, 1000, 0, 0, 0))
    assert str(raised.value).startswith("STORE_URI ")
    assert reason in str(raised.value)


def test_spooled_files_are_uploaded_only_to_their_own_uri(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    line.cut()
    store = archive(tmp_path, prefix_path="first", close_seconds=0)
    store.write(page("a"))
    store.close()
    uploads_end()
    line.mend()
    archive(tmp_path, prefix_path="second").close()
    archive(tmp_path, prefix_path="").close()
    assert bucket() == {}
    archive(tmp_path, prefix_path="first").close()
    assert [name.partition("/")[0] for name in bucket()] == ["first", "first"]


def test_a_missing_record_is_an_error_that_names_its_place(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    store = archive(tmp_path)
    with pytest.raises(StoreError, match=r"s3://pages/crawl/1/none\.warc\.gz: .* another machine"):
        store.read(WarcLocation("none.warc.gz", 0, 100))
    place = store.write(page("a"))
    store.close()
    with pytest.raises(StoreError, match="at byte 7"):
        store.read(WarcLocation(place.file, 7, 100))
    with pytest.raises(StoreError, match="at byte 99999"):
        store.read(WarcLocation(place.file, 99_999, 100))
    line.cut()
    with pytest.raises(StoreError, match="s3://pages/crawl/1/"):
        store.read(place)


def test_a_file_that_is_already_uploaded_is_not_sent_again(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = archive(tmp_path)
    place = store.write(page("a"))
    store.close()
    assert f"uploaded s3://pages/crawl/1/{place.file}" in caplog.text
    # as if killed between the upload and the removal
    store.folder.joinpath(place.file).write_bytes(bucket()[f"crawl/1/{place.file}"])
    carried = line.carried
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert line.carried - carried < 5000
    assert len(bucket()) == 2
