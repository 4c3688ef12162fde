"""Uploads to S3: every object is stored byte for byte and only once, and the spool is bounded."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT
from tests.s3server import Line, S3Server, weed_binary
from tests.stores.buckets import archive, archived, eventually, files, page, uploads_end, within
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.objects.s3 import S3Store

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

Contents = Callable[[], dict[str, bytes]]
PART = 5 * 1024 * 1024


@pytest.fixture(autouse=True)
def smaller_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the smallest parts that S3 accepts."""
    monkeypatch.setattr("webcrawl.stores.objects.s3._PART_BYTES", PART)


def stored(size: int, folder: Path) -> Path:
    path = folder / f"file-{size}.warc.gz"
    path.write_bytes(os.urandom(size // 2) + b"z" * (size - size // 2))
    return path


def put(path: Path) -> None:
    S3Store("s3://pages").put_file(path.name, path)


@pytest.mark.parametrize(
    ("size", "checksums"),
    [
        *((size, "when_supported") for size in (0, PART, PART + 1)),
        *((size, "when_required") for size in (1000, PART + 1)),
    ],
)
def test_a_stored_file_is_not_sent_again(
    line: Line,
    bucket: Contents,
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    checksums: str,
) -> None:
    """It is recognized by the checksum that S3 keeps, or by the ETag if there is none."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", checksums)
    path = stored(size, tmp_path)
    put(path)
    assert bucket() == {path.name: path.read_bytes()}
    found = server.client.head_object(Bucket="pages", Key=path.name, ChecksumMode="ENABLED")
    assert ("ChecksumSHA256" in found) == (checksums == "when_supported")
    before = line.carried
    put(path)
    assert line.carried - before < 5000


def test_an_object_without_a_usable_etag_is_compared_byte_by_byte(
    line: Line, bucket: Contents, server: S3Server, tmp_path: Path
) -> None:
    path = stored(100_000, tmp_path)
    begun = server.client.create_multipart_upload(Bucket="pages", Key=path.name)["UploadId"]
    named = {"Bucket": "pages", "Key": path.name, "UploadId": begun}
    tag = server.client.upload_part(**named, PartNumber=1, Body=path.read_bytes())["ETag"]
    parts = {"Parts": [{"ETag": tag, "PartNumber": 1}]}
    server.client.complete_multipart_upload(**named, MultipartUpload=parts)
    before = line.carried
    put(path)
    assert line.carried - before < 5000
    path.write_bytes(path.read_bytes()[:-1] + b"y")
    put(path)
    assert bucket() == {path.name: path.read_bytes()}


@pytest.mark.parametrize("size", [200_000, PART + 200_000])
def test_data_corrupted_in_transit_does_not_count_as_stored(
    line: Line, bucket: Contents, tmp_path: Path, size: int
) -> None:
    path = stored(size, tmp_path)
    line.garbles = True
    try:
        put(path)
    except StoreError:
        assert not line.garbles, "it failed for another reason"
    else:
        assert bucket()[path.name] == path.read_bytes(), "boto3 retried by itself"
    put(path)
    assert bucket() == {path.name: path.read_bytes()}


def test_a_different_object_of_the_same_name_and_size_is_replaced(
    line: Line, bucket: Contents, server: S3Server, tmp_path: Path
) -> None:
    path = stored(1000, tmp_path)
    server.client.put_object(Bucket="pages", Key=path.name, Body=b"x" * 1000)
    put(path)
    assert bucket() == {path.name: path.read_bytes()}


def test_a_lost_answer_makes_no_second_object(line: Line, bucket: Contents, tmp_path: Path) -> None:
    """The upload is complete when the connection is cut, but the worker does not know."""
    store = archive(tmp_path, close_seconds=0.5)
    store.write(page("a", os.urandom(1_000_000)))
    carried = line.carried
    line.drops_after = carried + 500_000
    with within(20):
        store.close()
    eventually(lambda: len(bucket()) == 1)
    line.drops_after = math.inf
    line.cut()
    uploads_end()
    assert line.carried - carried > 1_000_000
    line.mend()
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert len(bucket()) == 2
    assert len(archived(bucket())) == 1


def test_the_parts_of_a_killed_process_are_aborted(
    line: Line, bucket: Contents, server: S3Server, tmp_path: Path
) -> None:
    program = """
        import sys
        from pathlib import Path
        import webcrawl.stores.objects.s3 as bucket
        from tests.stores.test_s3_objects import PART, put
        bucket._PART_BYTES = PART
        put(Path(sys.argv[1]))
    """
    path = stored(6 * PART, tmp_path)
    begun = line.carried
    words = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    process = subprocess.Popen(words, cwd=CHECKOUT)

    def uploads() -> list[str]:
        listed = server.client.list_multipart_uploads(Bucket="pages").get("Uploads", [])
        return [one["Key"] for one in listed]

    try:
        eventually(lambda: line.carried - begun > 1.5 * PART)
    finally:
        process.kill()
        process.wait(60)
    assert uploads() == [path.name]
    put(path)
    assert uploads() == []
    assert bucket() == {path.name: path.read_bytes()}


def test_the_spool_is_limited(line: Line, bucket: Contents, tmp_path: Path) -> None:
    line.cut()
    store = archive(tmp_path, spool_max=300_000, close_seconds=0)
    body = os.urandom(50_000)
    places = []
    with pytest.raises(StoreUnavailable, match=r"0\.3 MB wait for s3://pages/crawl/1: STORE_SPOOL_MAX_BYTES"):
        for number in range(20):
            places.append(store.write(page(str(number), body)))
    assert len(places) == 6
    assert "STORE_SPOOL_MAX_BYTES" in store.tend()
    assert not [name for name in files(tmp_path) if name.endswith(".open")], (
        "full files are closed for upload"
    )
    with pytest.raises(StoreUnavailable):
        store.write(page("late", body))
    robots = page("robots.txt").archived.exchange
    assert robots is not None
    with pytest.raises(StoreUnavailable):
        store.write_exchange(robots, {})
    line.mend()
    eventually(lambda: store.tend() == "")
    assert store.read(store.write_exchange(robots, {})).payload == b"<p>body"
    places.append(store.write(page("late", body)))
    assert store.read(places[0]).payload == store.read(places[-1]).payload == body
    store.close()
    uploads_end()
    archive(tmp_path).close()
    assert {url.rpartition("/")[2] for url in archived(bucket())} == {
        *map(str, range(6)),
        "late",
        "robots.txt",
    }


def test_an_old_file_is_uploaded(line: Line, bucket: Contents, tmp_path: Path) -> None:
    store = archive(tmp_path, roll_seconds=0.2)
    store.write(page("a"))
    assert store.tend() == ""
    eventually(lambda: store.tend() == "" and len(bucket()) == 2)
    assert set(archived(bucket())) == {"http://www.example.org/a"}
    store.close()


def test_a_file_that_cannot_be_uploaded_does_not_block_others(
    line: Line, bucket: Contents, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = archive(tmp_path, close_seconds=1.5)
    (store.folder / "a-folder.warc.gz").mkdir()
    store.write(page("a"))
    store.close()
    assert "cannot upload a-folder.warc.gz" in caplog.text
    assert set(archived(bucket())) == {"http://www.example.org/a"}
    assert files(tmp_path) == []
    uploads_end()


def test_a_file_can_be_read_during_its_upload(line: Line, bucket: Contents, tmp_path: Path) -> None:
    store = archive(tmp_path, roll_bytes=1, close_seconds=0)
    line.cut()
    store.write(page("a"))
    store.write(page("b"))
    line.mend()
    found = {file.name: file for file in store.files()}
    assert len(found) == 2, "a closed WARC file and its index"
    store.close()
    uploads_end()
    archive(tmp_path).close()
    assert files(tmp_path) == []
    for file in found.values():
        assert b"".join(file.chunks(100)) == bucket()[f"crawl/1/{file.name}"]


def test_reading_from_an_unreachable_server_is_a_store_error(line: Line, tmp_path: Path) -> None:
    line.cut()
    with pytest.raises(StoreError):
        S3Store("s3://pages").read("nothing", 0, 1)
