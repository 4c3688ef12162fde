"""The handler for HTTP/2 and impersonation, against real servers of HTTP/1.1 and HTTP/2.

What it shares with the default handler is tested by the same tests.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    NotConfigured,
    NotSupported,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.utils.test import get_crawler

from tests.downloads import Client, CurlClient, names, run
from tests.http2 import Answer, FrameFlood, Http2Server, frame
from tests.listener import Listener
from tests.ports import free_ports
from tests.unit.crawler.download import test_http, test_http_failures, test_http_ways
from tests.unit.crawler.download.test_http_ways import Authority, authority
from tests.wire import Wire, plain
from webcrawl.config import PolitenessConfig
from webcrawl.crawler.download import curl_transfer
from webcrawl.crawler.download.curl import CurlDownloadHandler
from webcrawl.crawler.errors import MalformedAnswer, RequestRefused
from webcrawl.crawler.fetch import TRUNCATE, PacedCheck, check_before_sending, exchange_of
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.politeness import Ok
from webcrawl.hosts.turns import Turns
from webcrawl.middlewares.user_agent import UserAgentMiddleware
from webcrawl.stores.warc.records import response_record

__all__ = ["authority"]

# libcurl reports no certificate, sends bodies without asking first, words failures itself, and has a SOCKS proxy
# connect only to the first address
DIFFERENT = {
    "test_failed_handshake_raises_its_reason",
    "test_refused_connection_raises",
    "test_https_with_a_valid_certificate_succeeds",
    "test_https_is_tunnelled_through_the_proxy",
    "test_a_socks_proxy_connects_to_the_next_address_if_it_cannot_reach_one",
    "test_a_socks_login_that_cannot_be_sent_is_refused_without_showing_it",
    "test_a_body_waits_for_a_server_that_is_asked_first",
}
SHARED: dict[ModuleType, list[str]] = {
    module: [name for name in vars(module) if name.startswith("test_") and name not in DIFFERENT]
    for module in (test_http, test_http_failures, test_http_ways)
}
for _module, _names in SHARED.items():
    globals().update({name: getattr(_module, name) for name in _names})


@pytest.fixture(autouse=True)
def curl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the shared tests use this handler."""
    for module in SHARED:
        monkeypatch.setattr(module, "Client", CurlClient)


def over_http2(
    authority: Authority,
    pages: dict[str, Answer],
    check: Callable[[Http2Server, Client], Any],
    **settings: Any,
) -> None:
    """Runs `check` with an HTTP/2 server and a client that trusts it."""

    async def with_server() -> None:
        async with Http2Server(authority.context, pages) as server:
            with names(secure_test="127.0.0.1") as nameserver:
                async with CurlClient(DNS_SERVERS=[nameserver], **settings) as client:
                    await check(server, client)

    run(with_server())


def test_http_2_is_negotiated_and_archived(authority: Authority) -> None:
    body = bytes(range(256)) * 1000
    pages = {"/a?b=%7e": Answer(body, 404, {"content-type": "text/plain", "x-odd": "1"})}

    async def check(server: Http2Server, client: Client) -> None:
        for host in ("127.0.0.1", "secure.test", "secure.test."):
            request = Request(
                server.url("/a?b=%7e", host), headers={"User-Agent": "robot"}, meta={"verbatim_url": True}
            )
            response = await client.send(request)
            assert (response.status, response.body, response.protocol) == (404, body, "HTTP/2")
            assert (str(response.ip_address), response.headers["X-Odd"]) == ("127.0.0.1", b"1")
            assert dict(server.requests[-1])[b":path"] == b"/a?b=%7e"
            assert [name for name, _ in server.requests[-1] if not name.startswith(b":")] == [b"user-agent"]
        exchange = exchange_of(request)
        assert exchange is not None
        # HTTP/2 has no text: the archive has the form of HTTP/1.1
        lines = exchange.request_head.split(b"\r\n")
        assert lines == [
            b"GET /a?b=%7e HTTP/1.1",
            b"Host: " + dict(server.requests[-1])[b":authority"],
            b"User-Agent: robot",
            b"",
            b"",
        ]
        assert exchange.response_head.startswith(b"HTTP/1.1 404 Not Found\r\ncontent-length: 256000\r\n")
        assert (bytes(exchange.payload), exchange.ip_address) == (body, "127.0.0.1")
        assert response_record(exchange, "<urn:uuid:1>").fields["WARC-Protocol"] == "h2"

    over_http2(authority, pages, check)


class Relay(Listener):
    """Passes connections on to another port, and holds the first bytes of each: a handshake with a distant server."""

    def __init__(self, to: int, seconds: float) -> None:
        self._to = to
        self._seconds = seconds

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        first = await reader.read(65536)
        await asyncio.sleep(self._seconds)
        inner, out = await asyncio.open_connection("127.0.0.1", self._to)
        self._open.add(out)
        out.write(first)
        await asyncio.gather(_pass_on(reader, out), _pass_on(inner, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


def test_requests_that_wait_for_a_connection_are_sent_a_gap_apart(authority: Authority) -> None:
    host = "https://127.0.0.1"

    async def check(server: Http2Server, client: Client) -> None:
        turns = Turns(PolitenessConfig(delay=0.1, concurrency=8))

        async def ask(port: int) -> int:
            turn = await turns.take(host)
            request = Request(f"{host}:{port}/")
            check_before_sending(request, PacedCheck(lambda: None, lambda _: turns.sending(turn)))
            try:
                return (await client.send(request)).status
            finally:
                turns.give(host, turn, Ok())

        # the fifth could be sent over the first connection, when the second one has just been opened
        async with Relay(server.port, 0.39) as relay:
            assert await asyncio.gather(*(ask(relay.port) for _ in range(8))) == [200] * 8
        # the server may be late to read one
        assert min(after - before for before, after in pairwise(server.asked_at)) > 0.05

    over_http2(authority, {"/": Answer(b"abc")}, check)


def test_a_request_that_cannot_connect_leaves_its_turn_to_the_next() -> None:
    async def check() -> None:
        turns = Turns(PolitenessConfig(concurrency=2))
        async with CurlClient() as client:
            for port in free_ports(2):
                turn = await turns.take("https://127.0.0.1")
                request = Request(f"https://127.0.0.1:{port}/")
                check_before_sending(
                    request, PacedCheck(lambda: None, lambda _, turn=turn: turns.sending(turn))
                )
                with pytest.raises(DownloadConnectionRefusedError):
                    await asyncio.wait_for(client.send(request), 60)

    run(check())


@pytest.mark.parametrize("then", ["reset", "close"])
def test_an_http_2_body_that_breaks_off_is_flagged_as_dataloss(authority: Authority, then: str) -> None:
    async def check(server: Http2Server, client: Client) -> None:
        response = await client.get(server.url())
        assert (response.body, response.flags) == (b"abc", ["dataloss"])
        with pytest.raises(ResponseDataLossError):
            await client.get(server.url(), meta={"download_fail_on_dataloss": True})

    over_http2(authority, {"/": Answer(b"abc", then=then)}, check, DOWNLOAD_FAIL_ON_DATALOSS=False)


def test_an_http_2_connection_that_ends_without_an_answer_raises(authority: Authority) -> None:
    async def check(server: Http2Server, client: Client) -> None:
        with pytest.raises(DownloadFailedError):
            await client.get(server.url())
        assert len(server.requests) == 1

    over_http2(authority, {"/": Answer(then="goaway")}, check)


def test_http_2_bodies_are_limited_in_size_and_time(authority: Authority) -> None:
    large = b"a" * 3_000_000
    pages = {"/large": Answer(large), "/slow": Answer(b"abc", then="hang"), "/small": Answer(b"small")}

    async def check(server: Http2Server, client: Client) -> None:
        with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE 4000"):
            await client.get(server.url("/large"), meta={"download_maxsize": 4000})
        cut = await client.get(server.url("/large"), meta={TRUNCATE: 70_000})
        assert (cut.body, cut.flags) == (large[:70_000], ["truncated"])
        slow = await client.get(server.url("/slow"), meta={"download_timeout": 0.3})
        assert (slow.body, slow.flags) == (b"abc", ["timeout"])
        with pytest.raises(DownloadTimeoutError, match=r"0\.2 seconds"):
            meta = {"download_timeout": 0.2, "download_fail_on_dataloss": True}
            await client.get(server.url("/slow"), meta=meta)
        # streams that were given up harm no other one
        assert (await client.get(server.url("/large"))).body == large
        assert (await client.get(server.url("/small"))).body == b"small"

    over_http2(authority, pages, check)


HEAD_OF_200 = frame(1, 4, 1, b"\x88")


@pytest.mark.parametrize(
    ("flood", "head"),
    [
        (frame(8, 0, 0, bytes([0, 0, 0, 1])), b""),
        (frame(2, 0, 1, bytes(5)), HEAD_OF_200),
        (frame(0, 0, 1), HEAD_OF_200),
        (frame(0x77, 0, 0, bytes(100)), b""),
    ],
    ids=["WINDOW_UPDATE", "PRIORITY", "empty DATA", "unknown"],
)
def test_frames_without_content_end_their_connection(authority: Authority, flood: bytes, head: bytes) -> None:
    async def check() -> None:
        async with FrameFlood(authority.context, flood, head) as server, CurlClient() as client:
            if head:
                assert (await client.get(server.url())).flags == ["dataloss"]
            else:
                with pytest.raises(MalformedAnswer, match="with little or no content"):
                    await client.get(server.url())
            await server.cut.wait()
            # what the client has not read is in buffers of the system
            assert server.sent < 64 * 1024 * 1024

    run(check())


def test_the_frames_of_a_large_body_do_not_end_another_response(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl_transfer, "_MOST_BARE", 2 * 1024 * 1024)
    pages = {
        "/large": Answer(bytes(6 * 1024 * 1024)),
        "/slow": Answer(b"abc", then="hang"),
        "/small": Answer(b"a"),
    }

    async def check(server: Http2Server, client: Client) -> None:
        await client.get(server.url("/small"))
        announced = len(server.settings)
        slow = asyncio.create_task(client.get(server.url("/slow"), meta={"download_timeout": 60}))
        large = await client.get(server.url("/large"))
        assert len(large.body) == len(pages["/large"].body)
        assert len(server.settings) == announced, "all share a connection"
        assert not slow.done()
        slow.cancel()

    over_http2(authority, pages, check)


def test_a_slow_reader_stops_the_server_instead_of_filling_memory(authority: Authority) -> None:
    async def check(server: Http2Server, client: Client) -> None:
        handler = client._handler
        assert isinstance(handler, CurlDownloadHandler)
        option = handler._option
        way = [(option.URL, server.url().encode()), (option.SSL_VERIFYPEER, 0), (option.SSL_VERIFYHOST, 0)]
        async with handler._transfers.send("", way, None) as transfer:
            await transfer.head()
            await asyncio.sleep(0.5)
            assert transfer._held < 2 * 1024 * 1024
            size = 0
            while chunk := await transfer.read():
                size += len(chunk)
            assert size == 6_000_000

    over_http2(authority, {"/": Answer(b"a" * 6_000_000)}, check)


def test_a_browser_is_impersonated_in_settings_and_headers(authority: Authority) -> None:
    async def check(server: Http2Server, client: Client) -> None:
        defaults = {
            **client.crawler.settings.getdict("DEFAULT_REQUEST_HEADERS"),
            "User-Agent": client.crawler.settings["USER_AGENT"],
        }
        for browser in (None, "chrome", "firefox135"):
            request = Request(server.url(), headers={**defaults, "X-Own": "1"}, meta={"impersonate": browser})
            response = await client.send(request)
            assert (response.body, response.protocol) == (b"hello", "HTTP/2")
        robot, chrome, firefox = (dict(fields) for fields in server.requests)
        assert robot[b"user-agent"].decode() == client.crawler.settings["USER_AGENT"]
        assert b"Chrome/" in chrome[b"user-agent"] and b"sec-ch-ua" in chrome
        assert b"Firefox/135" in firefox[b"user-agent"] and b"sec-ch-ua" not in firefox
        assert b"br" in chrome[b"accept-encoding"]
        assert {fields[b"x-own"] for fields in (robot, chrome, firefox)} == {b"1"}
        announced = [tuple(sorted(settings.items())) for settings in server.settings]
        assert len(set(announced)) == 3, "each has a fingerprint of its own"
        # the archive has the headers that were really sent
        exchange = exchange_of(request)
        assert exchange is not None and b"Firefox/135" in exchange.request_head

    over_http2(authority, {"/": Answer(b"hello")}, check)


def test_a_rule_gives_an_impersonated_browser_no_other_user_agent(authority: Authority) -> None:
    async def check(server: Http2Server, client: Client) -> None:
        rules = [
            {"match": "localhost", "user_agent": "rulebot/1"},
            {"match": "127.0.0.1", "user_agent": "rulebot/1"},
        ]
        settings = {**client.crawler.settings.copy_to_dict(), "POLITENESS_RULES": rules}
        middleware = UserAgentMiddleware.from_crawler(get_crawler(settings_dict=settings))
        for browser in (None, "chrome"):
            request = Request(server.url(), meta={"impersonate": browser})
            middleware.process_request(request)
            await client.send(request)
        robot, chrome = (dict(fields) for fields in server.requests)
        assert robot[b"user-agent"] == b"rulebot/1"
        assert b"Chrome/" in chrome[b"user-agent"] and b"sec-ch-ua" in chrome

    over_http2(authority, {"/": Answer(b"hello")}, check)


def test_tls_versions_are_limited_as_in_the_default_handler(authority: Authority) -> None:
    authority.context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def check() -> None:
        async with Wire([plain(b"page")], authority.context) as wire:
            for kind in (Client, CurlClient):
                async with kind(DOWNLOAD_TLS_MIN_VERSION="TLSv1.2") as client:
                    assert (await client.get(wire.url())).body == b"page"
                async with kind(DOWNLOAD_TLS_MAX_VERSION="TLSv1.2") as client:
                    with pytest.raises((DownloadFailedError, DownloadConnectionRefusedError)):
                        await client.get(wire.url())

    run(check())
    with pytest.raises(ConfigurationError, match=r"'SSLv3' is not one of TLSv1\.0, TLSv1\.1"):
        CurlDownloadHandler.from_crawler(CurlClient(DOWNLOAD_TLS_MIN_VERSION="SSLv3").crawler)


def test_an_unknown_browser_is_named() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, CurlClient() as client:
            with pytest.raises(NotSupported, match="'netscape' is not a browser that curl_cffi supports"):
                await client.get(wire.url(), meta={"impersonate": "netscape"})
            assert wire.connections == 0

    run(check())


def test_the_default_handler_refuses_to_impersonate() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            with pytest.raises(NotSupported, match=r"webcrawl\.crawler\.download\.curl\.CurlDownloadHandler"):
                await client.get(wire.url(), meta={"impersonate": "chrome"})
            assert wire.connections == 0

    run(check())


def test_the_environment_chooses_neither_proxy_nor_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def check() -> None:
        async with Wire([plain(b"page")]) as wire, CurlClient() as client:
            assert (await client.get(wire.url())).body == b"page"

    run(check())


@pytest.mark.parametrize(
    "url", ["http://0x7f.1:{port}/", "http://user@127.0.0.1:{port}/", "http://far.test\\@127.0.0.1:{port}/"]
)
def test_libcurl_connects_only_to_the_checked_host(url: str) -> None:
    async def check() -> None:
        async with Wire([plain(b"inner")]) as wire:
            with names(far_test="203.0.113.1") as nameserver:
                async with CurlClient(DNS_SERVERS=[nameserver], ALLOWED_NETWORKS=[]) as client:
                    with pytest.raises((RequestRefused, DownloadFailedError)):
                        await client.get(url.format(port=wire.port), meta={"verbatim_url": True})
            assert wire.connections == 0

    run(check())


@pytest.mark.parametrize("kind", [Client, CurlClient])
@pytest.mark.parametrize(
    "bound", [{"DOWNLOAD_BIND_ADDRESS": "127.0.0.5"}, {"BIND_ADDRESSES": ["::1", "127.0.0.5"]}]
)
def test_connections_are_bound_to_the_configured_address(kind: type[Client], bound: dict[str, Any]) -> None:
    peers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def check() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, kind(**bound) as client:
            await client.get(f"http://127.0.0.1:{port}/")
        assert peers == ["127.0.0.5"]

    run(check())


def test_refused_connection_names_the_address() -> None:
    async def check() -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        async with CurlClient() as client:
            with pytest.raises(DownloadConnectionRefusedError, match=address):
                await client.get(f"http://{address}/")

    run(check())


def test_header_with_a_line_break_is_refused() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, CurlClient() as client:
            with pytest.raises(UnsupportedURLSchemeError, match="line break"):
                await client.get(wire.url(), headers={b"X-Odd": b"a\r\nX-Other: b"})
            assert wire.connections == 0

    run(check())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "curl_cffi", None)
    client = CurlClient()
    with pytest.raises(NotConfigured, match=r"pip install 'curl_cffi"):
        CurlDownloadHandler(client.crawler, Session.of(client.crawler))
