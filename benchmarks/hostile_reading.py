"""Attacks with documents that cost much to read; the documents are in `benchmarks.hostile_documents`."""

from __future__ import annotations

from benchmarks import hostile_documents as documents
from benchmarks.hostile_documents import HTML
from benchmarks.hostile_requests import Asked, Attack, own_pages


async def many_entries(asked: Asked) -> None:
    """The first page links to sitemaps or feeds, whose entries do not exist."""
    if asked.path == "/":
        await asked.link(f"/{number}{kind}" for number in range(10) for kind in (".xml", ".rss"))
    elif asked.path.endswith(".xml"):
        await asked.send(documents.sitemap_entries(int("0" + asked.path[1:-4])))
    elif asked.path.endswith(".rss"):
        await asked.send(documents.feed_entries())
    else:
        await asked.say(b"", status="404 Not Found")


async def bombs(asked: Asked) -> None:
    if asked.path == "/robots.txt":
        await asked.send(documents.robots_bomb(asked.host % 5))
    else:
        await own_pages(asked)


async def many_alternates(asked: Asked) -> None:
    await asked.say(documents.alternates(asked.host) + asked.path.encode())


async def many_long_links(asked: Asked) -> None:
    await asked.say(documents.long_links(asked.host))


async def many_parameters(asked: Asked) -> None:
    """The first page redirects to one with parameters. Each page has a text of its own, so that it is no copy."""
    if asked.path == "/":
        head = f"HTTP/1.1 302 Found\r\nLocation: /{documents.fields('a', 1)}\r\nContent-Length: 0\r\n\r\n"
        await asked.send(head.encode())
    else:
        text = f"<p>{asked.authority}{asked.path[:9]} has words of its own, as many as a page needs"
        await asked.say(text.encode() + documents.parameters())


async def much_linked_data(asked: Asked) -> None:
    await linked_pages(asked, documents.linked_data(asked.host))


async def many_attributes(asked: Asked) -> None:
    await linked_pages(asked, documents.attributes(asked.host))


async def linked_pages(asked: Asked, body: bytes) -> None:
    """Answers with the same body, which links to further pages."""
    links = b"".join(b"<a href=/%d>a</a>" % number for number in range(20))
    await asked.say(links + f"<p>{asked.path}".encode() + body)


async def inflating(asked: Asked) -> None:
    if asked.path == "/":
        await asked.link(f"/{number}" for number in range(20))
    else:
        await asked.send(documents.inflating(int("0" + asked.path[1:])))


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
    lines = "".join(
        f"Set-Cookie: {asked.path[1:8]}n{number}={'v' * 80}; Path=/; Max-Age=9999\r\n"
        for number in range(950)
    )
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
    "inflate": Attack("20 hosts with office documents and PDF that unpack to 500 MB", inflating, hosts=20),
    "redirects": Attack("20 hosts that redirect to each other with bodies of 8 MB", long_redirects, hosts=20),
    "cookies": Attack(
        "20 hosts whose pages set 950 cookies each, with COOKIES_ENABLED",
        many_cookies,
        hosts=20,
        settings={"COOKIES_ENABLED": True},
    ),
}
"""These attacks by name."""
