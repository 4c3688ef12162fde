"""Bodies that do not end within the timeout are retried, and the last attempt keeps the received part."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.crawl.archive import check
from tests.crawls import CrawlResult
from webcrawl.stores.warc.reading import members, parse

RunCrawl = Callable[..., CrawlResult]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
PART = b"<title>part</title><p>so much came</p><a href=/found>x</a>"


@contextmanager
def slow_web(*slow: str, unended: bytes = PART) -> Iterator[tuple[str, list[str]]]:
    """Serves `slow` pages that send `unended` and stall; yields the origin and the list of requested paths."""
    listener, asked, over = socket.create_server(("127.0.0.1", 0)), [], threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := connection.recv(65536):
                path = request.split(b" ")[1].decode()
                asked.append(path)
                if path in slow:
                    connection.sendall(HEAD % 10_000 + unended)
                    over.wait(60)
                    return
                body = b"" if path == "/robots.txt" else b"<p>" + path.encode()
                connection.sendall(HEAD % len(body) + body)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        over.set()
        listener.close()


def truncation_headers(data_dir: Path, url: str) -> list[str | None]:
    """Returns the WARC-Truncated header of each response record of a URL."""
    found = []
    for path in (data_dir / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for _, _, start in members(file):
                headers = parse(start).headers
                if (headers["WARC-Type"], headers.get("WARC-Target-URI")) == ("response", url):
                    found.append(headers.get("WARC-Truncated"))
    return found


OPTIONS = {
    "DOWNLOAD_TIMEOUT": 0.5,
    "FRONTIER_RETRY_DELAY": 0.1,
    "FRONTIER_MAX_ATTEMPTS": 2,
    "POLITENESS_BACKOFF": 0.6,
}


def test_the_last_attempt_keeps_the_received_part(crawl: RunCrawl) -> None:
    with slow_web("/slow") as (site, asked):
        result = crawl([f"{site}/slow"], **OPTIONS)
    rows = {row["url"].removeprefix(site): row for row in result.rows()}
    row = rows["/slow"]
    assert asked.count("/slow") == 2 == row["attempts"]
    assert (row["status"], row["length"], row["truncated"]) == (200, len(PART), "time")
    assert (row["title"], row["error"]) == ("part", "the time was up before the end of the body")
    assert "/found" in rows
    assert truncation_headers(result.data_dir, f"{site}/slow") == ["time"]
    check(result.data_dir)
    assert (result.summary["dead_letters"], result.summary["retried"]) == (0, 1)


def test_an_empty_or_unwanted_part_is_a_failed_fetch(crawl: RunCrawl) -> None:
    with slow_web("/slow", unended=b"") as (site, _):
        crawl([f"{site}/slow"], **OPTIONS, status=1)
    with slow_web("/slow") as (site, _):
        result = crawl(
            [f"{site}/slow"], CRAWL_ID="unwanted", DOWNLOAD_FAIL_ON_DATALOSS=True, **OPTIONS, status=1
        )
    rows = result.rows()
    assert len(rows) == 2
    for row in rows:
        assert (row["status"], row["truncated"]) == (None, None)
        assert "took longer than 0.5 seconds" in row["error"]


def test_a_truncated_robots_txt_is_unavailable(crawl: RunCrawl) -> None:
    with slow_web("/robots.txt", unended=b"User-agent: *\nAllow: /\n") as (site, asked):
        result = crawl([f"{site}/page"], **OPTIONS, status=1)
    assert "/page" not in asked
    assert result.summary["pages"] == 0
