"""Documents of any size that cost much to read: the tests have small ones, and the benchmark of attacks large ones."""

from __future__ import annotations

import io
import zipfile
import zlib

PIECES = "/a.", "&a=1", "%e4", "/..", "a;b"
"""What long links repeat: folders, parameters, escapes, and folders that cancel each other."""
_SCRIPT, _END = b'<script type="application/ld+json">', b"</script>"
_LINKED_DATA = (
    (_SCRIPT, b"[", _END),
    (_SCRIPT + b"[", b'{"@type":"Article","author":{"name":"a"}},', b"{}]" + _END),
    (b"", _SCRIPT + b'{"@type":"Article"}' + _END, b""),
    (b"", b'<div itemscope itemtype="https://schema.org/Article"><p itemprop=headline>a</p></div>', b""),
    (_SCRIPT + b'{"a":"', b"\\u00e4", b'"}' + _END),
)
_OFFICE = "application/vnd.openxmlformats-officedocument."


def sitemap(entries: int, *, more: str = "", facts: str = "") -> bytes:
    """A sitemap of entries, with more at the end of each URL and more facts about it."""
    locations = "".join(f"<url><loc>/{number}{more}</loc>{facts}</url>" for number in range(entries))
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'.encode()


def feed(links: int, others: int = 0) -> bytes:
    """A feed of items with links, and others without."""
    items = "".join(f"<item><link>http://elsewhere.test/{number}</link></item>" for number in range(links))
    return f'<rss version="2.0"><channel>{items}{"<item>a b</item>" * others}</channel></rss>'.encode()


def office(
    megabytes: int, part: str = "word/document.xml", kind: str = "wordprocessingml.document"
) -> tuple[bytes, str]:
    """A document that unpacks to so many megabytes, and its media type."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types><Override PartName="/{part}" ContentType="{_OFFICE}{kind}.main+xml"/></Types>',
        )
        with archive.open(part, "w") as file:
            file.write(b"<a>")
            for _ in range(megabytes):
                file.write(b" " * 1_000_000)
    return made.getvalue(), _OFFICE + kind


def pdf(operators: int) -> bytes:
    """A PDF whose page has about so many operators."""
    squeezed = zlib.compressobj(9)
    lines = b"BT /F 1 Tf (a) Tj ET\n" * 10_000
    text = b"".join([*(squeezed.compress(lines) for _ in range(operators // 30_000)), squeezed.flush()])
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(text), text),
    ]
    numbered = b"".join(b"%d 0 obj%s endobj\n" % entry for entry in enumerate(objects, 1))
    return b"%%PDF-1.4\n%strailer<</Root 1 0 R>>\n%%%%EOF" % numbered


def alternates(links: int, base: int = 7_000) -> bytes:
    """Short canonical links and translations, which are long when they are joined with a base of so many characters."""
    pairs = "".join(
        f"<link rel=alternate hreflang=en href=/{n}><link rel=canonical href=c{n}>" for n in range(links)
    )
    return (f"<base href=/{'b' * base}/>" if base else "").encode() + pairs.encode()


def long_link(number: int, piece: str) -> str:
    """A link of 8,000 characters that repeat a piece."""
    mark = "?" if piece.startswith("&") else ""
    return f'<a href="/{number}{mark}{piece * (7_900 // len(piece))}">a</a>'


def linked_data(kind: int, size: int) -> bytes:
    """JSON-LD or microdata of about so many bytes: a deep list, objects, scripts, elements, or escapes."""
    head, piece, tail = _LINKED_DATA[kind % len(_LINKED_DATA)]
    return head + piece * (size // len(piece)) + tail
