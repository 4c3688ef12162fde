"""Status lines that are not as the standard says, and repeated lengths: which are read, and what the row says.

The tables have what Chromium 156 and libcurl 8 read. Chromium also reads a line without a status, as 200.
"""

from __future__ import annotations

import pytest
from scrapy import Request

from tests.cases import cases
from tests.downloads import Client, CurlClient, run
from tests.wire import Say, Wire, plain
from webcrawl.crawler.errors import MalformedAnswer
from webcrawl.crawler.fetch import exchange_of
from webcrawl.documents.exchange import status_in
from webcrawl.errors import HeadTooLong, MalformedHead
from webcrawl.http.heads import HeadReader, read_head

OK = b"HTTP/1.1 200 OK\r\n"
ODD = ["odd_status_line"]
REPEATED = ["repeated_length"]

REGULAR = (
    b"HTTP/1.1 404 Not Found",
    b"HTTP/1.0 404 Not Found",
    b"HTTP/1.1 404 ",
    b"HTTP/1.1 404",
    b"HTTP/1.1 404 Nicht gefunden, tut uns leid \xfc",
)
READ_BY_BOTH = (
    b"http/1.1 404 Not Found",
    b"Http/1.1 404 Not Found",
    b"HTTP/2.0 404 Not Found",
    b"HTTP/3.0 404 Not Found",
    b"HTTP/1.1 404Not Found",
    b"HTTP/1.1 404.14 Not Found",
    b"HTTP/1.1 404: Not Found",
    b"HTTP/1.1\t404\tNot Found",
    b"HTTP/1.1 404\tNot Found",
)
READ_BY_BROWSERS = (
    b"HTTP/1.2 404 Not Found",
    b"HTTP/0.9 404 Not Found",
    b"HTTP/2 404 Not Found",
    b"HTTP/1 404 Not Found",
    b"HTTP/1. 404 Not Found",
    b"HTTP/1.10 404 Not Found",
    b"HTTP/1.1.1 404 Not Found",
    b"HTTP/ 404 Not Found",
    b"HTTP 404 Not Found",
    b"HTTP/x.y 404 Not Found",
    b"HTTPS/1.1 404 Not Found",
    b"HTTP/1.1  404  Not Found",
    b" HTTP/1.1 404 Not Found",
    b"\tHTTP/1.1 404 Not Found",
    b"\nHTTP/1.1 404 Not Found",
    b"\r\n\r\nHTTP/1.1 404 Not Found",
    b"\xef\xbb\xbfHTTP/1.1 404 Not Found",
    b"</p>HTTP/1.1 404 Not Found",
    b"\r\nhttp/1.2  404",
)
REFUSED = (
    b"ICY 200 OK",
    b"RTSP/1.0 200 OK",
    b"SSH-2.0-OpenSSH_9.2",
    b"Status: 200 OK",
    b"HTTP/1.1 2000 OK",
    b"HTTP/1.1 20 OK",
    b"HTTP/1.1 0200 OK",
    b"HTTP/1.1 -200 OK",
    b"HTTP/1.1 +200 OK",
    b"HTTP/1.1 000 OK",
    b"HTTP/1.1 099 OK",
    b"HTTP/1.1 OK",
    b"HTTP/1.1",
    b"HTTP/1.1200 OK",
    b'HTTP/1.1 "200 OK"',
    b"HTTP/1.1\xa0200 OK",
    b"HTTP/1.1\x0b200 OK",
    b"HTTP /1.1 200 OK",
    b"HTTP/1.1 HTTP/1.1 200 OK",
    b"more HTTP/1.1 200 OK",
    b"a line of text\r\nHTTP/1.1 200 OK",
    b"<html>",
)


def answered(line: bytes) -> bytes:
    return line + b"\r\nContent-Length: 4\r\n\r\nbody"


def tried(client_class: type[Client], answer: bytes, flags: list[str], status: int = 404) -> None:
    """Checks what a client reads and archives, and that a connection is used again only if it sent no odd head."""

    async def check() -> None:
        async with Wire([Say([answer]), plain(b"next")]) as wire, client_class() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.status, response.body, response.flags) == (status, b"body", flags)
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated is None
            assert status_in(exchange.response_head) == status
            if flags:
                sent = answer[answer.lower().index(b"http") :].partition(b"\r\n")[0]
                assert exchange.response_head.partition(b"\r\n")[0] == sent
                lengths = exchange.response_head.lower().count(b"content-length")
                assert lengths == answer.lower().count(b"content-length")
            assert (await client.get(wire.url())).body == b"next"
            assert wire.connections == (1 if answer.startswith(b"HTTP/1.1") and not flags else 2)

    run(check())


@cases("client_class", [Client, CurlClient])
@cases(("line", "flags"), [*((line, []) for line in REGULAR), *((line, ODD) for line in READ_BY_BOTH)])
def test_status_line_is_read_by_both_clients(
    line: bytes, flags: list[str], client_class: type[Client]
) -> None:
    tried(client_class, answered(line), flags)


@cases("line", READ_BY_BROWSERS)
def test_status_line_is_read_as_in_browsers(line: bytes) -> None:
    tried(Client, answered(line), ODD)


@cases("line", READ_BY_BROWSERS)
def test_odd_status_line_may_come_byte_by_byte(line: bytes) -> None:
    async def check() -> None:
        answer = answered(line)
        said = Say([answer[at : at + 1] for at in range(len(answer))], pause=0.001)
        async with Wire([said]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert (response.status, response.body, response.flags) == (404, b"body", ODD)

    run(check())


def refused(client_class: type[Client], answer: bytes) -> None:
    async def check() -> None:
        async with Wire([Say([answer])]) as wire, client_class() as client:
            with pytest.raises(MalformedAnswer):
                await client.get(wire.url())

    run(check())


@cases("client_class", [Client, CurlClient])
@cases("line", REFUSED)
def test_line_without_a_status_is_refused_at_once(line: bytes, client_class: type[Client]) -> None:
    refused(client_class, answered(line))


@cases("line", READ_BY_BROWSERS)
def test_a_host_that_libcurl_cannot_read_is_asked_by_the_other_client(line: bytes) -> None:
    async def check() -> None:
        async with Wire([Say([answered(line)])] * 2) as wire, CurlClient() as client:
            with pytest.raises(MalformedAnswer):
                await client.get(wire.url())
            response = await client.get(wire.url())
            assert (response.status, response.body, response.flags) == (404, b"body", ODD)
            with pytest.raises(MalformedAnswer):  # the other client does not look like a browser
                await client.get(wire.url(), meta={"impersonate": "chrome"})

    run(check())


LENGTH = b"Content-Length: "
SAME_LENGTHS = {
    "two headers": LENGTH + b"4\r\n" + LENGTH + b"4",
    "three headers": LENGTH + b"4\r\ncontent-length: 4\r\nX-A: b\r\n" + LENGTH + b"4",
    "a list": LENGTH + b"4, 4",
    "a list without spaces": LENGTH + b"4,4,4",
    "a list and a header": LENGTH + b"4, 4\r\n" + LENGTH + b"4",
    "a leading zero": LENGTH + b"4\r\n" + LENGTH + b"04",
}
OTHER_LENGTHS = {
    "two headers": LENGTH + b"4\r\n" + LENGTH + b"5",
    "three headers": LENGTH + b"4\r\n" + LENGTH + b"4\r\n" + LENGTH + b"5",
    "a list": LENGTH + b"4, 5",
    "an empty value": LENGTH + b"4\r\n" + LENGTH,
    "an empty entry": LENGTH + b"4,",
    "a sign": LENGTH + b"+4\r\n" + LENGTH + b"4",
    "words": LENGTH + b"x\r\n" + LENGTH + b"y",
}


@cases("client_class", [Client, CurlClient])
@cases("fields", SAME_LENGTHS.values(), ids=SAME_LENGTHS)
def test_repeated_equal_length_is_read(fields: bytes, client_class: type[Client]) -> None:
    tried(client_class, OK + fields + b"\r\n\r\nbody", REPEATED, status=200)


@pytest.mark.parametrize("client_class", [Client, CurlClient])
def test_each_leniency_is_noted(client_class: type[Client]) -> None:
    tried(client_class, answered(b"http/1.1 404 Not Found\r\nContent-Length: 4"), [*ODD, *REPEATED])


@cases("client_class", [Client, CurlClient])
@cases("fields", OTHER_LENGTHS.values(), ids=OTHER_LENGTHS)
def test_different_lengths_are_refused(fields: bytes, client_class: type[Client]) -> None:
    refused(client_class, OK + fields + b"\r\n\r\nbody")


NO_LENGTHS = (b"", b"+4", b"-1", b"4;", b"4.0", b"4 bytes", b"many", b"9" * 30, b"x\r\n" + LENGTH + b"x")


@cases("length", NO_LENGTHS)
def test_a_length_that_is_no_number_is_ignored(length: bytes) -> None:
    async def check() -> None:
        answer = Say([OK + LENGTH + length + b"\r\n\r\n", b"bo", b"dy"], then="close", pause=0.001)
        async with Wire([answer, plain(b"next")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.body, response.flags) == (b"body", ["odd_length"])
            assert "Content-Length" not in response.headers
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated is None
            assert b"Content-Length: " + length in exchange.response_head
            assert (await client.get(wire.url())).body == b"next"

    run(check())


def test_odd_responses_with_a_status_of_1xx_are_skipped() -> None:
    async def check() -> None:
        hints = b"http/1.1 103 Early Hints\r\nX N: ab\r\n\r\n"
        page = answered(b"HTTP/1.2 404 Not Found")
        answers = [Say([hints + page]), Say([hints, hints[:9], hints[9:], page], pause=0.02)]
        async with Wire([*answers, Say([hints] * 200, pause=0.001)]) as wire, Client() as client:
            for _ in answers:
                response = await client.get(wire.url())
                assert (response.status, response.body, response.flags) == (404, b"body", ODD)
            with pytest.raises(MalformedAnswer):
                await client.get(wire.url())

    run(check())


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"<html>\n\n", b"HTTP/1.1 20\r\n\r\n"])
def test_only_a_response_head_is_repaired(data: bytes) -> None:
    with pytest.raises(MalformedHead):
        read_head(data)


@cases(
    ("data", "may"),
    [
        (b"\r\n\r\nHTT", True),
        (b"HTTP/1.1 abc", True),
        (b"HTTP/1.1 103 Early\r\n\r\n", True),
        (b"HTTP/1.1 103 Early\r\n\r\n" * 11, False),
        (b"HTTP/1.1 abc\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH", False),
    ],
)
def test_data_that_cannot_become_a_head_ends_the_wait(data: bytes, may: bool) -> None:
    if may:
        assert HeadReader().feed(data) is None
    else:
        with pytest.raises(MalformedHead):
            HeadReader().feed(data)


def fed_until_refused(start: bytes, again: bytes) -> tuple[int, MalformedHead]:
    """Feeds a reader `again` until it raises; returns how often, and what it raised."""
    reader = HeadReader()
    assert reader.feed(start) is None
    for number in range(1, 200_000):
        try:
            assert reader.feed(again) is None
        except MalformedHead as error:
            return number, error
    raise AssertionError("never refused")


@cases("again", [b"\n", b"\r", b"\r\n"])
def test_empty_lines_before_a_status_line_are_refused_after_a_few(again: bytes) -> None:
    number, error = fed_until_refused(again, again)
    assert (number + 1) * len(again) <= 258
    assert "empty lines" in str(error)
    with pytest.raises(MalformedHead, match="empty lines"):
        HeadReader().feed(again * 50_000)


def test_empty_lines_before_a_head_count_alike_in_any_pieces() -> None:
    head = answered(OK.strip())
    for blank, is_read in ((256, True), (257, False)):
        whole = b"\n" * blank + head
        readers = HeadReader(), HeadReader()
        try:
            bytewise = (readers[1].feed(whole[at : at + 1]) for at in range(len(whole)))
            parsed = [readers[0].feed(whole), next(filter(None, bytewise))]
            assert [read[0].status for read in parsed if read] == [200, 200]
            assert is_read
        except MalformedHead:
            assert not is_read


@cases("again", [b"a:\n", b"a: b\r\n", b" more\n"])
def test_a_head_of_many_lines_is_refused_as_its_lines_come(again: bytes) -> None:
    number, error = fed_until_refused(OK, again)
    assert number == 1000
    assert isinstance(error, HeadTooLong)
