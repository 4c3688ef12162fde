"""The download handler against real sockets: what goes over the wire, and what comes of all that can go wrong."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
import ssl
import zlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.settings import Settings

from tests.nameserver import Nameserver, Record, Trouble
from tests.wire import Proxy, Say, Wire, plain
from webcrawl.exchange import Exchange
from webcrawl.http import TRUNCATE, HTTPDownloadHandler, RequestRefused, exchange_of
from webcrawl.session import Session

LOOPBACK = {"ALLOWED_NETWORKS": ["127.0.0.0/8"]}
CLOSED = "127.0.0.1:9"


def run(coroutine: Coroutine[Any, Any, None], seconds: float = 15.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await coroutine

    asyncio.run(bounded())


class NamedSpider(Spider):
    name = "spider"


class Client:
    """The handler in a crawler with the project's settings; nothing is asked outside."""

    def __init__(self, **settings: Any) -> None:
        project = Settings()
        project.setmodule("settings.base")
        project.update({"DNS_SERVERS": [CLOSED], "DOWNLOAD_TIMEOUT": 10, **LOOPBACK, **settings})
        self.crawler = Crawler(NamedSpider, project)
        self.crawler.spider = NamedSpider()

    async def __aenter__(self) -> Self:
        self.session = Session.of(self.crawler)
        self._handler = HTTPDownloadHandler.from_crawler(self.crawler)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._handler.close()
        await self.session.resolver.close()

    async def get(self, url: str, **options: Any) -> Response:
        return await self.send(Request(url, **options))

    async def send(self, request: Request) -> Response:
        return await self._handler.download_request(request)

    async def exchange(self, url: str, **options: Any) -> Exchange:
        request = Request(url, **options)
        await self.send(request)
        exchange = exchange_of(request)
        assert exchange is not None
        return exchange


# --- an ordinary page ---


def test_a_page() -> None:
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


def test_what_is_kept_is_what_went_over_the_wire() -> None:
    answer = plain(
        b"body", b"Content-Type: text/plain", b"X-Odd: a, b", b"x-odd: c", status=b"404 Nothing Here"
    )

    async def check() -> None:
        async with Wire([answer]) as wire, Client() as client:
            headers = {"Accept": "*/*", "User-Agent": "robot", "X-Several": ["one", "two"]}
            exchange = await client.exchange(wire.url("/a?b=c"), headers=headers)
            assert wire.heads == [exchange.request_head]
            assert exchange.request_head.startswith(
                b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % wire.port
            )
            for line in (b"Accept: */*", b"User-Agent: robot", b"X-Several: one", b"X-Several: two"):
                assert line + b"\r\n" in exchange.request_head
            assert exchange.response_head + exchange.payload == answer.pieces[0]
            assert (exchange.status, exchange.method, exchange.url) == (404, "GET", wire.url("/a?b=c"))
            assert (exchange.ip_address, exchange.truncated) == ("127.0.0.1", None)
            assert datetime.timedelta() <= datetime.datetime.now(datetime.UTC) - exchange.fetched_at
            assert exchange.fetched_at.utcoffset() == datetime.timedelta()

    run(check())


def test_nothing_is_sent_that_nobody_asked_for() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            await client.get(wire.url())
            names = {line.partition(b":")[0] for line in wire.heads[0].split(b"\r\n")[1:] if line}
            assert names <= {b"Host", b"Connection"}

    run(check())


def test_a_body_goes_out() -> None:
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


@pytest.mark.parametrize(
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
def test_a_url_goes_out_letter_by_letter(target: str) -> None:
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


@pytest.mark.parametrize("value", ["plain", "für", "字".encode()])
def test_header_values_go_out_byte_by_byte(value: str | bytes) -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            request = Request(wire.url(), headers={"X-Odd": value})
            await client.send(request)
            assert b"X-Odd: %s\r\n" % request.headers["X-Odd"] in wire.heads[0]
            exchange = exchange_of(request)
            assert exchange is not None and exchange.request_head == wire.heads[0]

    run(check())


def test_header_values_that_are_no_text_go_out_as_latin_1_in_utf_8() -> None:
    """The client below cannot send other bytes; what is kept is what is sent."""

    async def check() -> None:
        async with Wire([plain(b"")]) as wire, Client() as client:
            exchange = await client.exchange(wire.url(), headers={"X-Odd": b"f\xfcr"})
            assert "X-Odd: für\r\n".encode() in wire.heads[0] == exchange.request_head

    run(check())


def test_response_headers_come_in_byte_by_byte() -> None:
    lines = [b"Location: /caf\xe9", b"X-Utf: \xc3\xa9", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"X-Empty: "]

    async def check() -> None:
        async with Wire([plain(b"", *lines, status=b"302 Found")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert response.status == 302  # and not followed
            assert len(wire.heads) == 1
            assert response.headers["Location"] == b"/caf\xe9"
            assert response.headers.getlist("Set-Cookie") == [b"a=1", b"b=2"]
            exchange = exchange_of(request)
            assert exchange is not None
            assert all(line.strip() in exchange.response_head for line in lines)
            await client.send(request)
            assert b"Cookie" not in wire.heads[1]

    run(check())


def test_a_coding_is_left_on() -> None:
    packed = zlib.compress(b"text" * 100)

    async def check() -> None:
        async with Wire([plain(packed, b"Content-Encoding: deflate")]) as wire, Client() as client:
            exchange = await client.exchange(wire.url(), headers={"Accept-Encoding": "deflate"})
            assert exchange.payload == packed

    run(check())


def test_connections_are_used_again_and_those_cut_off_are_not() -> None:
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


def test_a_request_is_not_repeated_behind_our_back() -> None:
    """A server that closes a kept connection without a word gets one request, and the host its pause."""
    answers = [plain(b"first"), Say([], then="close"), plain(b"third")]

    async def check() -> None:
        async with Wire(answers) as wire, Client() as client:
            await client.get(wire.url())
            with pytest.raises(DownloadFailedError):
                await client.get(wire.url())
            assert len(wire.heads) == 2
            assert (await client.get(wire.url())).body == b"third"

    run(check())


@pytest.mark.parametrize(
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
def test_responses_as_they_come(answer: bytes, status: int, body: bytes) -> None:
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


def test_many_and_long_headers() -> None:
    lines = [b"X-%d: %s" % (number, b"v" * 200) for number in range(250)] + [b"X-Long: " + b"w" * 50_000]

    async def check() -> None:
        async with Wire([plain(b"ok", *lines)]) as wire, Client() as client:
            response = await client.get(wire.url())
            assert response.headers["X-Long"] == b"w" * 50_000
            assert response.headers["X-249"] == b"v" * 200

    run(check())


# --- what goes wrong ---


@pytest.mark.parametrize(
    "answer",
    [
        Say([], then="close"),
        Say([], then="reset"),
        Say([b"SSH-2.0-OpenSSH_9.2\r\n"], then="close"),
        Say([b"<html>no head at all</html>"], then="close"),
        Say([b"HTTP/1.1 abc OK\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Le"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"], then="close"),
        Say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"], then="close"),
    ],
)
def test_what_is_no_answer_is_a_failure(answer: Say) -> None:
    """Whatever comes, it is an exception that Scrapy and the frontier know."""

    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=True) as client:
            with pytest.raises((DownloadFailedError, ResponseDataLossError)):
                await client.get(wire.url())

    run(check())


def test_endless_headers_come_to_an_end() -> None:
    async def check() -> None:
        flood = Say([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n" * 10_000] * 2000])
        async with Wire([flood]) as wire, Client() as client:
            with pytest.raises(DownloadFailedError):
                await client.get(wire.url())

    run(check())


def test_nobody_listens() -> None:
    async def check() -> None:
        async with Wire([]) as wire:
            url = wire.url()
        async with Client() as client:
            with pytest.raises(DownloadConnectionRefusedError):
                await client.get(url)

    run(check())


@pytest.mark.parametrize(
    "answer",
    [
        Say([], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\n"], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"], then="hang"),
        Say([b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"a"] * 1000], pause=0.05),
    ],
)
def test_a_slow_server_is_left(answer: Say) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_TIMEOUT=0.3) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(DownloadTimeoutError, match=r"0\.3 seconds"):
                await client.get(wire.url())
            assert loop.time() - began < 3
            with pytest.raises(DownloadTimeoutError, match=r"0\.1 seconds"):
                await client.get(wire.url(), meta={"download_timeout": 0.1})

    run(check())


LOSSES = [
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"], then="close"), b"abc"),
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"], then="close"), b""),
    (Say([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"], then="close"), b"abc"),
    (Say([b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", b""], then="reset", pause=0.1), b"abc"),
]


@pytest.mark.parametrize(("answer", "body"), LOSSES)
def test_a_response_cut_short(answer: Say, body: bytes) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_FAIL_ON_DATALOSS=False) as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert (response.body, response.flags) == (body, ["dataloss"])
            exchange = exchange_of(request)
            assert exchange is not None and (exchange.payload, exchange.truncated) == (body, "disconnect")
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
def test_too_large_announced_or_not(answer: Say) -> None:
    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_MAXSIZE=4000) as client:
            with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE 4000"):
                await client.get(wire.url())
            with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE 4999"):
                await client.get(wire.url(), meta={"download_maxsize": 4999})

    run(check())


@pytest.mark.parametrize("announced", [True, False])
def test_too_large_but_wanted_up_to_there(announced: bool) -> None:
    """robots.txt is read up to 500 KiB, whatever its length."""
    answer = plain(b"a" * 90_000) if announced else Say([CHUNKED, *[CHUNK] * 5000])

    async def check() -> None:
        async with Wire([answer]) as wire, Client(DOWNLOAD_MAXSIZE=100) as client:
            request = Request(wire.url(), meta={TRUNCATE: 70_000})
            response = await client.send(request)
            assert (response.body, response.flags) == (b"a" * 70_000, ["truncated"])
            exchange = exchange_of(request)
            assert exchange is not None and exchange.truncated == "length"

    run(check())


def test_large_ones_are_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def check() -> None:
        async with Wire([plain(b"a" * 50)]) as wire, Client(DOWNLOAD_WARNSIZE=40) as client:
            await client.get(wire.url("/small"), meta={"download_warnsize": 50})
            assert "DOWNLOAD_WARNSIZE" not in caplog.text
            await client.get(wire.url("/large"))
            assert f"{wire.url('/large')} has 50 bytes: more than DOWNLOAD_WARNSIZE 40" in caplog.text

    run(check())


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("signal", [signals.headers_received, signals.bytes_received])
def test_a_listener_stops_a_download(signal: object, fail: bool) -> None:
    heard: list[dict[str, Any]] = []

    def listener(**details: Any) -> None:
        heard.append(details)
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
            assert heard[0]["request"] is request and len(heard) == 1
            if signal is signals.headers_received:
                assert (heard[0]["body_length"], response.body) == (500_000, b"")
                assert heard[0]["headers"]["Content-Length"] == b"500000"
            else:
                assert response.body == heard[0]["data"] and 0 < len(response.body) < 500_000
            exchange = exchange_of(request)
            assert exchange is not None and exchange.payload == response.body
            assert exchange.truncated == "length"

    run(check())


def test_listeners_that_let_it_go_on_hear_everything() -> None:
    body = bytes(range(256)) * 2000
    heard: list[bytes] = []

    def broken(**details: Any) -> None:
        raise KeyError("a mistake of a listener is none of ours")

    async def check() -> None:
        async with Wire([plain(body)]) as wire, Client() as client:

            def listener(data: bytes, **details: Any) -> None:
                heard.append(data)

            client.crawler.signals.connect(broken, signals.headers_received)
            client.crawler.signals.connect(listener, signals.bytes_received)
            assert (await client.get(wire.url())).body == body == b"".join(heard)

    run(check())


# --- TLS ---


class Authority:
    """A certificate authority of the test's own, and a server certificate by it."""

    def __init__(self, folder: Path, *names: str, days: int = 1) -> None:
        self.file = folder / "ca.pem"
        key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of our own")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        now = datetime.datetime.now(datetime.UTC)
        start = x509.CertificateBuilder().issuer_name(issuer).not_valid_before(now - datetime.timedelta(9))
        basic = start.not_valid_after(now + datetime.timedelta(days)).serial_number(7)
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        authority = basic.subject_name(issuer).public_key(key.public_key())
        authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        server = basic.subject_name(subject).public_key(server_key.public_key())
        server = server.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        self.file.write_bytes(authority.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        self.certificate = server.sign(key, hashes.SHA256())
        (folder / "server.pem").write_bytes(
            self.certificate.public_bytes(serialization.Encoding.PEM)
            + server_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that this machine trusts, and a server with a good certificate."""
    authority = Authority(tmp_path, "127.0.0.1", "secure.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    return authority


@contextmanager
def names(**zone: str) -> Iterator[str]:
    """A name server that knows the addresses of `zone`; underscores stand for dots."""
    records = {name.replace("_", "."): [Record("A", address)] for name, address in zone.items()}
    with Nameserver(records) as nameserver:
        yield nameserver.address


def test_https_with_a_good_certificate(authority: Authority) -> None:
    async def check() -> None:
        async with Wire([plain(b"secret")], authority.context) as wire:
            with names(secure_test="127.0.0.1") as nameserver:
                async with Client(DNS_SERVERS=[nameserver]) as client:
                    for host in ("127.0.0.1", "secure.test"):
                        response = await client.get(wire.url("/", host))
                        assert response.body == b"secret"
                        der = authority.certificate.public_bytes(serialization.Encoding.DER)
                        assert response.certificate == der
                        again = await client.get(wire.url("/", host))  # over the same connection
                        assert again.certificate == der and str(again.ip_address) == "127.0.0.1"
            assert wire.connections == 2

    run(check())


@pytest.mark.parametrize("fault", ["unknown", "expired", "other name"])
def test_https_with_a_bad_certificate(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "other.test" if fault == "other name" else "127.0.0.1"
    authority = Authority(tmp_path, listed, days=-1 if fault == "expired" else 1)
    if fault != "unknown":
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

    async def check() -> None:
        async with Wire([plain(b"secret")], authority.context) as wire:
            async with Client() as client:
                with pytest.raises(DownloadFailedError, match="certificate"):
                    await client.get(wire.url())
                assert not wire.heads
            async with Client(DOWNLOAD_VERIFY_CERTIFICATES=False) as client:
                assert (await client.get(wire.url())).body == b"secret"

    run(check())


def test_https_where_no_tls_is_spoken() -> None:
    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Speak HTTP\r\n\r\n")
        writer.close()

    async def check() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Client() as client:
            with pytest.raises(DownloadFailedError):
                await client.get(f"https://127.0.0.1:{port}/")

    run(check())


# --- proxies ---


def test_a_proxy_is_asked_instead() -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"page")]) as wire,
            Proxy({"far.test": wire.port}) as proxy,
            Client() as client,
        ):
            exchange = await client.exchange("http://far.test/a?b", meta={"proxy": proxy.url})
            assert proxy.asked == [b"GET http://far.test/a?b HTTP/1.1"]
            assert exchange.payload == b"page"
            assert exchange.request_head.startswith(b"GET /a?b HTTP/1.1\r\nHost: far.test\r\n")

    run(check())


@pytest.mark.parametrize("token", ["Basic dXNlcjpwYTpzcyUvQA==", "basic dXNlcjpwYTpzcyUvQA=="])
def test_a_proxy_gets_its_credentials_and_the_site_does_not(token: str) -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"page")]) as wire,
            Proxy({"far.test": wire.port}) as proxy,
            Client() as client,
        ):
            request = Request(
                "http://far.test/", headers={"Proxy-Authorization": token}, meta={"proxy": proxy.url}
            )
            await client.send(request)
            assert proxy.credentials == [b"Basic dXNlcjpwYTpzcyUvQA=="]
            exchange = exchange_of(request)
            assert exchange is not None and b"uthorization" not in exchange.request_head

    run(check())


def test_https_goes_through_a_tunnel(authority: Authority) -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"secret")], authority.context) as wire,
            Proxy({"secure.test:443": wire.port, "elsewhere.test:443": wire.port}) as proxy,
            Client() as client,
        ):
            response = await client.get(
                "https://secure.test/a",
                headers={"Proxy-Authorization": "Basic dXNlcjpwYTpzcyUvQA=="},
                meta={"proxy": proxy.url.removeprefix("http://")},
            )
            assert (response.body, proxy.asked) == (b"secret", [b"CONNECT secure.test:443 HTTP/1.1"])
            assert proxy.credentials == [b"Basic dXNlcjpwYTpzcyUvQA=="]
            assert response.certificate is not None
            assert b"Authorization" not in wire.heads[0]
            with pytest.raises(DownloadFailedError, match="certificate"):
                await client.get("https://elsewhere.test/", meta={"proxy": proxy.url})

    run(check())


def test_a_proxy_that_refuses() -> None:
    async def check() -> None:
        async with Proxy({}, refusal=b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n") as proxy:
            async with Client() as client:
                with pytest.raises(DownloadFailedError, match="407"):
                    await client.get("https://far.test/", meta={"proxy": proxy.url})
                with pytest.raises(DownloadFailedError, match="only Basic"):
                    headers = {"Proxy-Authorization": "Digest abc"}
                    await client.get("http://far.test/", headers=headers, meta={"proxy": proxy.url})
            url = proxy.url
        async with Client() as client:
            with pytest.raises(DownloadConnectionRefusedError):
                await client.get("http://far.test/", meta={"proxy": url})

    run(check())


def test_a_proxy_is_no_way_around_the_guard() -> None:
    async def check() -> None:
        async with Proxy({}) as proxy, Client(ALLOWED_NETWORKS=[]) as client:
            for address in ("127.0.0.1", "[::1]", "169.254.169.254"):
                with pytest.raises(RequestRefused):
                    await client.get(f"http://{address}/", meta={"proxy": proxy.url})
            assert not proxy.asked
            # nor is its own address open to pages, though it has been used
            proxy.refusal = b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"
            assert (await client.get("http://far.test/", meta={"proxy": proxy.url})).status == 502
            with pytest.raises(RequestRefused):
                await client.get(proxy.url)


def test_a_proxy_may_have_a_name() -> None:
    async def check() -> None:
        async with Wire([plain(b"page")]) as wire, Proxy({"far.test": wire.port}) as proxy:
            with names(proxy_test="127.0.0.1") as nameserver:
                async with Client(ALLOWED_NETWORKS=[], DNS_SERVERS=[nameserver]) as client:
                    way = f"proxy.test:{proxy.port}"
                    assert (await client.get("http://far.test/", meta={"proxy": way})).body == b"page"

    run(check())


# --- names and addresses ---


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "user@127.0.0.1",
        "user:secret@127.0.0.1",
        "LOCALHOST",
        "localhost.",
        "inner.test",
        "INNER.test.",
        "mixed.test",
    ],
)
def test_nobody_is_led_to_this_machine(host: str) -> None:
    """However its address is spelt; normalised URLs know only some of these, verbatim ones all."""
    zone = {
        "inner.test": [Record("A", "127.0.0.1")],
        "mixed.test": [Record("A", "127.0.0.1"), Record("A", "192.0.2.1")],
        **{name: [Record("A", "127.0.0.1")] for name in ("127.0.0.1", "127.1", "2130706433", "0x7f000001")},
    }

    async def check() -> None:
        async with Wire([plain(b"inside")]) as wire:
            with Nameserver(zone) as nameserver:
                async with Client(DNS_SERVERS=[nameserver.address], ALLOWED_NETWORKS=[]) as client:
                    request = Request(wire.url("/", host), meta={"verbatim_url": True, "download_timeout": 3})
                    with pytest.raises((RequestRefused, CannotResolveHostError, UnsupportedURLSchemeError)):
                        await client.send(request)
            assert wire.connections == 0

    run(check())


@pytest.mark.parametrize(
    "host",
    ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1]", "[::]", "0.0.0.0"],
)
def test_nobody_is_led_there_by_ipv6_either(host: str) -> None:
    async def check() -> None:
        async with Wire([plain(b"inside")]) as wire, Client(ALLOWED_NETWORKS=[]) as client:
            with pytest.raises(RequestRefused):
                await client.get(wire.url("/", host), meta={"download_timeout": 3})
            assert wire.connections == 0

    run(check())


def test_a_host_that_its_operator_named() -> None:
    async def check() -> None:
        async with Wire([plain(b"ours")]) as wire, Wire([plain(b"not ours")]) as other:
            async with Client(ALLOWED_NETWORKS=[]) as client:
                client.session.guard.allow_host("127.0.0.1", wire.port)
                assert (await client.get(wire.url())).body == b"ours"
                with pytest.raises(RequestRefused):
                    await client.get(other.url())
            with names(ours_test="127.0.0.1") as nameserver:
                async with Client(ALLOWED_NETWORKS=[], DNS_SERVERS=[nameserver]) as client:
                    client.session.guard.allow_host("ours.test", wire.port)
                    assert (await client.get(wire.url("/", "ours.test"))).body == b"ours"
                    with pytest.raises(RequestRefused):
                        await client.get(other.url("/", "ours.test"))

    run(check())


def test_names_without_an_address() -> None:
    async def check() -> None:
        with Nameserver({"broken.test": Trouble.SERVFAIL}) as nameserver:
            async with Client(DNS_SERVERS=[nameserver.address], DNS_TIMEOUT=1) as client:
                for name in ("missing.test", "broken.test", "a" * 64 + ".test", "-.test"):
                    with pytest.raises(CannotResolveHostError, match=name):
                        await client.get(f"http://{name}/")

    run(check())


def test_a_name_with_several_addresses_is_tried_at_each() -> None:
    zone = {"several.test": [Record("A", "127.0.0.9"), Record("A", "127.0.0.1")]}

    async def check() -> None:
        async with Wire([plain(b"page")]) as wire:
            with Nameserver(zone) as nameserver:
                async with Client(DNS_SERVERS=[nameserver.address]) as client:
                    response = await client.get(wire.url("/", "several.test"))
                    assert str(response.ip_address) == "127.0.0.1"

    run(check())


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///path", "http://:80/"])
def test_urls_that_are_none(url: str) -> None:
    async def check() -> None:
        async with Client() as client:
            with pytest.raises((UnsupportedURLSchemeError, RequestRefused, CannotResolveHostError)):
                await client.get(url)

    run(check())


def test_an_exchange_is_forgotten_with_its_request() -> None:
    async def check() -> None:
        async with Wire([plain(b"page", b"Content-Type: text/plain")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert isinstance(response, TextResponse)
            assert exchange_of(request) is not None
            assert exchange_of(request.copy()) is None
            assert exchange_of(None) is None

    run(check())
