"""Reads of stored metadata at fixed rates, beside the load of `benchmarks.live`: batches over HTTP, and single pages.

A time begins when a request is due, also if the connection is still busy with the one before.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection

from benchmarks.command import table
from webcrawl.documents.page import Page
from webcrawl.stores.metadata import Metadata

URLS_A_HOST = 50
KINDS = {"batches of 20": (20, 500, 32), "single pages": (1, 2_000, 128), "batches of 300": (300, 2, 2)}
"""URLs of a request, requests a second, and connections."""
_LENGTH = re.compile(rb"content-length: (\d+)", re.I)
_ROWS_AT_A_TIME = 500_000
_MOST_MADE = 200_000
"""The most URLs of the requests of a kind: more rows than the database keeps in its own memory."""
_TITLE = b'"title":"The title'
_LATE_SECONDS = 5.0
"""What is not sent by then is left out, and the rate is lower."""


def url_of(number: int) -> str:
    return f"http://h{number // URLS_A_HOST:07}.test/a/section/page-{number % URLS_A_HOST:03}"


def fill(uri: str, rows: int) -> None:
    """Stores rows of pages in a new SQLite database: copies of one row with other URLs and titles."""
    now = datetime.now(UTC)
    page = Page(url=url_of(0), host="http://h0000000.test", fetched_at=now, status=200, depth=4)
    page.mime_type, page.charset, page.length, page.language = "text/html", "utf-8", 40_000, "en"
    page.title, page.description = "The title of a page", "A description, which is as long as many are. " * 3
    page.author, page.image_url = "A. Writer", "http://h0000000.test/pictures/of-the-page.jpg"
    page.digest, page.warc_file, page.warc_offset = f"sha1:{'A' * 32}", "crawl-00001-host.warc.gz", 9_000
    with Metadata(uri) as metadata:
        metadata.upsert([{**page.row(), "crawl": "filled"}])

        def copy(first: int, connection: Connection) -> None:
            names = [row[1] for row in connection.exec_driver_sql("PRAGMA table_info(pages)")]
            host, path = f"n / {URLS_A_HOST}", f"n % {URLS_A_HOST}"
            url = f"printf('http://h%07d.test/a/section/page-%03d', {host}, {path})"
            made = {"url": url, "final_url": url, "host": f"printf('http://h%07d.test', {host})"}
            made |= {"title": "title || ' ' || n", "warc_offset": "n * 9000"}
            values = ", ".join(made.get(name, name) for name in names)
            numbers = f"SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {last}"
            connection.exec_driver_sql(
                f"WITH RECURSIVE numbers(n) AS ({numbers}), model AS (SELECT * FROM pages WHERE url = ?) "
                f"INSERT INTO pages ({', '.join(names)}) SELECT {values} FROM numbers, model",
                (url_of(0),),
            )

        for first in range(1, rows, _ROWS_AT_A_TIME):
            last = min(first + _ROWS_AT_A_TIME, rows)
            metadata.database.write(lambda connection, first=first: copy(first, connection))


def keep_in_memory(file: Path) -> None:
    """Reads a file, so that the system has it in memory, as after some time of use."""
    with file.open("rb") as opened:
        while opened.read(1 << 24):
            pass


def _request(urls: list[str], port: int) -> bytes:
    if len(urls) == 1:
        return f"GET /v1/pages/{quote(urls[0], safe='')} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    body = json.dumps({"urls": urls}).encode()
    head = f"POST /v1/pages:read HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Answers(asyncio.Protocol):
    """A connection whose answers come one at a time; takes little time for each."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._length = -1
        self.answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._length < 0 and (end := self._received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._received, 0, end)
            self._length = end + 4 + (int(length[1]) if length else 0)
        if 0 <= self._length <= len(self._received) and self.answer is not None:
            self.answer.set_result(bytes(self._received))
            self._received, self._length, self.answer = bytearray(), -1, None

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None:
            self.answer.set_exception(error or ConnectionResetError("the service has closed a connection"))

    async def ask(self, request: bytes) -> bytes:
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer


async def read_pages(port: int, rows: int, seconds: float, file: Path, ready: Any) -> None:
    """Reads for some time, and writes the times of the answers and the number of failures of each kind."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    failures = dict.fromkeys(KINDS, 0)
    chosen = random.Random(1)
    # made before, so that the reader takes no processor from what it measures
    made = {
        kind: [
            _request([url_of(chosen.randrange(rows)) for _ in range(urls)], port)
            for _ in range(int(min(seconds * rate, _MOST_MADE / urls)))
        ]
        for kind, (urls, rate, _) in KINDS.items()
    }
    began = 0.0

    async def connect() -> _Answers:
        _, answers = await asyncio.get_running_loop().create_connection(_Answers, "127.0.0.1", port)
        # the first read of all opens the database
        await answers.ask(made["single pages"][0])
        return answers

    async def ask(kind: str, number: int, answers: _Answers) -> None:
        urls, rate, connections = KINDS[kind]
        for turn in range(number, int(seconds * rate), connections):
            due = began + turn / rate
            if time.perf_counter() > began + seconds + _LATE_SECONDS:
                break
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            answer = await answers.ask(made[kind][turn % len(made[kind])])
            times[kind].append(time.perf_counter() - due)
            failures[kind] += not answer.startswith(b"HTTP/1.1 200") or answer.count(_TITLE) != urls
        answers.transport.close()

    readers = [(kind, number, await connect()) for kind in KINDS for number in range(KINDS[kind][2])]
    ready()
    began = time.perf_counter() + 0.1
    await asyncio.gather(*(ask(*reader) for reader in readers))
    file.write_text(json.dumps({"times": times, "failures": failures}))
    await asyncio.sleep(3600)  # until it is ended


def reads_table(file: Path, seconds: float) -> tuple[str, dict[str, dict[str, float]]]:
    """Returns the table and the figures of what was read."""
    read = json.loads(file.read_text())
    figures = {}
    for kind, (urls, _, _) in KINDS.items():
        times = read["times"][kind]
        cuts = quantiles(times, n=100)
        figures[kind] = {
            "URLs/s": len(times) * urls / seconds,
            "p50 ms": 1e3 * cuts[49],
            "p99 ms": 1e3 * cuts[98],
            "longest ms": 1e3 * max(times),
            "failures": read["failures"][kind],
        }
    rows = [(kind, *(f"{value:,.0f}" for value in each.values())) for kind, each in figures.items()]
    return table("reads|URLs a second:|p50 ms:|p99 ms:|longest ms:|failures:", rows), figures
