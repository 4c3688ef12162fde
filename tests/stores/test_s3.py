"""The archive in S3, against a real S3 server: what is written gets there, whatever is away and whoever dies."""

from __future__ import annotations

import io
import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.crawls import CHECKOUT, CrawlResult
from tests.s3server import ACCESS_KEY, SECRET_KEY, Line, S3Server, weed_binary
from tests.web import LocalWeb, generated_web
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.exchange import Exchange
from webcrawl.page import Page
from webcrawl.stores.archive import open_archive
from webcrawl.stores.s3 import S3Archive
from webcrawl.stores.warc import WarcPlace

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
dice = random.Random(7)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.client.create_bucket(Bucket="pages")
        yield server


@pytest.fixture
def line(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """The way to the server, which boto3 finds in the environment, as in production."""
    with Line(server.port) as line:
        for name, value in environment(line).items():
            monkeypatch.setenv(name, value)
        yield line


def environment(line: Line) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{line.port}",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        # neither files of this machine's user nor a cloud's metadata service
        **dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def bucket(server: S3Server) -> Callable[[], dict[str, bytes]]:
    """What is in the bucket "pages", which the test finds empty: name and contents of each object."""
    client = server.client

    def names() -> list[str]:
        return [entry["Key"] for entry in client.list_objects_v2(Bucket="pages").get("Contents", [])]

    for name in names():
        client.delete_object(Bucket="pages", Key=name)
    return lambda: {
        name: client.get_object(Bucket="pages", Key=name)["Body"].read() for name in sorted(names())
    }


def page(path: str, payload: bytes = b"<p>body") -> Page:
    url = f"http://www.example.org/{path}"
    page = Page(url=url, host="http://www.example.org", fetched_at=NOW)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    request = b"GET /%s HTTP/1.1\r\nHost: www.example.org\r\n\r\n" % path.encode()
    page.exchange = Exchange(url, "GET", request, b"", 200, head, payload, "192.0.2.1", NOW)
    return page


def archive(spool: Path, prefix_path: str = "crawl/1", **options: Any) -> S3Archive:
    return S3Archive("pages", prefix_path, spool, prefix="crawl", software="webcrawl/1", **options)


def archived(objects: dict[str, bytes]) -> dict[str, bytes]:
    """The body of every response in WARC objects, by URL; every digest is checked."""
    return {
        record.rec_headers.get_header("WARC-Target-URI"): record.content_stream().read()
        for name, data in objects.items()
        if name.endswith(".warc.gz")
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise")
        if record.rec_type == "response"
    }


def files(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.rglob("*") if path.is_file())


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def uploads_end() -> None:
    """Wait for the threads of archives that were closed before their uploads had come to an end."""
    eventually(lambda: not any(thread.name == "uploads" for thread in threading.enumerate()))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_pages_end_in_the_bucket_and_are_read_from_there(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    store = archive(tmp_path)
    place = store.write(page("a"))
    assert store.read(place).body == b"<p>body"  # from the spool: nothing is sent yet
    assert bucket() == {}
    store.close()
    assert files(tmp_path) == []
    objects = bucket()
    assert list(objects) == [f"crawl/1/{place.file.removesuffix('.warc.gz')}.cdxj", f"crawl/1/{place.file}"]
    assert archived(objects) == {"http://www.example.org/a": b"<p>body"}
    assert place.file.encode() in next(iter(objects.values()))
    stored = archive(tmp_path).read(place)
    assert stored.body == b"<p>body"
    assert stored.headers["WARC-Target-URI"] == "http://www.example.org/a"


def test_files_are_uploaded_while_the_crawl_goes_on(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    store = archive(tmp_path, prefix_path="", roll_bytes=1)
    places = [store.write(page(str(number))) for number in range(4)]
    eventually(lambda: len(bucket()) == 6)
    assert [store.read(place).headers["WARC-Target-URI"][-1] for place in places] == list("0123")
    store.close()
    assert set(bucket()) >= {place.file for place in places}
    assert len(archived(bucket())) == 4


def test_a_large_file_goes_in_parts(
    server: S3Server, line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    payload = dice.randbytes(35_000_000)
    store = archive(tmp_path)
    place = store.write(page("large", payload))
    store.close()
    found = server.client.head_object(Bucket="pages", Key=f"crawl/1/{place.file}")
    assert found["ETag"].strip('"').endswith("-3")
    assert archive(tmp_path).read(place).payload == payload


def test_what_an_earlier_run_left_is_sent(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    """Closed files, and one that was being written when the process was killed."""
    program = """
        import os, sys
        from pathlib import Path
        from tests.stores.test_s3 import archive, page
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


def test_who_only_reads_sends_nothing(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    line.cut()
    store = archive(tmp_path, close_seconds=0)
    place = store.write(page("a"))
    store.close()
    uploads_end()
    line.mend()
    reader = archive(tmp_path)
    assert reader.read(place).body == b"<p>body"
    assert bucket() == {}
    assert len(files(tmp_path)) == 2


def test_s3_away_from_beginning_to_end_costs_nothing_but_time(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line.cut()
    store = archive(tmp_path)
    assert "STORE_URI s3://pages/crawl/1/" in caplog.text
    places = [store.write(page(name)) for name in "ab"]
    caplog.clear()
    with within(30):
        store.close()
    (last,) = [record for record in caplog.records if "stay in" in record.message]
    assert last.message.startswith("1 files (0.0 MB) stay in ")
    assert store.read(places[1]).body == b"<p>body"
    line.mend()
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert {url[-1] for url in archived(bucket())} == set("ab")


def test_s3_that_comes_back_gets_everything(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = archive(tmp_path, roll_bytes=1)
    store.write(page("a"))
    line.cut()
    store.write(page("b"))
    eventually(lambda: "cannot upload" in caplog.text)
    store.write(page("c"))
    line.mend()
    eventually(lambda: len(archived(bucket())) == 2)  # by itself: nothing is written any more
    store.close()
    assert {url[-1] for url in archived(bucket())} == set("abc")
    assert files(tmp_path) == []


@pytest.mark.parametrize("size", [1000, 40_000_000])
def test_an_upload_that_hangs_delays_the_end_only_so_long(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    tmp_path: Path,
    size: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = archive(tmp_path, close_seconds=1.0)
    store.write(page("a", dice.randbytes(size)))
    carried = line.carried
    line.hold()
    with within(5):
        store.close()
    assert "stay in" in caplog.text
    line.release()
    uploads_end()
    archive(tmp_path).close()
    assert line.carried > carried + size
    assert files(tmp_path) == []
    assert len(archived(bucket())) == 1


def test_an_upload_stops_when_its_time_is_over(
    server: S3Server, line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    """No part of it stays in the bucket, where it would be paid for and never seen."""
    store = archive(tmp_path, close_seconds=0.1)
    store.write(page("a", dice.randbytes(60_000_000)))
    with within(5):
        store.close()
    assert len(files(tmp_path)) == 2
    uploads_end()
    assert bucket() == {}
    assert not server.client.list_multipart_uploads(Bucket="pages").get("Uploads")


def test_a_process_killed_while_sending_loses_nothing(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    program = """
        import sys
        from pathlib import Path
        from tests.stores.test_s3 import archive, page
        store = archive(Path(sys.argv[1]))
        print(store.write(page("a", b"x" * 100_000)).file, flush=True)
        sys.stdin.readline()
        store.close()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    name = process.stdout.readline().strip()
    line.hold()
    process.stdin.write("\n")
    process.stdin.flush()
    eventually(lambda: name in files(tmp_path))
    process.kill()
    process.communicate(timeout=10)
    line.release()
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert len(archived(bucket())) == 1


def test_several_processes_share_a_spool(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    program = """
        import sys
        from pathlib import Path
        from tests.stores.test_s3 import archive, page
        store = archive(Path(sys.argv[1]), roll_bytes=2000)
        for number in range(20):
            store.write(page(f"{sys.argv[2]}{number}"))
        store.close()
    """
    words = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    processes = [subprocess.Popen([*words, name], cwd=CHECKOUT) for name in "ab"]
    assert [process.wait(60) for process in processes] == [0, 0]
    archive(tmp_path).close()
    assert files(tmp_path) == []
    expected = {f"http://www.example.org/{name}{number}" for name in "ab" for number in range(20)}
    assert set(archived(bucket())) == expected


def test_a_crawl_into_a_bucket(
    line: Line,
    bucket: Callable[[], dict[str, bytes]],
    run_crawl: Callable[..., CrawlResult],
    local_web: Callable[..., LocalWeb],
    tmp_path: Path,
) -> None:
    """As a user runs it; `scrapy page` then reads from the bucket."""
    web = local_web("127.0.1.1")
    graph = generated_web(3, web, pages=12)
    home = web.url("127.0.1.1")
    result = run_crawl(
        "broad",
        [home],
        arguments={"scope": "host"},
        DOWNLOAD_DELAY=0,
        STORE_URI="s3://pages/a/b",
        DNS_SERVERS="127.0.0.1:9",
    )
    assert result.returncode == 0, result.stderr
    assert not [name for name in files(result.data_dir) if ".warc" in name]
    pages = {url for url in archived(bucket()) if not url.endswith("/robots.txt")}
    assert pages == graph.reachable(home)
    settings = ["-s", f"DATA_DIR={result.data_dir}", "-s", "STORE_URI=s3://pages/a/b"]
    words = [sys.executable, "-m", "scrapy", "page", home, "--body", *settings]
    shown = subprocess.run(words, cwd=CHECKOUT, capture_output=True, timeout=30)
    assert shown.stdout == archived(bucket())[home], shown.stderr


@pytest.mark.parametrize(
    ("uri", "changes", "reason"),
    [
        ("s3://nowhere/a", {}, "there is no bucket 'nowhere'"),
        ("s3://pages/a", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "access denied"),
        ("s3://pages/a", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "redentials"),
        ("s3://pages/a", {"AWS_ENDPOINT_URL": "nonsense"}, "nonsense"),
        ("s3:///a", {}, "use s3://bucket"),
        ("s3://../a", {}, "use s3://bucket"),
        ("s3://pages/a/../../b", {}, "use s3://bucket"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_at_the_start(
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
    with pytest.raises(StoreError) as raised:
        open_archive(StoreConfig(uri, "sqlite://", tmp_path, 1000))
    assert str(raised.value).startswith("STORE_URI ")
    assert reason in str(raised.value)


def test_what_was_meant_for_one_bucket_never_goes_to_another(
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


def test_a_record_that_is_nowhere(line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path) -> None:
    store = archive(tmp_path)
    with pytest.raises(StoreError, match=r"s3://pages/crawl/1/none\.warc\.gz .* another machine"):
        store.read(WarcPlace("none.warc.gz", 0, 100))
    place = store.write(page("a"))
    store.close()
    with pytest.raises(StoreError, match="at byte 7"):
        store.read(WarcPlace(place.file, 7, 100))
    with pytest.raises(StoreError, match="at byte 99999"):
        store.read(WarcPlace(place.file, 99_999, 100))
    line.cut()
    with pytest.raises(StoreError, match="s3://pages/crawl/1/"):
        store.read(place)


def test_an_index_is_never_sent_without_its_file(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = archive(tmp_path)
    place = store.write(page("a"))
    store.close()
    assert f"uploaded s3://pages/crawl/1/{place.file}" in caplog.text
    # killed after the upload and before the removal
    store.folder.joinpath(place.file).write_bytes(bucket()[f"crawl/1/{place.file}"])
    carried = line.carried
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert line.carried - carried < 5000
    assert len(bucket()) == 2
