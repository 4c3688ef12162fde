"""Malformed responses: read if their meaning is clear, else an error that names the problem."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, ResponseDataLossError

from tests.cases import cases
from tests.downloads import Client, run
from tests.wire import Say, Wire, plain
from webcrawl.crawler.errors import KeptConnectionClosed, MalformedAnswer, OverlongHead
from webcrawl.crawler.fetch import exchange_of

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"

READABLE = {
    "a name with a space": OK + b"X N: ab\r\nContent-Length: 4\r\n\r\nbody",
    "a name with a space, folded": OK + b"X N: ab\r\n cd\r\nContent-Length: 4\r\n\r\nbody",
    "a name that is not ASCII": OK + b"X-\xc4: ab\r\nContent-Length: 4\r\n\r\nbody",
    "no name": OK + b"this is no header\r\n: nor this\r\nContent-Length: 4\r\n\r\nbody",
    "space before the colon": OK + b"Content-Length : 4\r\nX N: y\r\n\r\nbody and more",
    "NUL in a value": OK + b"X-N: a\0b\r\nContent-Length: 4\r\n\r\nbody",
    "line feeds alone": b"HTTP/1.1 200 OK\nX N: ab\nContent-Length: 4\n\nbody",
    "two lengths": CHUNKED + b"Content-Length: 99\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "two lengths, the other way": OK + b"Content-Length: 4\r\nTransfer-Encoding: identity\r\n\r\nbody",
    "chunks ended by line feeds": CHUNKED + b"\r\n2\nbo\n2\ndy\n0\n\n",
    "head and chunks ended by line feeds": CHUNKED.replace(b"\r", b"") + b"\n4\nbody\n0\n\n",
    "chunks ended by both": CHUNKED + b"\r\n2 ;a=b\nbo\r\n002\r\ndy\n0\nX: y\r\n\n",
    "a repaired head, chunks ended by line feeds": CHUNKED + b"X N: ab\r\n\r\n4\nbody\n0\n\n",
    "a coding whose name has that of another": OK
    + b"Transfer-Encoding: notchunked\r\nContent-Length: 4\r\n\r\nbody",
    "chunked in a list": OK + b"Transfer-Encoding: identity , Chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "too much of a body": OK + b"Content-Length: 4\r\n\r\nbody and more",
}


@cases("pieces", ["at once", "byte by byte"])
@cases("answer", READABLE.values(), ids=READABLE)
def test_malformed_response_is_read_as_in_browsers(answer: bytes, pieces: str) -> None:
    async def check() -> None:
        said = [answer] if pieces == "at once" else [answer[at : at + 1] for at in range(len(answer))]
        pause = 0.0 if pieces == "at once" else 0.001
        async with Wire([Say(said, pause=pause), plain(b"next")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.status, response.body, response.flags) == (200, b"body", [])
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated is None
            if pieces == "at once":
                assert (await client.get(wire.url())).body == b"next"
                assert wire.connections == 2, "the end of the response is uncertain"

    run(check())


CLOSES = Say([], then="close")


@cases(
    ("answers", "connections"),
    [
        # a connection after each failure, then one for each request
        ([plain(b"page"), CLOSES] * 2 + [plain(b"page")], [1, 1, 2, 2, 3, 4, 5]),
        # it also answers over kept connections, so they are kept
        ([plain(b"page"), plain(b"page"), CLOSES] * 3 + [plain(b"page")], [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4]),
    ],
    ids=["each", "some"],
)
def test_no_connections_are_kept_to_a_server_that_closes_them_at_the_next_request(
    answers: list[Say], connections: list[int]
) -> None:
    async def check() -> None:
        async with Wire(answers) as wire, Client() as client:
            for number, connection in enumerate(connections):
                if number < len(answers) and answers[number] is CLOSES:
                    with pytest.raises(KeptConnectionClosed):
                        await client.get(wire.url())
                else:
                    assert (await client.get(wire.url())).body == b"page"
                assert wire.connections == connection

    run(check())


def test_a_server_that_has_begun_to_answer_has_seen_the_request() -> None:
    async def check() -> None:
        begun = Say([OK + b"X-Ser"], then="close")
        async with Wire([plain(b"page"), begun]) as wire, Client() as client:
            await client.get(wire.url())
            with pytest.raises(DownloadFailedError) as caught:
                await client.get(wire.url(), method="POST", body=b"order=1")
            assert not isinstance(caught.value, KeptConnectionClosed)
            assert wire.connections == 1

    run(check())


UNREADABLE = {
    "Content-Length: b'Content-Length: x, y'": OK + b"X N: ab\r\nContent-Length: x, y\r\n\r\n",
    "Content-Length": OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
    "Bad status line": b"HTTP/1.1 abc OK\r\n\r\n",
    "SSH-2.0": b"SSH-2.0-OpenSSH_9.2\r\n",
    "b'X M: ab'": OK + b"X M: ab\r\nContent-Le",
    "b'X O: ab'": OK + b"X O: ab\r\n" + b"Y: z\r\n" * 100_000,
}


@cases(("reason", "answer"), UNREADABLE.items())
def test_unreadable_response_names_the_problem(reason: str, answer: bytes) -> None:
    async def check() -> None:
        async with Wire([Say([answer], then="close")]) as wire, Client() as client:
            with pytest.raises(MalformedAnswer) as caught:
                await client.get(wire.url())
            assert reason in str(caught.value) and "\n" not in str(caught.value)

    run(check())


LONG = b"\x1b]0;owned\x07" * 12_000


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 " + LONG, OK + b"Server: " + LONG, OK + b"A: b\r\n" * 3000],
    ids=["status line", "header", "many headers"],
)
def test_overlong_head_is_not_quoted(answer: bytes) -> None:
    async def check() -> None:
        async with Wire([Say([answer + b"\r\n\r\n"], then="close")]) as wire, Client() as client:
            with pytest.raises(OverlongHead) as caught:
                await client.get(wire.url())
            assert len(str(caught.value)) < 100 and str(caught.value).isprintable()

    run(check())


def test_missing_response_is_not_a_malformed_one() -> None:
    async def check() -> None:
        for answer in (b"", OK + b"Content-Le"):
            async with Wire([Say([answer], then="close")]) as wire, Client() as client:
                with pytest.raises(DownloadFailedError) as caught:
                    await client.get(wire.url())
                assert not isinstance(caught.value, MalformedAnswer | KeptConnectionClosed)

    run(check())


@cases("extension", [b";", b" ; x", b';a="b;c"', b';a="b\\"c"', b"; a=b", b";a=b c", b";a=b;;c", b";\xe4=1"])
def test_extensions_of_chunks_are_ignored(extension: bytes) -> None:
    async def check() -> None:
        answer = CHUNKED + b"\r\n2%b\r\nbo\r\n2%b\r\ndy\r\n0%b\r\n\r\n" % ((extension,) * 3)
        async with Wire([Say([answer])]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert (response.body, response.flags) == (b"body", [])

    run(check())


def test_broken_chunk_ends_the_body_with_dataloss() -> None:
    async def check() -> None:
        answer = Say([CHUNKED + b"\r\n4\r\nbody\r\n", b"ZZ\r\n"], pause=0.1)
        async with Wire([answer]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert (response.body, response.flags) == (b"body", ["dataloss"])
            with pytest.raises(ResponseDataLossError, match="not framed as its head says"):
                await client.get(wire.url(), meta={"download_fail_on_dataloss": True})
        async with Wire([Say([b"".join(answer.pieces)])]) as wire, Client() as client:
            assert (await client.get(wire.url())).flags == ["dataloss"]

    run(check())


@cases("rest", [b"ZZ\n", b"3\nab", b"0\n", b"1\nabc\n", b"0\n" + b"X: y\n" * 20_000])
def test_broken_chunks_ended_by_line_feeds_are_dataloss(rest: bytes) -> None:
    async def check() -> None:
        pieces = [CHUNKED + b"\r\n4\nbody\n", rest]
        async with Wire([Say(pieces, then="close", pause=0.05)]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert (response.body[:4], response.flags) == (b"body", ["dataloss"])
            with pytest.raises(ResponseDataLossError):
                await client.get(wire.url(), meta={"download_fail_on_dataloss": True})

    run(check())


def test_body_of_a_204_response_is_ignored() -> None:
    async def check() -> None:
        answer = Say([b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nbody"])
        async with Wire([answer]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert (response.status, response.body) == (204, b"")

    run(check())


def test_repaired_head_is_archived() -> None:
    async def check() -> None:
        answer = Say([OK + b"X N: ab\r\nX-A: a\0b\r\n c\r\nServer: \xfc\r\nContent-Length: 4\r\n\r\nbody"])
        async with Wire([answer]) as wire, Client() as client:
            exchange = await client.exchange(wire.url())
            assert exchange.response_head == (OK + b"X-A: a b c\r\nServer: \xfc\r\nContent-Length: 4\r\n\r\n")

    run(check())
