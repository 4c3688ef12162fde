"""What an attack is made of, and attacks with documents that cost much to read; each document is made once."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from benchmarks.servers import HTML, RULES, answer
from tests.documents import costly

XML = "application/xml"
PAGE_BYTES = 8 * 1024 * 1024
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to a hostile host: the number of the host, its authority and the path; the stream of the answer."""

    host: int
    authority: str
    path: str
    stream: asyncio.StreamWriter

    async def say(self, body: bytes, kind: str = HTML, status: str = "200 OK") -> None:
        """Sends a complete answer."""
        await self.send(answer(status, body, kind))

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.stream.write(data)
        await self.stream.drain()

    async def link(self, urls: Iterable[str]) -> None:
        """Sends a page with these links."""
        await self.say("".join(f'<a href="{url}">a</a>\n' for url in urls).encode())


@dataclass(frozen=True, slots=True)
class Attack:
    """What the hostile hosts do: a sentence about it, the answers but robots.txt, the number of hosts, robots.txt.

    The crawl begins with the page / of each host, and has these `settings`. Without `robots`, `answer` answers
    /robots.txt too.
    """

    sentence: str
    answer: Callable[[Asked], Awaitable[None]]
    hosts: int = 1
    robots: Callable[[], bytes] | None = lambda: RULES
    settings: Mapping[str, object] = field(default_factory=dict)


async def own_pages(asked: Asked) -> None:
    await asked.link(f"/{number}/{asked.path.count('/')}-article-about-something" for number in range(100))


def packed(body: bytes, kind: str) -> bytes:
    """Returns an answer with a body of the coding gzip."""
    small = gzip.compress(body, 1)
    head, blank, rest = answer("200 OK", small, kind).partition(b"\r\n\r\n")
    return b"".join([head, b"\r\nContent-Encoding: gzip", blank, rest])


@cache
def sitemap_entries(number: int) -> bytes:
    """The answer with a sitemap of a million entries, or of 50,000 long ones with all they may say; 28 MB."""
    facts = "<lastmod>2024-01-02T03:04:05Z</lastmod><changefreq>daily</changefreq><priority>0.5</priority>"
    if number % 2:
        return packed(costly.sitemap(50_000, more="/" + "a" * 450, facts=facts), XML)
    return packed(costly.sitemap(_MANY), XML)


@cache
def feed_entries() -> bytes:
    """The answer with a feed of a million entries, 19 MB when it is unpacked; only the first ones have links."""
    return packed(costly.feed(5_000, _MANY - 5_000), "application/rss+xml")


@cache
def robots_bomb(number: int) -> bytes:
    """The answer with a robots.txt of 200 MB when it is unpacked: lines, agents, rules or bytes to escape."""
    agent = b"User-agent: *"
    line = (b"\n", agent + b"\n", b"Disallow: /a*b$\n", b"\xff", agent + b" " * 1_000 + b"\n")[number]
    squeezed = zlib.compressobj(9, wbits=31)
    body = b"".join([*(squeezed.compress(line * (_MANY // len(line))) for _ in range(200)), squeezed.flush()])
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(body) + body


@cache
def alternates(number: int) -> bytes:
    """A page with 100,000 canonical links and translations, after a base of 7,000 characters if `number` is odd."""
    return costly.alternates(50_000, base=number % 2 * 7_000)[:PAGE_BYTES]


@cache
def long_links(number: int) -> bytes:
    """A page of 8 MB with links of 8,000 characters."""
    piece = costly.PIECES[number % len(costly.PIECES)]
    return "".join(costly.long_link(page, piece) for page in range(PAGE_BYTES // 8_040)).encode()


@cache
def parameters() -> bytes:
    """A page of 8 MB whose links have 1,000 parameters each, after 20 links with as many."""
    pages = [f"<a href='/{number}{fields('a', 20)}'>a</a>" for number in range(20)]
    links = [f"<a href='/{number}{fields('b', 1_000)}'>a</a>" for number in range(20, 1_000)]
    return "".join(pages + links).encode()[:PAGE_BYTES]


def fields(name: str, number: int) -> str:
    return "?" + "&".join(f"{name}{field}={field}" for field in range(number))


@cache
def linked_data(number: int) -> bytes:
    """A page with 8 MB of JSON-LD or microdata."""
    return costly.linked_data(number, PAGE_BYTES)[:PAGE_BYTES]


@cache
def attributes(number: int) -> bytes:
    """A page with 8 MB of attributes: in one element, in many, or in values."""
    bodies = (
        b"<meta content=a " + b" ".join(b"a%d" % name for name in range(900_000)),
        b"<meta name=a content=b>" * 190_000,
        b"<meta name=description content='%s'>" % (b"a " * 4_000_000),
        b"".join(b"<meta name=n%d content=%s>" % (name, b"c" * 400) for name in range(19_000)),
        b"<a href='data:text/html,%s'>a</a>" % (b"a" * 8_000_000),
    )
    return bodies[number % 5][:PAGE_BYTES]


@cache
def inflated(number: int) -> bytes:
    """The answer with an office document or PDF of up to 1 MB that unpacks to 300 to 500 MB."""
    if number % 3 == 2:
        return answer("200 OK", costly.pdf(45_000_000), "application/pdf")
    part = ("word/document.xml", "xl/sharedStrings.xml")[number % 3]
    kind = ("wordprocessingml.document", "spreadsheetml.sheet")[number % 3]
    return answer("200 OK", *costly.office(500, part, kind))


async def many_entries(asked: Asked) -> None:
    """The first page links to sitemaps or feeds, whose entries do not exist."""
    if asked.path == "/":
        await asked.link(f"/{number}{kind}" for number in range(10) for kind in (".xml", ".rss"))
    elif asked.path.endswith(".xml"):
        await asked.send(sitemap_entries(int("0" + asked.path[1:-4])))
    elif asked.path.endswith(".rss"):
        await asked.send(feed_entries())
    else:
        await asked.say(b"", status="404 Not Found")


async def bombs(asked: Asked) -> None:
    if asked.path == "/robots.txt":
        await asked.send(robots_bomb(asked.host % 5))
    else:
        await own_pages(asked)


async def many_alternates(asked: Asked) -> None:
    await asked.say(alternates(asked.host) + asked.path.encode())


async def many_long_links(asked: Asked) -> None:
    await asked.say(long_links(asked.host))


async def many_parameters(asked: Asked) -> None:
    """The first page redirects to one with parameters. Each page has a text of its own, so that it is no copy."""
    if asked.path == "/":
        head = f"HTTP/1.1 302 Found\r\nLocation: /{fields('a', 1)}\r\nContent-Length: 0\r\n\r\n"
        await asked.send(head.encode())
    else:
        text = f"<p>{asked.authority}{asked.path[:9]} has words of its own, as many as a page needs"
        await asked.say(text.encode() + parameters())


async def much_linked_data(asked: Asked) -> None:
    await linked_pages(asked, linked_data(asked.host))


async def many_attributes(asked: Asked) -> None:
    await linked_pages(asked, attributes(asked.host))


async def linked_pages(asked: Asked, body: bytes) -> None:
    """Answers with the same body, which links to further pages."""
    links = b"".join(b"<a href=/%d>a</a>" % number for number in range(20))
    await asked.say(links + f"<p>{asked.path}".encode() + body)


async def inflating_documents(asked: Asked) -> None:
    if asked.path == "/":
        await asked.link(f"/{number}" for number in range(20))
    else:
        await asked.send(inflated(int("0" + asked.path[1:])))


async def long_redirects(asked: Asked) -> None:
    """Each host redirects to the next one, with a body of 8 MB."""
    port = asked.authority.partition(":")[2]
    number = int("0" + asked.path[1:])
    target = f"http://bad{(asked.host + 1) % 20}.test:{port}/{number + 1}"
    body = b"<a>" * 2_700_000
    head = f"HTTP/1.1 301 Moved\r\nLocation: {target}\r\nContent-Type: {HTML}\r\nContent-Length: {len(body)}\r\n\r\n"
    await asked.send(head.encode() + body)


async def many_cookies(asked: Asked) -> None:
    """Answers of 120 KB of cookies, with paths and ages."""
    cookie = f"Set-Cookie: {asked.path[1:8]}n{{}}={'v' * 80}; Path=/; Max-Age=9999\r\n"
    lines = "".join(map(cookie.format, range(950)))
    body = "".join(f"<a href=/{number}>a</a>" for number in range(100))
    head = f"HTTP/1.1 200 OK\r\n{lines}Content-Type: {HTML}\r\nContent-Length: {len(body)}\r\n\r\n"
    await asked.send((head + body).encode())


COSTLY = {
    "entries": Attack("20 hosts with sitemaps and feeds of 1,000,000 entries", many_entries, hosts=20),
    "bombs": Attack("50 hosts with a robots.txt that unpacks to 200 MB", bombs, hosts=50, robots=None),
    "alternates": Attack(
        "20 hosts with pages of 100,000 canonical links and translations", many_alternates, hosts=20
    ),
    "urls": Attack("20 hosts with pages of 1,000 links of 8,000 characters", many_long_links, hosts=20),
    "parameters": Attack(
        "20 hosts with URLs of 20 parameters and pages of 8 MB of links with 1,000", many_parameters, hosts=20
    ),
    "jsonld": Attack("20 hosts with pages of 8 MB of JSON-LD and microdata", much_linked_data, hosts=20),
    "attributes": Attack("20 hosts with pages of 8 MB of attributes", many_attributes, hosts=20),
    "inflate": Attack(
        "20 hosts with office documents and PDF that unpack to 500 MB", inflating_documents, hosts=20
    ),
    "redirects": Attack("20 hosts that redirect to each other with bodies of 8 MB", long_redirects, hosts=20),
    "cookies": Attack(
        "20 hosts whose pages set 950 cookies each, with COOKIES_ENABLED",
        many_cookies,
        hosts=20,
        settings={"COOKIES_ENABLED": True},
    ),
}
"""These attacks by name."""
