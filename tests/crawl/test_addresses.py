"""A page on the public web cannot make the crawler connect to private addresses."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tests.crawls import CrawlResult
from tests.nameserver import Nameserver, Record, Trouble, Zone
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

PUBLIC = "www.public.example"
LOOPBACK = [Record("A", "127.0.0.1")]


class Doorbell:
    """Listens on one port of several local addresses and records each connection; tests expect none."""

    def __init__(self, *addresses: str, port: int = 0) -> None:
        self.rings: list[str] = []
        self.addresses: list[str] = []
        self._sockets: list[socket.socket] = []
        self.port = port
        for address in addresses:
            with suppress(OSError):  # without IPv6 there is no IPv6 address to protect
                self._listen(address)

    def _listen(self, address: str) -> None:
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        self._sockets.append(listener)
        self.addresses.append(address)
        threading.Thread(target=self._serve, args=(listener, address), daemon=True).start()

    def _serve(self, listener: socket.socket, address: str) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.rings.append(address)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._sockets:
            listener.close()


@pytest.fixture
def doorbell() -> Iterator[Doorbell]:
    with Doorbell("127.0.0.1", "::1") as bell:
        assert "127.0.0.1" in bell.addresses
        yield bell


def links_to(*urls: str) -> str:
    return "".join(f'<a href="{url}">x</a>' for url in urls)


def rows_of(result: CrawlResult) -> dict[str, dict[str, Any]]:
    return {row["url"]: row for row in result.rows()}


def test_links_to_private_addresses_are_refused(
    local_web: StartWeb, crawl: RunCrawl, doorbell: Doorbell
) -> None:
    web = local_web(PUBLIC)
    port = doorbell.port
    spelled = {
        f"http://127.0.0.1:{port}/": f"http://127.0.0.1:{port}/",
        f"http://[::1]:{port}/": f"http://[::1]:{port}/",
        f"http://0x7f000001:{port}/hex": f"http://127.0.0.1:{port}/hex",
        f"http://2130706433:{port}/decimal": f"http://127.0.0.1:{port}/decimal",
        f"http://0177.1:{port}/octal": f"http://127.0.0.1:{port}/octal",
        f"http://[::ffff:127.0.0.1]:{port}/": f"http://[::ffff:7f00:1]:{port}/",
        f"http://0.0.0.0:{port}/": f"http://0.0.0.0:{port}/",
        f"http://localhost:{port}/": f"http://localhost:{port}/",
        "http://169.254.169.254/latest/meta-data/": "http://169.254.169.254/latest/meta-data/",
        f"http://private.example:{port}/": f"http://private.example:{port}/",
        f"http://sly.example:{port}/": f"http://sly.example:{port}/",
        f"http://mixed.example:{port}/": f"http://mixed.example:{port}/",
    }
    web.put(PUBLIC, "/", links_to(*spelled, "/inner"))
    web.put(PUBLIC, "/inner", "a page")
    zone = {
        PUBLIC: LOOPBACK,
        "private.example": [Record("A", "10.0.0.1")],
        "sly.example": LOOPBACK,
        "mixed.example": [Record("A", "127.0.0.1"), Record("AAAA", "::1")],
    }
    with Nameserver(zone) as nameserver:
        result = crawl([web.url(PUBLIC)], scope="web", DNS_SERVERS=nameserver.address, DOWNLOAD_TIMEOUT=3)
    assert doorbell.rings == []
    assert web.paths(PUBLIC) == ["/robots.txt", "/", "/inner"]
    rows = rows_of(result)
    refused = {url: rows[url] for url in spelled.values()}
    for url, row in refused.items():
        assert "no connection for" in row["error"], url
        assert (row["status"], row["warc_file"]) == (None, None)
    assert result.summary["addresses_refused"] == len(refused)
    assert (result.summary["pages"], result.summary["dead_letters"]) == (2, 0)
    assert result.summary["finish_reason"] == "finished"


def test_redirects_to_private_addresses_are_refused(
    local_web: StartWeb, crawl: RunCrawl, doorbell: Doorbell
) -> None:
    web = local_web(PUBLIC, "moved.example")
    inside = f"http://127.0.0.1:{doorbell.port}"
    web.put(PUBLIC, "/", links_to("/jump"))
    web.put(PUBLIC, "/jump", Reply(status=302, headers={"Location": f"{inside}/jumped"}))
    web.put("moved.example", "/", Reply(status=301, headers={"Location": f"{inside}/moved"}))
    with Nameserver({PUBLIC: LOOPBACK, "moved.example": LOOPBACK}) as nameserver:
        result = crawl(
            [web.url(PUBLIC), web.url("moved.example")], scope="web", DNS_SERVERS=nameserver.address
        )
    assert doorbell.rings == []
    rows = rows_of(result)
    assert rows[web.url(PUBLIC, "/jump")]["status"] == 302
    assert rows[web.url("moved.example")]["status"] == 301
    for path in ("/jumped", "/moved"):
        assert "no connection for" in rows[inside + path]["error"]
    assert result.summary["addresses_refused"] == 2


def test_a_robots_txt_redirect_to_a_private_address_is_refused(
    local_web: StartWeb, crawl: RunCrawl, doorbell: Doorbell
) -> None:
    web = local_web(PUBLIC)
    web.put(
        PUBLIC, "/robots.txt", Reply(status=301, headers={"Location": f"http://127.0.0.1:{doorbell.port}/"})
    )
    web.put(PUBLIC, "/", "a page")
    with Nameserver({PUBLIC: LOOPBACK}) as nameserver:
        result = crawl(
            [web.url(PUBLIC)],
            DNS_SERVERS=nameserver.address,
            POLITENESS_BACKOFF=0.1,
            FRONTIER_RETRY_DELAY=0.1,
            status=1,
        )
    assert doorbell.rings == []
    # a crawl without a page; the address is not that of the page, whose robots.txt is unreachable
    assert result.summary["addresses_refused"] == 0
    assert (result.summary["queued"], result.summary["leased"]) == (0, 0)


class Rebinding(dict[str, Any]):
    """A zone in which "fickleN.example" has a harmless address for the first N queries, and 127.0.0.1 afterwards."""

    def __init__(self, harmless: str) -> None:
        super().__init__({PUBLIC: LOOPBACK})
        self._harmless = harmless
        self._asked = Counter[str]()

    def __contains__(self, name: object) -> bool:
        return name == PUBLIC or str(name).startswith("fickle")

    def __getitem__(self, name: str) -> Sequence[Record] | Trouble:
        if name == PUBLIC:
            return LOOPBACK
        self._asked[name] += 1
        patience = int(name.removeprefix("fickle").removesuffix(".example"))
        return [Record("A", self._harmless if self._asked[name] <= patience else "127.0.0.1", ttl=0)]


def test_names_that_are_rebound_to_a_private_address_are_refused(
    local_web: StartWeb, crawl: RunCrawl, doorbell: Doorbell
) -> None:
    web = local_web(PUBLIC)
    # each lookup is an A and an AAAA query: the middleware or the connection refuses robots.txt or the page
    fickle = [f"http://fickle{patience}.example:{doorbell.port}/" for patience in (0, 2, 4, 6)]
    web.put(PUBLIC, "/", links_to(*fickle))
    with Nameserver(Rebinding("127.0.9.9")) as nameserver:
        result = crawl(
            [web.url(PUBLIC)],
            scope="web",
            DNS_SERVERS=nameserver.address,
            # stands for a public address; no server listens there
            ALLOWED_NETWORKS="127.0.9.9/32",
            POLITENESS_BACKOFF=0.6,
            FRONTIER_RETRY_DELAY=0.1,
        )
        assert nameserver.count("fickle6.example") > 3
    assert doorbell.rings == []
    rows = rows_of(result)
    for url in fickle:
        assert "no connection for" in rows[url]["error"], url
    assert result.summary["addresses_refused"] == len(fickle)


class Moving(dict[str, Any]):
    """A zone in which "moving.example" is at 127.0.0.1 until its start page was served, and then at 127.0.0.2."""

    def __init__(self, zone: Mapping[str, Any], web: LocalWeb) -> None:
        super().__init__(zone)
        self._web = web

    def __getitem__(self, name: str) -> Sequence[Record] | Trouble:
        moved = name == "moving.example" and "/" in self._web.paths(name)
        return [Record("A", "127.0.0.2" if moved else "127.0.0.1", ttl=0)]


def test_a_seed_that_is_rebound_to_another_inner_address_is_refused(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web("moving.example", "second.example")
    moving = web.url("moving.example")
    # no connection is kept, so each request looks up the name
    start = Reply(links_to("/secret", "/secret2"), headers={"Connection": "close"})
    web.put("moving.example", "/", start)
    web.put("second.example", "/", "a page")
    with (
        Nameserver(Moving({"moving.example": LOOPBACK, "second.example": LOOPBACK}, web)) as nameserver,
        Doorbell("127.0.0.2", port=urlsplit(moving).port or 0) as bell,
    ):
        result = crawl(
            [moving, web.url("second.example")],
            DNS_SERVERS=nameserver.address,
            FRONTIER_RETRY_DELAY=0.1,
        )
    assert bell.rings == []
    rows = rows_of(result)
    assert (rows[moving]["status"], rows[web.url("second.example")]["status"]) == (200, 200)
    for path in ("secret", "secret2"):
        assert "127.0.0.2 is loopback: no connection for" in rows[moving + path]["error"]
    assert result.summary["addresses_refused"] == 2


def test_a_public_seed_that_is_rebound_to_an_inner_address_is_refused(
    crawl: RunCrawl, doorbell: Doorbell
) -> None:
    fickle = [f"http://fickle{patience}.example:{doorbell.port}/" for patience in (2, 4)]
    with Nameserver(Rebinding("127.0.9.9")) as nameserver:
        result = crawl(
            fickle,
            DNS_SERVERS=nameserver.address,
            # stands for a public address; no server listens there
            ALLOWED_NETWORKS="127.0.9.9/32",
            POLITENESS_BACKOFF=0.6,
            FRONTIER_RETRY_DELAY=0.1,
            status=1,
        )
    assert doorbell.rings == []
    rows = rows_of(result)
    assert all("127.0.0.1 is loopback: no connection for" in rows[url]["error"] for url in fickle)


def test_allowed_networks_are_crawled(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(PUBLIC, "127.0.1.1", "inner.example")
    inner = web.url("inner.example", "/page")
    web.put(PUBLIC, "/", links_to(web.url("127.0.1.1"), inner))
    web.put("127.0.1.1", "/", "by address")
    web.put("inner.example", "/page", "by name")
    with Nameserver({"*.example": LOOPBACK}) as nameserver:
        result = crawl(
            [web.url(PUBLIC)],
            scope="web",
            DNS_SERVERS=nameserver.address,
            ALLOWED_NETWORKS="127.0.0.1,127.0.1.0/24",
        )
    assert {row["status"] for row in result.rows()} == {200}
    assert result.summary["addresses_refused"] == 0
    assert result.summary["pages"] == 3


def test_another_port_of_a_seeds_address_is_refused(
    local_web: StartWeb, crawl: RunCrawl, doorbell: Doorbell
) -> None:
    web = local_web("127.0.0.1")
    web.put("127.0.0.1", "/", links_to(f"http://127.0.0.1:{doorbell.port}/"))
    result = crawl([web.url("127.0.0.1")], scope="web")
    assert doorbell.rings == []
    assert result.summary["addresses_refused"] == 1


def test_a_name_that_cannot_be_resolved_has_a_row(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(PUBLIC)
    web.put(
        PUBLIC, "/", links_to("http://missing.example/", "http://silent.example/", "http://broken.example/")
    )
    zone: Zone = {PUBLIC: LOOPBACK, "silent.example": Trouble.SILENCE, "broken.example": Trouble.SERVFAIL}
    with Nameserver(zone) as nameserver:
        result = crawl(
            [web.url(PUBLIC)],
            scope="web",
            DNS_SERVERS=nameserver.address,
            DNS_TIMEOUT=0.3,
            POLITENESS_BACKOFF=0.6,
            FRONTIER_RETRY_DELAY=0.1,
            FRONTIER_MAX_ATTEMPTS=2,
        )
        assert nameserver.count("missing.example") == 1, "the answer that a name does not exist is not cached"
    rows = rows_of(result)
    for name in ("missing", "silent", "broken"):
        assert f"{name}.example" in rows[f"http://{name}.example/"]["error"]
    assert result.summary["names_not_resolved"] >= 3
    assert result.summary["dead_letters"] == 3
