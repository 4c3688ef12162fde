"""The servers of the benchmark of attacks: honest hosts with the nameserver, and the hosts of each attack.

A new attack is a function of a request and an entry in ATTACKS. The hosts are honest0.test, honest1.test and so on,
and bad0.test, bad1.test and so on; each is a registered domain of its own. Names that begin with "silent" or end with
".silent.test" are never answered; "many0.test", "many1.test" and so on are answered late, with 50 addresses; others do
not exist. A line of a log is a request: time (monotonic), host and path.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import string
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from benchmarks.hostile_documents import COSTLY, XML, Asked, Attack, own_pages
from benchmarks.servers import Names, RequestLog, listening, serve_web
from tests.tls13 import Identity, one_byte_records, tickets

HOSTS, PAGES = 10, 40
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


@cache
def many_rules() -> bytes:
    """Patterns that cost a URL almost all the comparisons that it may have, so that most URLs are still allowed.

    Each URL is compared with those whose parts have two letters, and with those that share three letters with it.
    """
    dice = random.Random(1)
    verbs = ["Disallow", *["Allow"] * 9]
    rules = []
    for number in range(34_000):
        length = 2 if number < 1_500 else 3
        parts = ("".join(dice.choices(string.ascii_lowercase, k=length)) for _ in range(2))
        rules.append(f"{verbs[number % 10]}:/*{'*'.join(parts)}\n")
    return ("User-agent: *\n" + "".join(rules)).encode()[: 500 * 1024]


async def silent_names(asked: Asked) -> None:
    await asked.link(f"http://n{number}.silent.test/" for number in range(3_000))


async def silent_domains(asked: Asked) -> None:
    await asked.link(f"http://silent{number}.test/" for number in range(3_000))


async def no_such_names(asked: Asked) -> None:
    """The first page links to twenty others, because a longer one would be cut."""
    if asked.path == "/":
        await asked.link(f"/{number}" for number in range(20))
    elif asked.path[1:].isdecimal():
        first = int(asked.path[1:]) * 10_000
        await asked.link(f"http://nowhere{number}.test/" for number in range(first, first + 10_000))
    else:
        await asked.say(b"", status="404 Not Found")


@cache
def silent() -> list[socket.socket]:
    """Listens at a port of loopback at which no connection is ever made: those that wait are as many as may."""
    sockets = [listening(0), *(socket.socket() for _ in range(4))]
    sockets[0].listen(0)
    for waiting in sockets[1:]:
        waiting.setblocking(False)
        waiting.connect_ex(("127.0.0.1", sockets[0].getsockname()[1]))
    return sockets


async def many_addresses(asked: Asked) -> None:
    """Hosts whose 50 addresses refuse all connections, or do not answer, by turns."""
    ports = 1, silent()[0].getsockname()[1]
    await asked.link(f"http://many{number}.test:{ports[number % 2]}/" for number in range(600))


async def slow_feeds(asked: Asked) -> None:
    if asked.path == "/":
        await asked.link(f"/{number}.rss" for number in range(20))
    else:
        items = b"<item><a/><b/></item>" * 400_000
        if asked.path.removesuffix(".rss")[-1:] in ("1", "3", "5", "7", "9"):
            items = b"<item>" + b"<a/><b/>" * 1_000_000 + b"</item>"
        feed = b'<?xml version="1.0"?><rss version="2.0"><channel>%b</channel></rss>' % items
        await asked.say(feed, "application/rss+xml")


def endless(start: bytes, again: bytes) -> Callable[[Asked], Awaitable[None]]:
    """Answers with some bytes, and then with others without end."""

    async def answer(asked: Asked) -> None:
        await asked.send(start)
        while not asked.stream.is_closing():
            await asked.send(again)

    return answer


async def slow_heads(asked: Asked) -> None:
    await asked.send(b"HTTP/1.1 200 OK\r\nX-Header: ")
    while not asked.stream.is_closing():
        await asked.send(b"a")
        await asyncio.sleep(0.5)


async def many_frames(asked: Asked) -> None:
    await asked.say(b"<frameset>" + b"".join(b"<frame src=/%d>" % number for number in range(400_000)))


async def nested_anchors(asked: Asked) -> None:
    await asked.say(b"<a>" * 2_700_000)


@cache
def looping_index(authority: str) -> bytes:
    entries = "".join(
        f"<sitemap><loc>http://{authority}/{number}.xml</loc></sitemap>" for number in range(20_000)
    )
    head = '<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return f"{head}{entries}</sitemapindex>".encode()


async def looping_sitemaps(asked: Asked) -> None:
    await asked.say(looping_index(asked.authority), XML)


async def many_links(asked: Asked) -> None:
    if asked.path == "/":
        await asked.link(f"/{number}" for number in range(200_000))
    else:
        await asked.say(b"<title>A page</title>")


async def long_status_lines(asked: Asked) -> None:
    if asked.path == "/":
        await asked.link(f"/{number}" for number in range(2_000))
    else:
        await asked.send(b"HTTP/1.1 999 " + b"No " * 40_000 + b"\r\nContent-Length: 0\r\n\r\n")


async def mute(asked: Asked) -> None:
    await asyncio.sleep(3_600)


async def endless_bodies(asked: Asked) -> None:
    """Types that are stored and not parsed, and another protocol."""
    head = (
        b"200 OK\r\nContent-Type: video/mp4",
        b"200 OK\r\nContent-Type: text/event-stream",
        b"200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=a",
        b"101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade",
    )[asked.host % 4]
    await endless(b"HTTP/1.1 %b\r\n\r\n" % head, b"data: 1\n\n" * 8_000)(asked)


async def many_domains(asked: Asked) -> None:
    dice, port = random.Random(asked.host), asked.authority.rpartition(":")[2]
    await asked.link(f"http://bad{dice.randrange(65_000)}.test:{port}/" for _ in range(3_000))


async def _flood(
    attack: Callable[..., Awaitable[None]],
    identity: Identity,
    reader: asyncio.StreamReader,
    stream: asyncio.StreamWriter,
) -> None:
    with suppress(OSError, EOFError, ValueError):
        await attack(reader, stream, identity)
    stream.close()


@cache
def _starting(attack: Callable[..., Awaitable[None]]) -> asyncio.Future[asyncio.Server]:
    answer = partial(_flood, attack, Identity.made())
    return asyncio.ensure_future(asyncio.start_server(answer, "0.0.0.0", 0))


async def encrypted(asked: Asked) -> None:
    """Links to the TLS ports of the same host: one floods with tickets, the other one with records of one byte."""
    name = asked.authority.partition(":")[0]
    servers = [await _starting(attack) for attack in (tickets, one_byte_records)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    await asked.link(f"https://{name}:{port}/{number}" for number in range(20) for port in ports)


ATTACKS = {
    "none": Attack("The honest hosts alone", own_pages, hosts=0),
    "robots": Attack("50 hosts with a robots.txt of 34,000 patterns", own_pages, hosts=50, robots=many_rules),
    "unanswered": Attack("3,000 links to names of a domain whose nameserver never answers", silent_names),
    "domains": Attack("3,000 links to domains whose nameservers never answer", silent_domains),
    "nonexistent": Attack("200,000 links to names that do not exist", no_such_names),
    "xml": Attack("20 feeds of 8 MB that each keep a reader busy until its time limit", slow_feeds),
    "continue": Attack(
        "Endless responses 100 Continue at full speed",
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000),
    ),
    "chunks": Attack(
        "An endless body in chunks of one byte at full speed", endless(CHUNKED, b"1\r\na\r\n" * 16_000)
    ),
    "extensions": Attack(
        "4 endless extensions of a chunk at full speed", endless(CHUNKED + b"1;", b"a=b;" * 16_000), hosts=4
    ),
    "slow": Attack("100 hosts whose pages trickle, but not their robots.txt", slow_heads, hosts=100),
    "frames": Attack("4 hosts with a page of 400,000 frames", many_frames, hosts=4),
    "anchors": Attack("40 hosts with a page of 8 MB of <a>", nested_anchors, hosts=40),
    "sitemaps": Attack("10 hosts with a sitemap index that lists itself", looping_sitemaps, hosts=10),
    "status": Attack("10 hosts with 2,000 status lines of 120 KB each", long_status_lines, hosts=10),
    "links": Attack("A page with 200,000 links to its own host", many_links),
    "linked": Attack("20 hosts with a page with 200,000 links to its own host", many_links, hosts=20),
    "addresses": Attack("600 links to names with 50 addresses that refuse or do not answer", many_addresses),
    "mute": Attack("600 hosts that accept connections and never answer", mute, hosts=600, robots=None),
    "endless": Attack(
        "200 hosts with endless videos, streams of events and web sockets", endless_bodies, hosts=200
    ),
    "web": Attack("65,000 hosts, each a domain of its own, with links to 3,000 of them", many_domains),
    **COSTLY,
    "tls": Attack(
        "20 hosts that send endless tickets of TLS, or records of one byte, at full speed",
        encrypted,
        hosts=20,
        settings={"DOWNLOAD_VERIFY_CERTIFICATES": False},
    ),
}
"""The attacks by name. Each takes one entry."""


def address(name: str) -> bytes | None:
    """The IPv4 addresses of a name; None if there is no such name, b"" if its nameserver does not answer."""
    if name.startswith("silent") or name.endswith(".silent.test"):
        return b""
    if many := re.fullmatch(r"many(\d+)\.test", name):
        start = bytes([127, 22 + (int(many[1]) >> 8), int(many[1]) & 255])
        return b"".join(start + bytes([number]) for number in range(1, 51))
    if not (host := re.fullmatch(r"(honest|bad)(\d+)\.test", name)):
        return None
    return bytes([127, 20 if host[1] == "honest" else 21, int(host[2]) >> 8, int(host[2]) & 255])


async def honest(asked: Asked) -> None:
    """Page /0 links to all others."""
    path = asked.path
    links = "".join(f'<a href="/{number}">{number}</a>\n' for number in range(1, PAGES) if path == "/0")
    words = f"A paragraph of page {path} with some text in it. " * 60
    page = f"<!doctype html><html lang=en><title>Page {path}</title>{links}<p>{words}</html>"
    await asked.say(page.encode())


async def serve(name: str, port: int, names: int, file: Path, ready: Callable[[], None]) -> None:
    """Runs the hosts of an attack, or the honest ones; `names` is the port of the nameserver, 0 for none."""
    attack, log = ATTACKS.get(name) or Attack("Small pages", honest, hosts=HOSTS), RequestLog(file)
    if attack.robots is not None:
        attack.robots()

    async def respond(authority: str, path: str, stream: asyncio.StreamWriter) -> None:
        log.write(f"{authority} {path}")
        number = int("0" + re.sub(r"\D", "", authority.partition(".")[0]))
        asked = Asked(number, authority, path, stream)
        if path == "/robots.txt" and attack.robots is not None:
            await asked.say(attack.robots(), "text/plain")
        else:
            await attack.answer(asked)

    await serve_web(respond, port, Names(address, lambda name: 2.0 * name.startswith("many")), names, ready)
