"""The archive in S3 while the server is down or hangs, or after writers die: every file is uploaded in the end."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT
from tests.s3server import Line, S3Server, weed_binary
from tests.stores.buckets import archive, archived, eventually, files, page, uploads_end, within

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

dice = random.Random(7)


def test_pages_stay_in_the_spool_while_s3_is_away(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line.cut()
    store = archive(tmp_path)
    assert "STORE_URI s3://pages/crawl/1: " in caplog.text
    places = [store.write(page(name)) for name in "ab"]
    caplog.clear()
    with within(20):
        store.close()
    (last,) = [record for record in caplog.records if "stay in" in record.message]
    assert last.message.startswith("1 files (0.0 MB) stay in ")
    assert store.read(places[1]).payload == b"<p>body"
    line.mend()
    archive(tmp_path).close()
    assert files(tmp_path) == []
    assert {url[-1] for url in archived(bucket())} == set("ab")


def test_uploads_resume_when_s3_comes_back(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = archive(tmp_path, roll_bytes=1)
    store.write(page("a"))
    line.cut()
    store.write(page("b"))
    eventually(lambda: "cannot upload" in caplog.text)
    store.write(page("c"))
    line.mend()
    eventually(lambda: len(archived(bucket())) == 2)  # without a further write
    store.close()
    assert {url[-1] for url in archived(bucket())} == set("abc")
    assert files(tmp_path) == []


@pytest.mark.parametrize("size", [1000, 40_000_000])
def test_a_hanging_upload_delays_close_only_by_close_seconds(
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
    with within(20):
        store.close()
    assert "stay in" in caplog.text
    line.release()
    uploads_end()
    archive(tmp_path).close()
    assert line.carried > carried + size
    assert files(tmp_path) == []
    assert len(archived(bucket())) == 1


def test_close_aborts_an_upload_that_takes_too_long(
    server: S3Server, line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    """No part stays in the bucket, where it would cost money without being listed."""
    store = archive(tmp_path, close_seconds=0.1)
    store.write(page("a", dice.randbytes(60_000_000)))
    with within(20):
        store.close()
    assert len(files(tmp_path)) == 2
    uploads_end()
    assert bucket() == {}
    assert not server.client.list_multipart_uploads(Bucket="pages").get("Uploads")


def test_a_process_killed_during_an_upload_loses_nothing(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    program = """
        import sys
        from pathlib import Path
        from tests.stores.buckets import archive, page
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
    process.communicate(timeout=60)
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
        from tests.stores.buckets import archive, page
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
