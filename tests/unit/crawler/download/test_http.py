"""The download handler against real sockets: what is sent and received, and what is archived."""

from __future__ import annotations

import asyncio
import datetime
import zlib

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.http import HtmlResponse

from tests.cases import cases
from tests.downloads import Client, run
from tests.wire import Say, Wire, plain
from webcrawl.crawler.fetch import TRUNCATE, check_before_sending, exchange_of


def test_page_is_downloaded_as_a_response() -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"<p>hello", b"Content-Type: text/html; charset=utf-8")]) as wire,
            Client() as client,
        ):
            request = Request(wire.url("/a?b"))
            response = await client.send(request)
            assert isinstance(response, HtmlResponse)
            assert (response.status, response.body, response.url) == (200, b"<p>hello", wire.url("/a?b"))
            assert response.headers["Content-Type"] == b"text/html; charset=utf-8"
            assert str(response.ip_address) == "127.0.0.1"
            assert (response.protocol, response.certificate, response.flags) == ("HTTP/1.1", None, [])
            assert 0 < request.meta["download_latency"] < 5

    run(check())


def test_exchange_equals_the_bytes_on_the_wire() -> None:
    answer = plain(
        b"body", b"Content-Type: text/plain", b"X-Odd: a, b", b"x-odd: c", status=b"404 Nothing Here"
    )

    async def check() -> None:
        async with Wire([answer]) as wire, Client() as client:
            headers = {"Accept": "*/*", "User-Agent": "robot", "X-Several": ["one", "two"]}
            exchange = await client.exchange(wire.url("/a?b=c#part"), headers=headers)
            assert wire.heads == [exchange.request_head]
            assert exchange.request_head.startswith(
                b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % wire.port
            )
            for line in (b"Accept: */*", b"User-Agent: robot", b"X-Several: one", b"X-Several: two"):
                assert line + b"\r\n" in exchange.request_head
            assert exchange.response_head + bytes(exchange.payload) == answer.pieces[0]
            assert (exchange.status, exchange.method, exchange.url) == (404, "GET", wire.url("/a?b=c"))
            assert (exchange.ip_address, exchange.truncated) == ("127.0.0.1", None)
            assert datetime.timedelta() <= datetime.datetime.now(datetime.UTC) - exchange.fetched_at
            assert exchange.fetched_at.utcoffset() == datetime.timedelta()

    run(check())


def test_no_extra_headers_are_sent() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            await client.get(wire.url())
            names = {line.partition(b":")[0] for line in wire.heads[0].split(b"\r\n")[1:] if line}
            assert names <= {b"Host", b"Connection"}

    run(check())


def test_request_body_and_method_are_sent() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            body = bytes(range(256))
            exchange = await client.exchange(wire.url(), method="POST", body=body)
            assert wire.bodies == [body] == [exchange.request_body]
            assert wire.heads == [exchange.request_head]
            assert b"Content-Type" not in wire.heads[0]
            await client.get(wire.url(), method="DELETE")
            assert wire.heads[1].startswith(b"DELETE / HTTP/1.1\r\n")

    run(check())


@pytest.mark.parametrize("asks", [True, False])
def test_a_body_waits_for_a_server_that_is_asked_first(asks: bool) -> None:
    """Expect: 100-continue. A server that answers at once does not get the body."""

    async def check() -> None:
        bodies: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            if asks:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                bodies.append(await reader.readexactly(4))
            writer.write(b"HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
            bodies.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, Client() as client:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            headers = {"Expect": "100-continue"}
            response = await client.get(url, method="POST", body=b"body", headers=headers)
            assert (response.status, response.body) == (417, b"no")
        assert b"".join(bodies) == (b"body" if asks else b"")

    run(check())


@cases(
    "target",
    [
        "/",
        "/%7euser/%41/a%2fb",
        "//double//slash/./..",
        "/a;b=c?d=e+f%20g&h&=i",
        "/?q='\"<>{}|\\^`[]",
        "/a?b?c/d",
        "/caf%C3%A9%zz",
        "/a@b:c",
    ],
)
def test_verbatim_url_is_sent_unchanged(target: str) -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            request = Request(wire.url(target), meta={"verbatim_url": True})
            assert request.url == wire.url(target)
            response = await client.send(request)
            assert wire.heads[0].partition(b"\r\n")[0] == b"GET %s HTTP/1.1" % target.encode()
            exchange = exchange_of(request)
            assert exchange is not None and exchange.request_head == wire.heads[0]
            assert response.url == request.url

    run(check())


@cases("value", ["plain", "für", "字".encode(), b"f\xfcr"])
def test_header_values_are_sent_unchanged(value: str | bytes) -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            request = Request(wire.url(), headers={"X-Odd": value})
            await client.send(request)
            assert b"X-Odd: %s\r\n" % request.headers["X-Odd"] in wire.heads[0]
            exchange = exchange_of(request)
            assert exchange is not None and exchange.request_head == wire.heads[0]

    run(check())


def test_response_headers_are_received_unchanged() -> None:
    lines = [b"Location: /caf\xe9", b"X-Utf: \xc3\xa9", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"X-Empty: "]

    async def check() -> None:
        async with Wire([plain(b"", *lines, status=b"302 Found")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert response.status == 302  # the redirect is not followed
            assert len(wire.heads) == 1
            assert response.headers["Location"] == b"/caf\xe9"
            assert response.headers.getlist("Set-Cookie") == [b"a=1", b"b=2"]
            exchange = exchange_of(request)
            assert exchange is not None
            assert all(line.strip() in exchange.response_head for line in lines)
            await client.send(request)
            assert b"Cookie" not in wire.heads[1]

    run(check())


def test_content_encoding_is_not_decoded() -> None:
    packed = zlib.compress(b"text" * 100)

    async def check() -> None:
        async with Wire([plain(packed, b"Content-Encoding: deflate")]) as wire, Client() as client:
            exchange = await client.exchange(wire.url(), headers={"Accept-Encoding": "deflate"})
            assert bytes(exchange.payload) == packed

    run(check())


def test_connections_are_reused_except_after_truncation() -> None:
    answers = [plain(b"x" * 200_000)] * 5 + [plain(b"x" * 20_000_000), plain(b"last")]

    async def check() -> None:
        async with Wire(answers) as wire, Client() as client:
            for _ in range(5):
                await client.get(wire.url())
            assert wire.connections == 1
            await client.get(wire.url(), meta={TRUNCATE: 10})
            assert (await client.get(wire.url())).body == b"last"
            assert wire.connections == 2

    run(check())


def test_failed_request_is_not_repeated_by_the_client() -> None:
    """A server that closes a reused connection gets one request, so that the delay of its host holds."""
    answers = [plain(b"first"), Say([], then="close"), plain(b"third")]

    async def check() -> None:
        async with Wire(answers) as wire, Client() as client:
            await client.get(wire.url())
            with pytest.raises(DownloadFailedError):
                await client.get(wire.url())
            assert len(wire.heads) == 2
            assert (await client.get(wire.url())).body == b"third"

    run(check())


def test_connections_are_kept_after_a_burst_of_requests() -> None:
    async def check() -> None:
        async with Wire([plain(b"page")]) as wire, Client() as client:
            for together in (12, 1, 1, 12):
                await asyncio.gather(*(client.get(wire.url()) for _ in range(together)))
            assert (len(wire.heads), wire.connections) == (26, 12)

    run(check())


def test_request_can_be_stopped_after_connecting() -> None:
    """As when another worker leased the host while this one was still connecting."""

    async def check() -> None:
        async with Wire([plain(b"first")]) as wire, Client() as client:
            request = Request(wire.url())
            seen = []

            def refuse() -> None:
                seen.append(wire.connections)
                raise IgnoreRequest("too late")

            check_before_sending(request, refuse)
            with pytest.raises(IgnoreRequest):
                await client.send(request)
            assert len(seen) == 1
            assert (await client.get(wire.url())).body == b"first", "other requests are still sent"
            assert len(wire.heads) == 1

    run(check())


@cases(
    ("answer", "status", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            200,
            b"abcde",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 299 Odd \xfc\r\nContent-Length: 2\r\n\r\nok", 299, b"ok"),
        (b"HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\nok", 999, b"ok"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
        (b"HTTP/1.1 204 None\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
        (
            b"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200,
            b"ok",
        ),
    ],
)
def test_unusual_responses_are_read(answer: bytes, status: int, body: bytes) -> None:
    async def check() -> None:
        async with Wire([Say([answer], then="close")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.status, response.body, response.flags) == (status, body, [])
            exchange = exchange_of(request)
            assert exchange is not None
            assert exchange.response_head.startswith(b"HTTP/1.%d %d" % (b"HTTP/1.1" in answer, status))
            assert b"Odd" not in answer or b" Odd \xfc\r\n" in exchange.response_head
            assert exchange.response_head.endswith(b"\r\n\r\n")

    run(check())


def test_many_and_long_headers_are_read() -> None:
    lines = [b"X-%d: %s" % (number, b"v" * 200) for number in range(250)] + [b"X-Long: " + b"w" * 50_000]

    async def check() -> None:
        async with Wire([plain(b"ok", *lines)]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert response.headers["X-Long"] == b"w" * 50_000
            assert response.headers["X-249"] == b"v" * 200

    run(check())
