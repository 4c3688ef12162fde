"""The documents of the benchmark of attacks that cost much to read; each is made once."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from functools import cache

from benchmarks.generated_web import answer

HTML, XML = "text/html; charset=utf-8", "application/xml"
PAGE_BYTES = 8 * 1024 * 1024
_MANY = 1_000_000


def packed(body: bytes, kind: str) -> bytes:
    """Returns an answer with a body of the coding gzip."""
    small = gzip.compress(body, 1)
    head, blank, rest = answer("200 OK", small, kind).partition(b"\r\n\r\n")
    return b"".join([head, b"\r\nContent-Encoding: gzip", blank, rest])


@cache
def sitemap_entries(number: int) -> bytes:
    """The answer with a sitemap of a million entries, or of 50,000 long ones with all they may say; 28 MB."""
    told = b"<lastmod>2024-01-02T03:04:05Z</lastmod><changefreq>daily</changefreq><priority>0.5</priority>"
    one, most = (b"<url><loc>/%d</loc></url>", _MANY)
    if number % 2:
        one, most = b"<url><loc>/%d/" + b"a" * 450 + b"</loc>" + told + b"</url>", 50_000
    head = b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return packed(b"".join([head, *(one % entry for entry in range(most)), b"</urlset>"]), XML)


@cache
def feed_entries() -> bytes:
    """The answer with a feed of a million entries, 19 MB when it is unpacked; only the first ones have links."""
    items = [b"<item><link>http://elsewhere.test/%d</link></item>" % number for number in range(5_000)]
    items += [b"<item>a b</item>"] * (_MANY - len(items))
    head = b'<?xml version="1.0"?><rss version="2.0"><channel>'
    return packed(b"".join([head, *items, b"</channel></rss>"]), "application/rss+xml")


@cache
def robots_bomb(number: int) -> bytes:
    """The answer with a robots.txt of 200 MB when it is unpacked: lines, agents, rules or bytes to escape."""
    line = (
        b"\n",
        b"User-agent: *\n",
        b"Disallow: /a*b$\n",
        b"\xff",
        b"User-agent: *" + b" " * 1_000 + b"\n",
    )[number]
    squeezed = zlib.compressobj(9, wbits=31)
    body = b"".join([*(squeezed.compress(line * (_MANY // len(line))) for _ in range(200)), squeezed.flush()])
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(body) + body


@cache
def alternates(number: int) -> bytes:
    """A page with 100,000 canonical links and translations, after a base of 7,000 characters if `number` is odd."""
    base = b"<base href=/%s/>" % (b"b" * 7_000) if number % 2 else b""
    links = b"".join(
        b"<link rel=alternate hreflang=en href=/%d><link rel=canonical href=/c%d>\n" % (one, one)
        for one in range(50_000)
    )
    return (base + links)[:PAGE_BYTES]


@cache
def long_links(number: int) -> bytes:
    """A page of 8 MB with links of 8,000 characters: of folders, of parameters, or of escapes."""
    piece = (b"/a.", b"&a=1", b"%e4", b"/..", b"a;b")[number % 5]
    links = []
    for one in range(PAGE_BYTES // 8_040):
        tail = piece * (7_900 // len(piece))
        links.append(
            b'<a href="/%d?%s">a</a>\n' % (one, tail)
            if number % 5 == 1
            else b'<a href="/%d%s">a</a>\n' % (one, tail)
        )
    return b"".join(links)


@cache
def parameters() -> bytes:
    """A page of 8 MB whose links have 1,000 parameters each, after 20 links with as many."""
    pages = [f"<a href='/{number}{fields('a', 20)}'>a</a>" for number in range(20)]
    links = [f"<a href='/{number}{fields('b', 1_000)}'>a</a>" for number in range(20, 1_000)]
    return "".join(pages + links).encode()[:PAGE_BYTES]


def fields(name: str, number: int) -> str:
    return "?" + "&".join(f"{name}{one}={one}" for one in range(number))


@cache
def linked_data(number: int) -> bytes:
    """A page with 8 MB of JSON-LD: deep lists, many objects, or many scripts."""
    bodies = (
        b'<script type="application/ld+json">' + b"[" * 4_000_000 + b"</script>",
        b'<script type="application/ld+json">['
        + b'{"@type":"Article","author":{"name":"a"}},' * 180_000
        + b"{}]</script>",
        b'<script type="application/ld+json">{"@type":"Article"}</script>' * 130_000,
        b'<div itemscope itemtype="https://schema.org/Article"><p itemprop=headline>a</p></div>' * 90_000,
        b'<script type="application/ld+json">{"a":"' + b"\\u00e4" * 1_300_000 + b'"}</script>',
    )
    return bodies[number % 5][:PAGE_BYTES]


@cache
def attributes(number: int) -> bytes:
    """A page with 8 MB of attributes: in one element, in many, or in values."""
    bodies = (
        b"<meta content=a " + b" ".join(b"a%d" % one for one in range(900_000)),
        b"<meta name=a content=b>" * 190_000,
        b"<meta name=description content='%s'>" % (b"a " * 4_000_000),
        b"".join(b"<meta name=n%d content=%s>" % (one, b"c" * 400) for one in range(19_000)),
        b"<a href='data:text/html,%s'>a</a>" % (b"a" * 8_000_000),
    )
    return bodies[number % 5][:PAGE_BYTES]


@cache
def inflating(number: int) -> bytes:
    """The answer with an office document or PDF of up to 1 MB that unpacks to 500 MB."""
    if number % 3 == 2:
        return pdf_bomb()
    made, zeros = io.BytesIO(), b" " * _MANY
    name = ("word/document.xml", "xl/sharedStrings.xml")[number % 3]
    kind = ("wordprocessingml.document", "spreadsheetml.sheet")[number % 3]
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        main = "application/vnd.openxmlformats-officedocument." + kind + ".main+xml"
        archive.writestr(
            "[Content_Types].xml", f'<Types><Override PartName="/{name}" ContentType="{main}"/></Types>'
        )
        with archive.open(name, "w") as part:
            part.write(b"<a>")
            for _ in range(500):
                part.write(zeros)
            part.write(b"</a>")
    return answer("200 OK", made.getvalue(), "application/vnd.openxmlformats-officedocument." + kind)


@cache
def pdf_bomb() -> bytes:
    squeezed = zlib.compressobj(9)
    text = b"BT /F 1 Tf (a) Tj ET\n" * 50_000
    stream = b"".join([*(squeezed.compress(text) for _ in range(300)), squeezed.flush()])
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
    ]
    body = b"%PDF-1.4\n" + b"".join(
        b"%d 0 obj%s endobj\n" % (one + 1, text) for one, text in enumerate(objects)
    )
    return answer("200 OK", body + b"trailer<</Root 1 0 R>>\n%%EOF", "application/pdf")
