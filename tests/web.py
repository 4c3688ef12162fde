"""A local web for tests: real HTTP/1.1 on several loopback addresses, with an exact log of all requests.

with LocalWeb("127.0.1.1", "127.0.1.2", "shop.example") as web:
    web.put("127.0.1.1", "/", '<a href="/next">next</a>')
    web.put("127.0.1.1", "/next", Reply("slow", delay=0.5))
    ... crawl web.url("127.0.1.1", "/") ...
    assert web.max_concurrency("127.0.1.1") == 1
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import random
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web as aiohttp_web

START_SECONDS = 60.0
ANY = "*"
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+(:|$)")


@dataclass(frozen=True)
class Reply:
    """The response of a page, sent after `delay` seconds; with `abort` the connection is closed instead.

    It waits until `until` is true, too. `raw` is sent unchanged instead of a response; the connection is closed then.
    """

    body: str | bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    abort: bool = False
    raw: bytes = b""
    until: Callable[[], bool] = lambda: True


@dataclass
class Hit:
    """One request, as the server saw it; times are of time.monotonic(), in seconds.

    `started` is taken when the request's head has arrived, `finished` right before the last bytes are passed to the
    kernel (infinite until then). The client cannot see the end earlier, and scheduling delays of this thread do not
    count. `path` includes the query; `connection` numbers the TCP connections from 1. `client` is the client's address.
    """

    host: str
    path: str
    method: str
    headers: Mapping[str, str]
    connection: int
    started: float
    finished: float = math.inf
    status: int = 0
    body: bytes = b""
    client: str = ""


Page = Reply | str | bytes | Callable[[Hit], Reply]


class LocalWeb:
    """Several web sites on loopback, served by one thread from a dict that tests may change at any time.

    A site's label is "127.0.1.1" (an address of this machine, any free port), "127.0.1.1:8099" (that port), or a name
    such as "shop.example", which 127.0.0.1 serves to requests with that Host header. On systems without such addresses
    (macOS), the site gets a port of 127.0.0.1. Pages are looked up by path with query, by path alone, then under "*";
    other paths return 404.
    """

    def __init__(self, *labels: str) -> None:
        self.sites: dict[str, dict[str, Page]] = {label: {} for label in labels}
        self.hits: list[Hit] = []
        self._authorities: dict[str, str] = {}
        self._labels: dict[tuple[str, int], str] = {}
        self._connections = weakref.WeakKeyDictionary[asyncio.Transport, int]()
        self._numbers = itertools.count(1)
        self._sockets = self._listen()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="local web", daemon=True)

    # --- lifecycle ---

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError("the local web did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    # --- pages ---

    def put(self, label: str, path: str, page: Page) -> str:
        """Publish a page; returns its URL."""
        self.sites[label][path] = page
        return self.url(label, path)

    def url(self, label: str, path: str = "/") -> str:
        return f"http://{self._authorities[label]}{path}"

    def host(self, label: str) -> str:
        """The politeness key of a site: scheme, address or name, and port."""
        return f"http://{self._authorities[label]}"

    # --- request log ---

    def log(self, label: str | None = None) -> list[Hit]:
        """The requests to one site or to all, in order of arrival."""
        hits = [hit for hit in list(self.hits) if label in (None, hit.host)]
        return sorted(hits, key=lambda hit: hit.started)

    def pages(self, label: str | None = None) -> list[Hit]:
        """The requests to one site or to all, without those for robots.txt, in order of arrival."""
        return [hit for hit in self.log(label) if hit.path != "/robots.txt"]

    def paths(self, label: str) -> list[str]:
        """Every requested path, in order, with repetitions."""
        return [hit.path for hit in self.log(label)]

    def urls(self) -> list[str]:
        """Every requested URL of any site except robots.txt, in order, with repetitions."""
        return [self.url(hit.host, hit.path) for hit in self.pages()]

    def max_concurrency(self, label: str | None = None) -> int:
        """The highest number of simultaneous requests to one site or to all."""
        log = self.log(label)
        # at the same instant an end sorts before a start: the two do not overlap
        changes = sorted([(hit.started, 1) for hit in log] + [(hit.finished, -1) for hit in log])
        return max(itertools.accumulate(change for _, change in changes), default=0)

    def min_gap(self, label: str, *, robots: bool = False) -> float:
        """The shortest time, in seconds, from a response's end to the next request's start.

        Negative if two requests overlap, infinite if there is only one. `robots`: requests for robots.txt count, too.
        """
        pairs = itertools.pairwise(self.log(label) if robots else self.pages(label))
        return min((after.started - before.finished for before, after in pairs), default=math.inf)

    def min_start_gap(self, label: str) -> float:
        """The shortest time, in seconds, between the starts of two requests, without those for robots.txt.

        Infinite if there is only one.
        """
        pairs = itertools.pairwise(self.pages(label))
        return min((after.started - before.started for before, after in pairs), default=math.inf)

    # --- serving ---

    def _listen(self) -> list[socket.socket]:
        """One listening socket for each address; all names share one."""
        sockets = []
        named = {label for label in self.sites if not _ADDRESS.match(label)}
        for label in self.sites.keys() - named:
            address, _, port = label.partition(":")
            sockets.append(_bound(address, int(port or 0)))
            self._authorities[label] = "{}:{}".format(*sockets[-1].getsockname())
            self._labels[sockets[-1].getsockname()] = label
        if named:
            sockets.append(_bound("127.0.0.1", 0))
            port = sockets[-1].getsockname()[1]
            self._authorities.update({name: f"{name}:{port}" for name in named})
        return sockets

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _start(self) -> None:
        self._server = aiohttp_web.Server(self._answer)
        self._listeners = [
            await self._loop.create_server(self._server, sock=sock, backlog=1024) for sock in self._sockets
        ]

    async def _stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        await self._server.shutdown(timeout=1)
        # replies that still wait would be reported as destroyed, in the log of another test
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _answer(self, request: aiohttp_web.BaseRequest) -> aiohttp_web.StreamResponse:
        started = time.monotonic()
        assert request.transport is not None
        connection = self._connection(request.transport)
        label = self._label(request.transport, request.host)
        hit = Hit(label, request.raw_path, request.method, request.headers, connection, started)
        hit.client = request.transport.get_extra_info("peername")[0]
        self.hits.append(hit)
        hit.body = await request.read()
        reply = self._reply(hit)
        hit.status = reply.status
        await asyncio.sleep(reply.delay)
        while not reply.until():
            await asyncio.sleep(0.01)
        try:
            return await _write(request, reply, hit)
        except ConnectionError:
            # the client is gone, perhaps killed: the request ends with its connection
            hit.finished = min(hit.finished, time.monotonic())
            return aiohttp_web.Response()

    def _connection(self, transport: asyncio.Transport) -> int:
        if transport not in self._connections:
            self._connections[transport] = next(self._numbers)
        return self._connections[transport]

    def _label(self, transport: asyncio.Transport, authority: str) -> str:
        name = authority.rpartition(":")[0] or authority
        return self._labels.get(transport.get_extra_info("sockname"), name)

    def _reply(self, hit: Hit) -> Reply:
        pages = self.sites.get(hit.host, {})
        places = (hit.path, hit.path.partition("?")[0], ANY)
        page = next((pages[place] for place in places if place in pages), None)
        if page is None:
            return Reply("not found", status=404, headers={"Content-Type": "text/plain"})
        if isinstance(page, str | bytes):
            return Reply(page)
        return page(hit) if callable(page) else page


async def _write(request: aiohttp_web.BaseRequest, reply: Reply, hit: Hit) -> aiohttp_web.Response:
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    headers = {"Content-Type": "text/html; charset=utf-8", **reply.headers}
    response = aiohttp_web.Response(body=body, status=reply.status, headers=headers)
    if reply.abort or reply.raw:
        hit.finished = time.monotonic()
        _break_off(request.transport, reply)
    else:
        await response.prepare(request)
        hit.finished = time.monotonic()
        await response.write_eof()
    return response


def _break_off(transport: asyncio.Transport | None, reply: Reply) -> None:
    if transport is None:
        return
    if reply.abort:
        transport.abort()
    else:
        transport.write(reply.raw)
        transport.close()


def _bound(address: str, port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        sock.bind(("127.0.0.1", 0))
    return sock


# --- random webs ---


@dataclass(frozen=True)
class LinkGraph:
    """The pages of a generated web and the URLs that each one links to."""

    links: Mapping[str, tuple[str, ...]]

    def reachable(self, *start: str) -> set[str]:
        """Every URL reachable from `start`, including `start`."""
        found: set[str] = set()
        waiting = list(start)
        while waiting:
            url = waiting.pop()
            if url not in found:
                found.add(url)
                waiting.extend(self.links[url])
        return found


def generated_web(seed: int, web: LocalWeb, pages: int) -> LinkGraph:
    """Fill the sites of `web` with `pages` randomly linked pages in total; the same seed gives the same pages.

    A page has 0 to 8 links: to any host, absolute or relative, some with a fragment, some repeated. The first page of
    each site is "/". Each page has a unique text, so that no page is a duplicate.
    """
    dice = random.Random(seed)
    labels = sorted(web.sites)
    places = [(labels[n % len(labels)], "/" if n < len(labels) else f"/p{n}.html") for n in range(pages)]
    urls = [web.url(label, path) for label, path in places]
    graph = {url: tuple(dice.choices(urls, k=dice.randrange(9))) for url in urls}
    for (label, path), url in zip(places, urls, strict=True):
        web.put(label, path, _page(dice, url, graph[url]))
    return LinkGraph(graph)


def _page(dice: random.Random, url: str, links: Iterable[str]) -> str:
    words = " ".join(f"{dice.getrandbits(40):08x}" for _ in range(60))
    anchors = "\n".join(f'<a href="{_spelling(dice, url, link)}">{link}</a>' for link in links)
    return (
        f"<!doctype html><html><head><title>{url}</title></head><body><p>{words}</p>{anchors}</body></html>"
    )


def _spelling(dice: random.Random, base: str, link: str) -> str:
    if urlsplit(base).netloc == urlsplit(link).netloc and dice.random() < 0.5:
        link = urlsplit(link).path
    return link + ("#part" if dice.random() < 0.2 else "")
