"""Bodies that are too large for memory: the worker's memory, the spool, the archive, and truncation."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.archive import check, record_at
from tests.crawls import Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply
from webcrawl.documents.body import base32
from webcrawl.stores.warc.reading import members, parse

SITE = "127.0.1.1"
BLOCK = hashlib.shake_128(b"noise").digest(1 << 20)
RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]


def blocks(megabytes: int) -> Iterator[bytes]:
    """Yields distinct, incompressible blocks of one MiB."""
    for number in range(megabytes):
        yield b"%08d" % number + BLOCK[8:]


@contextmanager
def video(megabytes: int, stop_after: int | None = None, *, chunked: bool = False) -> Iterator[str]:
    """Serves one generated video; yields its URL. After `stop_after` megabytes the server stalls.

    `chunked`: send the body in chunks, without a Content-Length.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    go_on = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            while asked := connection.recv(65536):
                if asked.startswith(b"GET /video"):
                    size = (
                        b"Transfer-Encoding: chunked"
                        if chunked
                        else b"Content-Length: %d" % (megabytes << 20)
                    )
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n%s\r\n\r\n" % size)
                    for number, block in enumerate(blocks(megabytes)):
                        if number == stop_after:
                            go_on.wait(60)
                            return
                        connection.sendall(b"100000\r\n%s\r\n" % block if chunked else block)
                    if chunked:
                        connection.sendall(b"0\r\n\r\n")
                else:
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/video"
    finally:
        go_on.set()
        listener.close()


def worker_memory(crawl: Crawl, name: str = "VmHWM") -> int:
    """Returns the memory of the worker process without its engine, in KiB."""
    status = Path(f"/proc/{crawl.process.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0])


def spool_sizes(crawl: Crawl) -> list[int]:
    """Returns the sizes of the unnamed spool files that the worker has open."""
    folder, sizes = str(crawl.data_dir / "spool"), []
    for link in Path(f"/proc/{crawl.process.pid}/fd").iterdir():
        try:
            if str(link.readlink()).startswith(folder):
                sizes.append(link.stat().st_size)
        except OSError:  # closed meanwhile
            continue
    return sizes


def peak_memory(crawl: Crawl) -> int:
    """Waits for the worker to exit; returns its peak memory in KiB."""
    most = 0
    while crawl.process.poll() is None:
        try:
            most = max(most, worker_memory(crawl))
        except (OSError, IndexError):
            break
        try:
            crawl.process.wait(0.05)
        except Exception:
            continue
    return most


def sha1(chunks: Iterator[bytes]) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    for chunk in chunks:
        found.update(chunk)
    return base32(found.digest())


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
def test_a_large_video_does_not_increase_the_workers_memory(
    chunked: bool, start_crawl: StartCrawl, request: pytest.FixtureRequest
) -> None:
    """With all pipelines, the video is archived byte for byte and read by MediaInfo."""
    megabytes = request.config.getoption("--video-megabytes") // (2 if chunked else 1)
    with video(megabytes, chunked=chunked) as large:
        options: dict[str, Any] = {"DOCUMENT_MAXSIZE": '{"*/*": 0}', "DOWNLOAD_MAXSIZE": 0}
        crawl = start_crawl("broad", [large], DOWNLOAD_TIMEOUT=200, **options)
        until(lambda: bool(spool_sizes(crawl)), crawl)
        before = worker_memory(crawl)
        most = peak_memory(crawl)
        result = crawl.wait(280)
    print(f"{megabytes} MiB took {(most - before) >> 10} MiB of memory on top of {before >> 10}")
    assert before < most < before + 50_000
    row = next(row for row in result.rows() if row["url"] == large)
    assert (row["length"], row["error"], row["mime_type"]) == (megabytes << 20, None, "video/mp4")
    assert row["digest"] == sha1(blocks(megabytes))
    # warcio checks the block and payload digests and the end of the record
    check(result.data_dir)
    shutil.rmtree(result.data_dir)  # pytest would keep the large files


def test_a_killed_worker_leaves_no_spool(start_crawl: StartCrawl) -> None:
    with video(20, stop_after=10) as url:
        crawl = start_crawl("broad", [url], DOWNLOAD_TIMEOUT=60)
        until(lambda: sum(spool_sizes(crawl)) > 5 << 20, crawl)
        crawl.kill()
    # the next start has nothing to clean up
    assert not [path for path in (crawl.data_dir / "spool").rglob("*") if path.is_file()]


def test_bodies_over_the_limit_of_their_type_are_truncated(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    paths = ["/page", "/picture", "/unknown", "/zipped", "/fits"]
    page = b"<title>long</title>" + b"<p>words and words" * 10_000
    web.put(SITE, "/page", page)
    png = b"\x89PNG\r\n\x1a\n" + b"".join(blocks(1))[:150_000]
    web.put(SITE, "/picture", Reply(png, headers={"Content-Type": "image/png"}))
    web.put(SITE, "/unknown", Reply(png, headers={"Content-Type": "text/html"}))
    web.put(SITE, "/zipped", Reply(gzip.compress(page + b"!"), headers={"Content-Encoding": "gzip"}))
    web.put(SITE, "/fits", b"<p>" + b"x" * 9_997)
    home = web.put(SITE, "/", "".join(f'<a href="{path}">x</a>' for path in paths))
    sizes = '{"text/html": 10000, "image/*": 100000, "*/*": 1000}'
    result = run_crawl("broad", [home], DOCUMENT_MAXSIZE=sizes)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    lengths = {path: rows[path]["length"] for path in paths}
    assert lengths == {
        "/page": 10_000,
        "/picture": 100_000,
        "/unknown": 100_000,
        "/zipped": 10_000,
        "/fits": 10_000,
    }
    assert {path for path in paths if rows[path]["error"]} == {*paths} - {"/fits"}
    assert rows["/page"]["error"] == "the body was cut off at the limit of its type"
    assert rows["/page"]["title"] == rows["/zipped"]["title"] == "long"
    assert rows["/unknown"]["mime_type"] == "image/png"
    assert result.summary["truncated"] == 4
    assert record_at(result.data_dir, rows["/page"]).body == page[:10_000]
    # the compressed body is archived in full, although its text is truncated
    assert record_at(result.data_dir, rows["/zipped"]).body == page + b"!"
    assert truncated_urls(result.data_dir) == {
        web.url(SITE, path) for path in ("/page", "/picture", "/unknown")
    }
    check(result.data_dir)


def truncated_urls(data_dir: Path) -> set[str]:
    """Returns the URLs of the records with `WARC-Truncated: length`."""
    found = set()
    for path in (data_dir / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for _, _, start in members(file):
                headers = parse(start).headers
                if headers.get("WARC-Truncated") == "length":
                    found.add(headers["WARC-Target-URI"])
    return found


def test_an_incompletely_decompressed_page_is_marked(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    coded = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    text = b"".join(b"<p>%d" % number for number in range(20_000))
    packed = gzip.compress(b"<title>cut</title>" + text)
    broken = gzip.compress(b"<title>broken</title>" + text[:40_000])[:-2_000]
    bodies = {"/large": packed, "/large-too": packed, "/broken": broken, "/broken-too": broken}
    for path, body in bodies.items():
        web.put(SITE, path, Reply(body, headers=coded))
    home = web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in bodies))
    result = run_crawl("broad", [home], DOCUMENT_MAXSIZE='{"*/*": 50000}')
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    large, broken_ones = [rows["/large"], rows["/large-too"]], [rows["/broken"], rows["/broken-too"]]
    for row in large:
        assert (row["truncated"], row["length"]) == ("length", 50_000)
        assert row["error"] == "the body was cut off at the limit of its type"
    assert sorted(row["duplicate_kind"] or "" for row in large) == ["", "exact"], "both payloads are equal"
    for row in broken_ones:
        assert (row["title"], row["truncated"], row["duplicate_kind"]) == ("broken", "coding", None)
        assert row["error"] == "the body ends before its Content-Encoding does"
        assert web.paths(SITE).count(row["url"].removeprefix(web.host(SITE))) == 1
    assert not truncated_urls(result.data_dir)
    check(result.data_dir)


def test_a_large_compressed_page_is_parsed(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    rows_of_text = b"".join(
        b"<p>%d %s" % (n, hashlib.md5(b"%d" % n).hexdigest().encode()) for n in range(30_000)
    )
    page = b"<title>large</title>" + rows_of_text + b"<a href=/found>x</a>"
    for path, packed, coding in (
        ("/gzip", gzip.compress(page), "gzip"),
        ("/deflate", zlib.compress(page + b"."), "deflate"),
        ("/plain", page + b"..", ""),
        ("/liar", page + b"...", "gzip"),
    ):
        web.put(SITE, path, Reply(packed, headers={"Content-Encoding": coding} if coding else {}))
    web.put(SITE, "/found", "found")
    home = web.put(
        SITE, "/", "".join(f"<a href=/{name}>x</a>" for name in ("gzip", "deflate", "plain", "liar"))
    )
    result = run_crawl("broad", [home])
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert {rows[path]["title"] for path in ("/gzip", "/deflate", "/plain", "/liar")} == {"large"}
    assert rows["/found"]["status"] == 200
    assert [rows[path]["error"] for path in ("/gzip", "/deflate", "/plain")] == [None] * 3
    assert rows["/liar"]["error"] == "the body cannot be decoded as its Content-Encoding says"
    assert record_at(result.data_dir, rows["/gzip"]).body == page
    check(result.data_dir)
