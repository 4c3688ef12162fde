"""Names with many addresses that refuse connections or do not answer: how many sockets and attempts they cost."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadTimeoutError

from tests.cases import cases
from tests.downloads import Client, CurlClient, run
from tests.nameserver import Nameserver, Record
from tests.wire import Wire, plain
from webcrawl.hosts.dns import MOST_TRIED, to_try
from webcrawl.http import pool

MANY = [f"127.0.8.{number}" for number in range(1, 41)]
_noting: list[Callable[[object], None]] = []


@cache
def note_connections() -> None:
    """Adds a hook, which cannot be removed and slows all later tests of its process: so not before it is used."""
    sys.addaudithook(
        lambda event, given: [note(given[1]) for note in _noting] if event == "socket.connect" else None
    )  # type: ignore[arg-type, func-returns-value]


@contextmanager
def connections(port: int) -> Iterator[list[object]]:
    """Lists the addresses to which this process tries to connect at a port."""
    note_connections()
    found: list[object] = []
    _noting.append(
        lambda place: found.append(place) if isinstance(place, tuple) and place[1] == port else None
    )
    try:
        yield found
    finally:
        _noting.clear()


@contextmanager
def many_addresses(**zone: list[str]) -> Iterator[str]:
    """Runs a nameserver; yields its address."""
    records = {f"{name}.test": [Record("A", address) for address in found] for name, found in zone.items()}
    with Nameserver(records) as nameserver:
        yield nameserver.address


@contextmanager
def silent_port() -> Iterator[int]:
    """A port at which the kernel makes no connection, because as many as may wait for their server."""
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.socket())
        listening.bind(("0.0.0.0", 0))
        listening.listen(0)
        place = "127.0.0.1", listening.getsockname()[1]
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(place)
        yield place[1]


def closed_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as server:
        return int(server.getsockname()[1])


def test_a_few_of_many_addresses_are_tried_once_each() -> None:
    async def check(servers: str) -> None:
        port = closed_port()
        async with Client(DNS_SERVERS=[servers]) as client:
            with connections(port) as tried, pytest.raises(DownloadConnectionRefusedError):
                await client.get(f"http://many.test:{port}/")
            assert len(tried) == len(set(tried)) == MOST_TRIED
            again: list[object] = []
            for _ in range(5):
                with connections(port) as more, suppress(DownloadConnectionRefusedError):
                    await client.get(f"http://many.test:{port}/")
                again += more
            assert len(set(again)) > MOST_TRIED, "another attempt tries others"

    with many_addresses(many=MANY) as servers:
        run(check(servers))


def test_addresses_that_accept_and_close_are_tried_once_each() -> None:
    async def check(servers: str) -> None:
        accepted: list[str] = []

        def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer.get_extra_info("sockname")[0])
            writer.close()

        server = await asyncio.start_server(hang_up, "0.0.0.0", 0)
        async with server, Client(DNS_SERVERS=[servers]) as client:
            with pytest.raises(DownloadConnectionRefusedError, match="reset"):
                await client.get(f"https://many.test:{server.sockets[0].getsockname()[1]}/")
        assert len(accepted) == len(set(accepted)) == MOST_TRIED

    with many_addresses(many=MANY) as servers:
        run(check(servers))


def test_silent_addresses_take_a_bounded_number_of_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MOST_FURTHER", 5)
    requests = 10

    async def check(servers: str, port: int) -> None:
        async with (
            Wire([plain(b"page")]) as wire,
            Client(DNS_SERVERS=[servers], DOWNLOAD_TIMEOUT=2) as client,
        ):
            before = len(list(Path("/proc/self/fd").iterdir()))
            urls = [f"http://many{number}.test:{port}/" for number in range(requests)]
            waiting = [asyncio.ensure_future(client.get(url)) for url in urls]
            with connections(port) as tried:
                while len(tried) < requests + 5:
                    await asyncio.sleep(0.01)
            # their first address refuses; the further one of this host that answers may still be tried
            assert len(os.listdir("/proc/self/fd")) - before <= requests + 5 + 4
            assert (await client.get(wire.url())).body == b"page"
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, DownloadTimeoutError)
            assert len(tried) == requests + 5
            assert client._handler._pool.further == 0  # type: ignore[union-attr]

    zone = {f"many{number}": MANY for number in range(requests)}
    with many_addresses(**zone) as servers, silent_port() as port:
        run(check(servers, port))


def test_an_address_that_answers_is_found_among_those_that_refuse() -> None:
    async def check(servers: str) -> None:
        async with Wire([plain(b"page")]) as wire:
            for kind in (Client, CurlClient):
                async with kind(DNS_SERVERS=[servers]) as client:
                    assert (await client.get(f"http://some.test:{wire.port}/")).body == b"page"

    with many_addresses(some=["127.0.8.1", "127.0.8.2", "127.0.8.3", "127.0.0.1"]) as servers:
        run(check(servers))


@cases(("old", "new", "most_old"), [(9, 0, 4), (0, 9, 0), (9, 9, 2), (1, 9, 1), (9, 1, 3), (2, 2, 2)])
def test_addresses_of_both_families_are_tried(old: int, new: int, most_old: int) -> None:
    addresses = [f"192.0.2.{n}" for n in range(old)] + [f"2001:db8::{n}" for n in range(new)]
    tried = to_try(addresses)
    assert len(tried) == len(set(tried)) == 4
    assert [":" in address for address in tried] == [False] * most_old + [True] * (4 - most_old)
    assert set(tried) <= set(addresses)
    assert to_try(addresses[:3]) == addresses[:3]
