"""The download handler against real sockets: failures of every kind."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    StopDownload,
)

from tests.cases import cases
from tests.downloads import Client, run
from tests.wire import Say, Wire, plain
from webcrawl.crawler.fetch import TRUNCATE, exchange_of, fetch_of


@cases(
    "answer",
    [
        Say([], then="close"),
        Say([], then="reset"),
        Say([b"SSH-2.0-OpenSSH_9.2\r\n"], then="close"),
        Say([b"<html>no head at all</html>"], then="close"),
        Say([b"HTTP/1.1 abc OK\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Le"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"], then="close"),
    ],
)
def test_malformed_or_missing_response_raises(answer: Say) -> None:
    """The exception is one that Scrapy and the frontier know."""

    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=True) as client:
            with pytest.raises((DownloadFailedError, ResponseDataLossError)):
                await client.get(wire.url())

    run(check())


def test_failed_handshake_raises_its_reason() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 No TLS here\r\n\r\n")
        writer.close()

    async def check() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, Client() as client:
            with pytest.raises(DownloadFailedError) as failed:
                await client.get(f"https://{address}/")
        assert str(failed.value).startswith(f"cannot connect to {address}: [SSL")
        assert "object" not in str(failed.value)

    run(check())


def test_endless_headers_raise() -> None:
    async def check() -> None:
        flood = Say([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n" * 10_000] * 2000])
        async with Wire([flood]) as wire, Client() as client:
            with pytest.raises(DownloadFailedError):
                await client.get(wire.url())

    run(check())


def test_refused_connection_raises() -> None:
    async def check() -> None:
        async with Wire([]) as wire:
            url = wire.url()
        async with Client() as client:
            with pytest.raises(DownloadConnectionRefusedError) as refused:
                await client.get(url)
            address = url.removeprefix("http://").rstrip("/")
            assert str(refused.value) == f"cannot connect to {address}: Connection refused"

    run(check())


@pytest.mark.parametrize(
    "answer",
    [
        Say([], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\n"], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"], then="hang"),
    ],
)
def test_slow_response_times_out(answer: Say) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_TIMEOUT=0.3) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(DownloadTimeoutError, match=r"0\.3 seconds"):
                await client.get(wire.url())
            assert loop.time() - began < 9
            with pytest.raises(DownloadTimeoutError, match=r"0\.1 seconds"):
                await client.get(wire.url(), meta={"download_timeout": 0.1})

    run(check())


def test_the_head_has_to_come_in_the_time_of_a_host_that_never_answered() -> None:
    async def check() -> None:
        async with Wire([Say([], then="hang")]) as wire, Client(DOWNLOAD_TIMEOUT=100) as client:
            request = Request(wire.url())
            fetch_of(request).answer_seconds = 0.2
            with pytest.raises(DownloadTimeoutError, match=r"0\.2 seconds"):
                await client.send(request)

    run(check())


@pytest.mark.parametrize(
    "answer",
    [
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\naaa"], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\naaa\r\n"], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"a"] * 1000], pause=0.05),
    ],
)
def test_partial_body_is_kept_on_timeout(answer: Say) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_TIMEOUT=0.5) as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert response.body == b"a" * len(response.body) and 3 <= len(response.body) < 1000
            assert response.flags == ["timeout"]
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated == "time"
            assert bytes(exchange.payload) == response.body
            with pytest.raises(DownloadTimeoutError, match=r"0\.5 seconds"):
                await client.get(wire.url(), meta={"download_fail_on_dataloss": True})

    run(check())


LOSSES = [
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"], then="close"), b"abc"),
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"], then="close"), b""),
    (Say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"], then="close"), b"abc"),
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", b""], then="reset", pause=0.1), b"abc"),
]


@cases(("answer", "body"), LOSSES)
def test_interrupted_body_is_flagged_as_dataloss(answer: Say, body: bytes) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=False) as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.body, response.flags) == (body, ["dataloss"])
            exchange = exchange_of(request)
            assert exchange is not None and (bytes(exchange.payload), exchange.truncated) == (
                body,
                "disconnect",
            )
            with pytest.raises(ResponseDataLossError):
                await client.get(wire.url(), meta={"download_fail_on_dataloss": True})

    run(check())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1000\r\n" + b"a" * 0x1000 + b"\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"a" * 5000),
        Say([CHUNKED, *[CHUNK] * 5000]),
        Say([b"HTTP/1.0 200 OK\r\n\r\n", *[b"a" * 5000] * 9999]),
    ],
)
def test_too_large_body_is_cancelled_with_or_without_a_length(answer: Say) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_MAXSIZE=4000) as client:
            with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE 4000"):
                await client.get(wire.url())
            with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE 4999"):
                await client.get(wire.url(), meta={"download_maxsize": 4999})

    run(check())


@pytest.mark.parametrize("announced", [True, False])
def test_body_is_truncated_instead_of_cancelled_on_request(announced: bool) -> None:
    """As for robots.txt, of which the first 500 KiB are read."""
    answer = plain(b"a" * 90_000) if announced else Say([CHUNKED, *[CHUNK] * 5000])

    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_MAXSIZE=100) as client:
            request = Request(wire.url(), meta={TRUNCATE: 70_000})
            response = await client.send(request)
            assert (response.body, response.flags) == (b"a" * 70_000, ["truncated"])
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated == "length"

    run(check())


def test_body_over_the_warn_size_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def check() -> None:
        async with Wire([plain(b"a" * 50)]) as wire, Client(DOWNLOAD_WARNSIZE=40) as client:
            await client.get(wire.url("/small"), meta={"download_warnsize": 50})
            assert "DOWNLOAD_WARNSIZE" not in caplog.text
            await client.get(wire.url("/large"))
            assert f"{wire.url('/large')} has 50 bytes: more than DOWNLOAD_WARNSIZE 40" in caplog.text

    run(check())


@cases("fail", [True, False])
@cases("signal", [signals.headers_received, signals.bytes_received])
def test_stop_download_of_a_listener_ends_the_download(signal: object, fail: bool) -> None:
    received: list[dict[str, Any]] = []

    def listener(**details: Any) -> None:
        received.append(details)
        raise StopDownload(fail=fail)

    async def check() -> None:
        async with Wire([plain(b"a" * 500_000)]) as wire, Client() as client:
            client.crawler.signals.connect(listener, signal)
            request = Request(wire.url())
            if fail:
                with pytest.raises(StopDownload) as raised:
                    await client.send(request)
                response = raised.value.response
            else:
                response = await client.send(request)
            assert response is not None
            assert "download_stopped" in response.flags
            assert received[0]["request"] is request and len(received) == 1
            if signal is signals.headers_received:
                assert (received[0]["body_length"], response.body) == (500_000, b"")
                assert received[0]["headers"]["Content-Length"] == b"500000"
            else:
                assert response.body == received[0]["data"] and 0 < len(response.body) < 500_000
            exchange = exchange_of(request)
            assert exchange is not None and bytes(exchange.payload) == response.body
            assert exchange.truncated == "length"

    run(check())


def test_listeners_receive_the_whole_body() -> None:
    body = bytes(range(256)) * 2000
    received: list[bytes] = []

    def broken(**details: Any) -> None:
        raise KeyError("a mistake of a listener is none of ours")

    async def check() -> None:
        async with Wire([plain(body)]) as wire, Client() as client:

            def listener(data: bytes, **details: Any) -> None:
                received.append(data)

            client.crawler.signals.connect(broken, signals.headers_received)
            client.crawler.signals.connect(listener, signals.bytes_received)
            assert (await client.get(wire.url())).body == body == b"".join(received)

    run(check())
