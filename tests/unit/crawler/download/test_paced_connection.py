"""What a server may cost by heads, interim responses and chunks of a few bytes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from scrapy.exceptions import DownloadFailedError, ResponseDataLossError

from tests.cases import cases
from tests.downloads import Client, CurlClient, run
from tests.wire import Say, Wire, plain
from webcrawl.crawler.download import curl_transfer
from webcrawl.crawler.errors import MalformedAnswer
from webcrawl.crawler.responses import body_of
from webcrawl.http import connection
from webcrawl.http.connection import FREE_CHUNKS, LEAST_READ_AHEAD, PIECE, BodyReadAhead, Rate
from webcrawl.http.heads import LONGEST_HEAD, MOST_INTERIM

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK, END = b"1\r\na\r\n", b"0\r\n\r\n"
CLIENTS = [Client, CurlClient]


@pytest.mark.parametrize("client_class", CLIENTS)
def test_interim_responses_are_skipped(client_class: type[Client]) -> None:
    async def check() -> None:
        several = HINTS + CONTINUE * (MOST_INTERIM - 1)
        malformed = FINAL.replace(b"Content", b"X N: ab\r\nContent")
        answers = [Say([several + FINAL]), Say([HINTS, HINTS, FINAL], pause=0.01), Say([HINTS, malformed])]
        async with Wire(answers) as wire, client_class() as client:
            for _ in answers:
                assert (await client.get(wire.url())).body == b"body"

    run(check())


@cases("client_class", CLIENTS)
@cases(
    ("reason", "answer"),
    [
        (f"more than {MOST_INTERIM} responses with a status of 1xx", [CONTINUE * 400] * 2_000),
        (f"more than {MOST_INTERIM} responses with a status of 1xx", [HINTS] * 2_000),
        ("", [FINAL[:17], *[b"X-Header: " + b"a" * 900 + b"\r\n"] * (LONGEST_HEAD // 900)] * 50),
    ],
    ids=["at once", "one by one", "a long head"],
)
def test_endless_heads_fail_the_page(client_class: type[Client], reason: str, answer: list[bytes]) -> None:
    async def check() -> None:
        async with Wire([Say(answer)]) as wire, client_class() as client:
            with pytest.raises(MalformedAnswer) as caught:
                await client.get(wire.url())
            assert reason in str(caught.value)

    run(check())


@pytest.mark.parametrize("client_class", CLIENTS)
def test_endless_bodies_share_a_budget_and_are_cut(
    client_class: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 endless bodies at once are stored up to their limits, and little of each is ever in memory."""
    held: list[int] = []
    ahead: list[BodyReadAhead] = []

    class Watched(BodyReadAhead):
        def __init__(self) -> None:
            super().__init__()
            ahead.append(self)

        def most(self, usual: int) -> int:
            held.append(self.bytes)
            return super().most(usual)

    monkeypatch.setattr(connection, "MOST_READ_AHEAD", 0)
    monkeypatch.setattr("webcrawl.http.pool.BodyReadAhead", Watched)
    monkeypatch.setattr("webcrawl.crawler.download.curl_transfer.BodyReadAhead", Watched)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n\r\n"
    endless = [b"data: 1\n\n" * 8_000] * 200
    kinds = b"video/mp4", b"text/event-stream", b"multipart/x-mixed-replace; boundary=a"
    limits = {"text/event-stream": 400_000, "multipart/x-mixed-replace": 400_000, "*/*": 800_000}
    answers = [Say([head % kinds[number % 3], *endless]) for number in range(40)]

    async def check() -> None:
        async with (
            Wire(answers) as wire,
            client_class(DOCUMENT_MAXSIZE=limits, DOWNLOAD_TIMEOUT=100) as client,
        ):
            client.session.bodies.memory = 1_000_000
            client.session.bodies.disk = 2_000_000
            responses = await asyncio.gather(*(client.get(wire.url(f"/{number}")) for number in range(40)))
            assert sorted({len(body_of(response)) for response in responses}) == [400_000, 800_000]
            assert all(response.flags == ["truncated"] for response in responses)
            assert client.session.bodies.held == sum(each.bytes for each in ahead) == 0

    run(check())
    assert max(held) <= 40 * (LEAST_READ_AHEAD + 256 * 1024)


@pytest.mark.parametrize(("then", "number"), [("stay", 20_000), ("close", 20_000), ("close", 85_000)])
@pytest.mark.parametrize("client_class", CLIENTS)
def test_small_chunks_are_parsed_in_pieces_that_let_other_tasks_run(
    client_class: type[Client], then: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece waits for its share of the rate, so a further server gets what is left of it."""
    taken: list[tuple[int, int]] = []
    turns = 0

    class Counted(Rate):
        def take(self, chunks: int, now: float) -> float:
            taken.append((chunks, turns))
            return super().take(chunks, now)

    monkeypatch.setattr("webcrawl.http.pool.Rate", Counted)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def check() -> None:
        counting = asyncio.create_task(count_turns())
        async with Wire([Say([CHUNKED + CHUNK * number + END], then=then)]) as wire, client_class() as client:
            response = await client.get(wire.url())
            assert (response.body, response.flags) == (b"a" * number, [])
        counting.cancel()

    run(check())
    if client_class is Client:
        most = PIECE // len(CHUNK)
        assert all(chunks <= most for chunks, _ in taken)
        assert all(later > earlier for (_, earlier), (_, later) in pairwise(taken))
        # those of a connection that was closed meanwhile are parsed at once
        assert then == "close" or sum(chunks for chunks, _ in taken) > number - FREE_CHUNKS - 2 * most


@pytest.mark.parametrize("client_class", CLIENTS)
def test_a_body_has_a_bounded_number_of_small_chunks(
    client_class: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, curl_transfer):
        monkeypatch.setattr(module, "MOST_CHUNKS", 5_000)

    async def check() -> None:
        endless = Say([CHUNKED, *[CHUNK * 1_000] * 1_000])
        async with Wire([endless]) as wire, client_class(DOWNLOAD_FAIL_ON_DATALOSS=True) as client:
            with pytest.raises(ResponseDataLossError, match="more than 5000 chunks of less than 128 bytes"):
                await client.get(wire.url())

    run(check())


@pytest.mark.parametrize(
    "start", [b"1;", b"1\r\na\r\n1;", b"1\r\na\r\n" + b"1;" + b"a=b;" * 100_000 + b"c=d\r\na\r\n1;"]
)
def test_an_endless_extension_of_a_chunk_breaks_the_body(start: bytes) -> None:
    async def check() -> None:
        endless = Say([CHUNKED, start, *[b"a=b;" * 16_000] * 2_000])
        async with Wire([endless]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=True) as client:
            with pytest.raises(ResponseDataLossError, match="in a row that are none of its content"):
                await client.get(wire.url())

    run(check())


def test_large_chunks_and_few_small_ones_are_not_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(rate: Rate, chunks: int, now: float) -> float:
        raise AssertionError("paced")

    monkeypatch.setattr(Rate, "take", fail)
    large = b"1000\r\n" + b"a" * 4096 + b"\r\n"

    async def check() -> None:
        several = [Say([CHUNKED + CHUNK * 1_500 + END]), Say([CHUNKED + large * 500 + END])]
        async with Wire(several) as wire, Client() as client:
            assert len((await client.get(wire.url())).body) == 1_500
            assert len((await client.get(wire.url())).body) == 500 * 4_096

    run(check())


def test_a_server_that_sends_more_than_it_was_asked_for_loses_its_connection() -> None:
    async def check() -> None:
        more = Say([FINAL, *[FINAL * 500] * 20], pause=0.01)
        async with Wire([more, plain(b"next")]) as wire, Client() as client:
            assert (await client.get(wire.url())).body == b"body"
            await asyncio.sleep(0.1)
            assert (await client.get(wire.url())).body == b"next"
            assert wire.connections == 2

    run(check())


def test_a_broken_small_chunk_fails_the_body() -> None:
    async def check() -> None:
        broken = Say([CHUNKED + CHUNK * 4_000 + b"x\r\n"], then="close")
        async with Wire([broken]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=True) as client:
            with pytest.raises((ResponseDataLossError, DownloadFailedError)):
                await client.get(wire.url())

    run(check())
