"""How the download handler connects: TLS, proxies, name resolution and blocked addresses."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scrapy import Request, signals
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)
from scrapy.http import TextResponse

from tests.cases import cases
from tests.downloads import Client, names, run
from tests.nameserver import Nameserver, Record, Trouble
from tests.wire import Proxy, SocksProxy, Wire, plain
from webcrawl.crawler.errors import ProxyFailed, RequestRefused
from webcrawl.crawler.fetch import exchange_of
from webcrawl.http.pool import Pool, Way
from webcrawl.http.requests import Origin

SIGNS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A test certificate authority, and a server certificate signed by it."""

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
        # Python 3.13 verifies strictly, as RFC 5280 has it
        issuing = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        authority = authority.add_extension(issuing, critical=False).add_extension(SIGNS, critical=True)
        server = basic.subject_name(subject).public_key(server_key.public_key())
        server = server.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        issued = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        server = server.add_extension(issued, critical=False)
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
    """A trusted authority and a valid server certificate."""
    authority = Authority(tmp_path, "127.0.0.1", "secure.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    return authority


def test_https_with_a_valid_certificate_succeeds(authority: Authority) -> None:
    async def check() -> None:
        async with Wire([plain(b"secret")], authority.context) as wire:
            with names(secure_test="127.0.0.1") as nameserver:
                async with Client(DNS_SERVERS=[nameserver]) as client:
                    for host in ("127.0.0.1", "secure.test"):
                        response = await client.get(wire.url("/", host))
                        assert response.body == b"secret"
                        der = authority.certificate.public_bytes(serialization.Encoding.DER)
                        assert response.certificate == der
                        again = await client.get(wire.url("/", host))  # on the same connection
                        assert again.certificate == der and str(again.ip_address) == "127.0.0.1"
            assert wire.connections == 2

    run(check())


def test_https_completes_a_large_body_that_is_read_slowly(authority: Authority) -> None:
    size = 3_000_000
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with authority.context.wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size
            connection.sendall(head + b"x" * size)

    async def check() -> None:
        async with Client() as client:
            client.crawler.signals.connect(read_slowly, signals.bytes_received)
            serving = asyncio.create_task(asyncio.to_thread(serve))
            response = await client.get(f"https://127.0.0.1:{listener.getsockname()[1]}/")
            assert (len(response.body), response.flags) == (size, [])
            await serving

    def read_slowly() -> None:
        time.sleep(0.004)

    with listener:
        uvloop.run(check())


@pytest.mark.parametrize("fault", ["unknown", "expired", "other name"])
def test_https_with_an_invalid_certificate_fails_unless_verification_is_off(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "other.test" if fault == "other name" else "127.0.0.1"
    authority = Authority(tmp_path, listed, days=-1 if fault == "expired" else 1)
    (tmp_path / "another").mkdir()
    trusted = Authority(tmp_path / "another", listed) if fault == "unknown" else authority
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.file))

    async def check() -> None:
        async with Wire([plain(b"secret")], authority.context) as wire:
            async with Client() as client:
                with pytest.raises(DownloadFailedError, match="certificate"):
                    await client.get(wire.url())
                assert not wire.heads
            async with Client(DOWNLOAD_VERIFY_CERTIFICATES=False) as client:
                assert (await client.get(wire.url())).body == b"secret"

    run(check())


def test_https_to_a_plain_http_server_fails() -> None:
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


def test_request_is_sent_to_the_proxy() -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"page")]) as wire,
            Proxy({"far.test": wire.port}) as proxy,
            Client() as client,
        ):
            exchange = await client.exchange("http://far.test/a?b", meta={"proxy": proxy.url})
            assert proxy.asked == [b"GET http://far.test/a?b HTTP/1.1"]
            assert bytes(exchange.payload) == b"page"
            assert exchange.request_head.startswith(b"GET /a?b HTTP/1.1\r\nHost: far.test\r\n")

    run(check())


@pytest.mark.parametrize("token", ["Basic dXNlcjpwYTpzcyUvQA==", "basic dXNlcjpwYTpzcyUvQA=="])
def test_proxy_credentials_are_not_sent_to_the_site(token: str) -> None:
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


def test_https_is_tunnelled_through_the_proxy(authority: Authority) -> None:
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


@cases("status", [b"201 Created", b"204 No Content", b"299 Odd"])
def test_any_status_of_success_opens_a_tunnel(status: bytes, authority: Authority) -> None:
    async def check() -> None:
        async with (
            Wire([plain(b"secret")], authority.context) as wire,
            Proxy({"secure.test:443": wire.port}, grant=b"HTTP/1.1 %b\r\n\r\n" % status) as proxy,
            Client() as client,
        ):
            assert (await client.get("https://secure.test/", meta={"proxy": proxy.url})).body == b"secret"

    run(check())


def test_refusal_of_a_proxy_raises() -> None:
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
            with pytest.raises(ProxyFailed, match="cannot connect to the proxy"):
                await client.get("http://far.test/", meta={"proxy": url})

    run(check())


def test_address_guard_applies_behind_a_proxy() -> None:
    async def check() -> None:
        async with Proxy({}) as proxy, Client(ALLOWED_NETWORKS=[]) as client:
            for address in ("127.0.0.1", "[::1]", "169.254.169.254"):
                with pytest.raises(RequestRefused):
                    await client.get(f"http://{address}/", meta={"proxy": proxy.url})
            assert not proxy.asked
            # pages cannot request the proxy's own address, even after its use
            proxy.refusal = b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"
            assert (await client.get("http://far.test/", meta={"proxy": proxy.url})).status == 502
            with pytest.raises(RequestRefused):
                await client.get(proxy.url)

    run(check())


def test_proxy_can_be_given_by_name_and_is_no_target_of_links() -> None:
    async def check() -> None:
        async with Wire([plain(b"page")]) as wire, Proxy({"far.test": wire.port}) as proxy:
            with names(proxy_test="127.0.0.1") as nameserver:
                async with Client(ALLOWED_NETWORKS=[], DNS_SERVERS=[nameserver]) as client:
                    way = f"proxy.test:{proxy.port}"
                    assert (await client.get("http://far.test/", meta={"proxy": way})).body == b"page"
                    with pytest.raises(RequestRefused):
                        await client.get(f"http://{way}/")
            assert len(proxy.asked) == 1

    run(check())


@pytest.mark.parametrize("scheme", ["socks4", "socks4a", "socks5", "socks5h"])
@pytest.mark.parametrize("loop", [asyncio, uvloop])
def test_requests_pass_through_a_socks_proxy(scheme: str, loop: Any, authority: Authority) -> None:
    async def check() -> None:
        resolved = "192.0.2.1" if scheme in ("socks4", "socks5") else "secure.test"
        login = b"me:s/cret" if "5" in scheme else None
        async with (
            Wire([plain(b"page")]) as wire,
            Wire([plain(b"secret")], authority.context) as secure,
            SocksProxy({f"{resolved}:80": wire.port, f"{resolved}:443": secure.port}, login=login) as proxy,
        ):
            with names(secure_test="192.0.2.1") as nameserver:
                async with Client(DNS_SERVERS=[nameserver], ALLOWED_NETWORKS=["192.0.2.0/24"]) as client:
                    meta = {"proxy": f"{scheme}://me:s%2Fcret@127.0.0.1:{proxy.port}"}
                    for _ in range(2):
                        exchange = await client.exchange("http://secure.test/a?b", meta=meta)
                    response = await client.get("https://secure.test/", meta=meta)
            # one connection to each server, kept for the next request
            assert proxy.asked == [f"{resolved}:80".encode(), f"{resolved}:443".encode()]
            assert set(proxy.credentials) == {login or b"me"}
            assert (bytes(exchange.payload), response.body, exchange.ip_address) == (b"page", b"secret", None)
            # the host sees no proxy
            assert wire.heads == [exchange.request_head] * 2
            assert exchange.request_head.startswith(b"GET /a?b HTTP/1.1\r\nHost: secure.test\r\n")
            assert b"uthorization" not in wire.heads[0] + secure.heads[0]

    loop.run(check())


def test_a_socks_proxy_connects_to_the_next_address_if_it_cannot_reach_one() -> None:
    zone = {"far.test": [Record("A", "192.0.2.1"), Record("A", "192.0.2.2"), Record("AAAA", "2001:db8::7")]}

    async def check(scheme: str, reached: str) -> None:
        async with Wire([plain(b"page")]) as wire, SocksProxy({f"{reached}:80": wire.port}) as proxy:
            with Nameserver(zone) as nameserver:
                networks = ["192.0.2.0/24", "2001:db8::/32"]
                async with Client(DNS_SERVERS=[nameserver.address], ALLOWED_NETWORKS=networks) as client:
                    meta = {"proxy": f"{scheme}://127.0.0.1:{proxy.port}"}
                    assert (await client.get("http://far.test/", meta=meta)).body == b"page"
                    assert f"{reached}:80".encode() in proxy.asked
                    proxy.asked.clear()
                    with pytest.raises(DownloadFailedError, match=r"proxy of SOCKS \d: ") as raised:
                        await client.get("http://far.test:81/", meta=meta)
                    assert not isinstance(raised.value, ProxyFailed)
                    asked = {line.rpartition(b":")[0] for line in proxy.asked}
                    assert asked >= {b"192.0.2.1", b"192.0.2.2"}
                    assert (b"2001:db8::7" in asked) == (scheme == "socks5")

    run(check("socks5", "2001:db8::7"))
    run(check("socks4", "192.0.2.2"))


@cases(
    ("scheme", "login", "refusal", "says", "message", "is_proxy"),
    [
        ("socks5", b"me:other", None, None, "authentication failure|User was rejected", True),
        ("socks5h", None, b"\5\2\0\1", None, r"not allowed by ruleset|\(2\)", True),
        ("socks5h", None, b"\5\5\0\1", None, r"Connection refused by destination host|\(5\)", False),
        ("socks4a", None, b"\0\x5b", None, "Request rejected or failed|request rejected or failed", False),
        ("socks4a", None, b"\0\x5d", None, r"different user-ids|\(93\)", True),
        (
            "socks5h",
            None,
            None,
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "Unexpected SOCKS version number: 72|invalid version",
            True,
        ),
        ("socks5h", None, None, b"", "closed|reset by peer", True),
    ],
)
def test_the_refusal_of_a_socks_proxy_is_named_without_the_password(
    scheme: str,
    login: bytes | None,
    refusal: bytes | None,
    says: bytes | None,
    message: str,
    *,
    is_proxy: bool,
) -> None:
    async def check() -> None:
        proxy = SocksProxy({}, login=login, refusal=refusal, says=says)
        async with proxy, Client(ALLOWED_NETWORKS=["192.0.2.0/24"]) as client:
            with pytest.raises(DownloadFailedError, match=message) as raised:
                url = f"{scheme}://me:secret@127.0.0.1:{proxy.port}"
                await client.get("http://192.0.2.1/", meta={"proxy": url})
            assert isinstance(raised.value, ProxyFailed) == is_proxy
            assert "secret" not in "".join(traceback.format_exception(raised.value))

    run(check())


def test_a_socks_login_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    async def check() -> None:
        async with SocksProxy({}, login=b"me:x") as proxy, Client() as client:
            for password in ("secr%C3%A9t", "secr" * 100):
                with pytest.raises(ProxyFailed, match="up to 255 ASCII") as raised:
                    url = f"socks5h://me:{password}@127.0.0.1:{proxy.port}"
                    await client.get("http://far.test/", meta={"proxy": url})
                assert "secr" not in "".join(traceback.format_exception(raised.value))
        async with Client() as client:
            with pytest.raises(ProxyFailed, match="cannot connect to the proxy: Connection refused"):
                await client.get("http://far.test/", meta={"proxy": url})
            with pytest.raises(UnsupportedURLSchemeError, match="not the URL of a proxy of http") as wrong:
                await client.get("http://far.test/", meta={"proxy": "gopher://me:secret@127.0.0.1:1"})
            assert "secret" not in str(wrong.value)

    run(check())


def test_a_socks_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with Wire([plain(b"page")]) as wire, Client() as client:
            async with SocksProxy({"far.test:80": wire.port}, login=b"me:s/cret") as proxy:
                monkeypatch.setenv("http_proxy", f"socks5h://me:s%2Fcret@127.0.0.1:{proxy.port}")
                request = Request("http://far.test/")
                HttpProxyMiddleware().process_request(request)
                assert (await client.send(request)).body == b"page"
                assert (proxy.asked, proxy.credentials) == ([b"far.test:80"], [b"me:s/cret"])
            assert b"uthorization" not in wire.heads[0]

    run(check())


def test_a_silent_socks_proxy_ends_with_the_time_of_the_request() -> None:
    async def check() -> None:
        async with Wire([plain(b"")]) as mute, Client() as client:
            with pytest.raises(DownloadTimeoutError):
                meta = {"proxy": f"socks5h://127.0.0.1:{mute.port}", "download_timeout": 0.2}
                await client.get("http://far.test/", meta=meta)

    run(check())


def test_the_address_guard_applies_behind_a_socks_proxy() -> None:
    async def check() -> None:
        async with SocksProxy({}) as proxy:
            with names(inner_test="127.0.0.1") as nameserver:
                async with Client(ALLOWED_NETWORKS=[], DNS_SERVERS=[nameserver]) as client:
                    for scheme in ("socks4", "socks4a", "socks5", "socks5h"):
                        meta = {"proxy": f"{scheme}://127.0.0.1:{proxy.port}"}
                        for address in ("127.0.0.1", "[::1]", "169.254.169.254"):
                            with pytest.raises(RequestRefused):
                                await client.get(f"http://{address}/", meta=meta)
                        if not scheme.endswith(("a", "h")):  # which resolve it themselves
                            with pytest.raises(RequestRefused):
                                await client.get("http://inner.test/", meta=meta)
            assert not proxy.asked

    run(check())


# --- names and addresses ---


@cases(
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
def test_loopback_is_blocked_in_every_spelling(host: str) -> None:
    """Verbatim URLs keep all of these spellings; normalized URLs only some."""
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


@cases(
    "host",
    ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1]", "[::]", "0.0.0.0"],
)
def test_loopback_and_local_ipv6_addresses_are_blocked(host: str) -> None:
    async def check() -> None:
        async with Wire([plain(b"inside")]) as wire, Client(ALLOWED_NETWORKS=[]) as client:
            with pytest.raises(RequestRefused):
                await client.get(wire.url("/", host), meta={"download_timeout": 3})
            assert wire.connections == 0

    run(check())


def test_allowed_host_is_reachable_at_its_port_only() -> None:
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


def test_unresolvable_names_raise() -> None:
    async def check() -> None:
        with Nameserver({"broken.test": Trouble.SERVFAIL}) as nameserver:
            async with Client(DNS_SERVERS=[nameserver.address], DNS_TIMEOUT=1) as client:
                for name in ("missing.test", "broken.test", "a" * 64 + ".test", "-.test"):
                    with pytest.raises(CannotResolveHostError, match=name):
                        await client.get(f"http://{name}/")

    run(check())


def test_every_address_of_a_name_is_tried() -> None:
    zone = {"several.test": [Record("A", "127.0.0.9"), Record("A", "127.0.0.1")]}

    async def check() -> None:
        async with Wire([plain(b"page")]) as wire:
            with Nameserver(zone) as nameserver:
                async with Client(DNS_SERVERS=[nameserver.address]) as client:
                    response = await client.get(wire.url("/", "several.test"))
                    assert str(response.ip_address) == "127.0.0.1"

    run(check())


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http:///path", "http://:80/"])
def test_invalid_urls_raise(url: str) -> None:
    async def check() -> None:
        async with Client() as client:
            with pytest.raises((UnsupportedURLSchemeError, RequestRefused, CannotResolveHostError)):
                await client.get(url)

    run(check())


def test_exchange_belongs_to_one_request_object() -> None:
    async def check() -> None:
        async with Wire([plain(b"page", b"Content-Type: text/plain")]) as wire, Client() as client:
            request = Request(wire.url())
            response = await client.send(request)
            assert isinstance(response, TextResponse)
            assert exchange_of(request) is not None
            assert exchange_of(request.copy()) is None
            assert exchange_of(None) is None

    run(check())


@cases("loop_run", [asyncio.run, uvloop.run])
def test_a_connection_of_tls_may_be_left_in_the_moment_in_which_it_closes(
    loop_run: Callable[[Any], None], authority: Authority
) -> None:
    loop_run(_left_while_it_closes(authority))


async def _left_while_it_closes(authority: Authority) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [host]

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=authority.context)
    pool = Pool(resolve, ssl.create_default_context)
    way = Way(Origin("https", "127.0.0.1", server.sockets[0].getsockname()[1]))
    connection = await pool.take(way)
    connection.send("GET", b"GET / HTTP/1.1\r\n\r\n")
    while connection.transport is not None and connection.transport.get_extra_info("socket") is not None:
        await asyncio.sleep(0)
    assert connection.transport is not None
    pool.give(way, connection)
    await pool.close()
    server.close()
