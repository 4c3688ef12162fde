"""Documents of other types than HTML, made here: small, good ones, for tests that read, break or crawl them."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterable


def pdf(
    text: str = "Hello",
    *,
    pages: int = 1,
    links: Iterable[str] = (),
    outline: Iterable[str] = (),
    info: str = "",
    language: str = "en-GB",
) -> bytes:
    """A PDF of ASCII text; every page has the same, the first one has the links."""
    objects: dict[int, str] = {}
    kids, next_object = [], 10
    annotations = []
    for address in links:
        objects[next_object] = (
            f"<< /Type /Annot /Subtype /Link /Rect [0 0 50 50] /A << /S /URI /URI ({address}) >> >>"
        )
        annotations.append(f"{next_object} 0 R")
        next_object += 1
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    objects[4] = f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"
    objects[3] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for number in range(pages):
        annots = f"/Annots [{' '.join(annotations)}]" if number == 0 and annotations else ""
        objects[next_object] = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            f" /Resources << /Font << /F1 3 0 R >> >> {annots} >>"
        )
        kids.append(f"{next_object} 0 R")
        next_object += 1
    objects[2] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {pages} >>"
    marks = []
    for address in outline:
        marks.append(next_object)
        objects[next_object] = f"/A << /S /URI /URI ({address}) >>"
        next_object += 1
    for number, mark in enumerate(marks):
        following = f"/Next {marks[number + 1]} 0 R" if number + 1 < len(marks) else ""
        objects[mark] = f"<< /Title (mark) /Parent 5 0 R {objects[mark]} {following} >>"
    has_outline = "/Outlines 5 0 R" if marks else ""
    if marks:
        objects[5] = f"<< /Type /Outlines /First {marks[0]} 0 R /Last {marks[-1]} 0 R /Count {len(marks)} >>"
    objects[1] = f"<< /Type /Catalog /Pages 2 0 R /Lang ({language}) {has_outline} >>"
    objects[6] = f"<< {info} >>"
    return pdf_of(objects)


def pdf_of(objects: dict[int, str]) -> bytes:
    """A PDF file of numbered objects; 1 is its catalog, 6 its information dictionary."""
    body, places = b"%PDF-1.7\n", {}
    for number in sorted(objects):
        places[number] = len(body)
        body += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("latin-1")
    table = "".join(f"{number} 1\n{place:010d} 00000 n \n" for number, place in sorted(places.items()))
    start = len(body)
    trailer = f"<< /Size {max(objects) + 1} /Root 1 0 R /Info 6 0 R >>"
    return (
        body
        + f"xref\n0 1\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode()
    )


def pdf_bomb() -> bytes:
    """A PDF of a few kilobytes whose page draws a form, which draws another one ten times, and so on."""
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R >>",
        2: "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R"
        " /Resources << /XObject << /X 10 0 R >> >> >>",
        4: "<< /Length 5 >>\nstream\n/X Do\nendstream",
        6: "<< >>",
    }
    for number in range(10, 20):
        inner = f"/Resources << /XObject << /X {number + 1} 0 R >> >>" if number < 19 else ""
        objects[number] = (
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] {inner} /Length 60 >>\nstream\n"
            + "/X Do " * 10
            + "\nendstream"
        )
    return pdf_of(objects)


def rss(*items: str, channel: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel>'
        f"{channel}{''.join(f'<item>{item}</item>' for item in items)}</channel></rss>"
    ).encode()


def atom(*entries: str, head: str = "") -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
        f"{head}{''.join(f'<entry>{entry}</entry>' for entry in entries)}</feed>"
    ).encode()


def urlset(*entries: tuple[str, str | None]) -> bytes:
    """A sitemap of addresses and dates."""
    return _sitemap("urlset", "url", entries)


def sitemap_index(*entries: tuple[str, str | None]) -> bytes:
    return _sitemap("sitemapindex", "sitemap", entries)


def _sitemap(root: str, entry: str, entries: Iterable[tuple[str, str | None]]) -> bytes:
    inner = "".join(
        f"<{entry}><loc>{address}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}</{entry}>\n"
        for address, date in entries
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</{root}>'
    ).encode()


def entity_bomb(root: str) -> bytes:
    """XML of a kilobyte whose one entity is ten to the tenth characters."""
    entities = "".join(
        f'<!ENTITY e{depth} "{f"&e{depth - 1};" * 10 if depth else "a" * 10}">' for depth in range(10)
    )
    return f"<!DOCTYPE {root} [{entities}]><{root}>&e9;</{root}>".encode()


def gzip_bomb(megabytes: int = 200) -> bytes:
    """Gzip of a sitemap's start and very many spaces and line ends."""
    line = b" " * 1_000_000 + b"\n<a/>"
    return gzip.compress(b"<urlset>" + line * megabytes, 1)


def zipped(members: dict[str, str | bytes]) -> bytes:
    """A zip file."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return file.getvalue()


def epub(chapter: str) -> bytes:
    """A book of one chapter."""
    dublin_core = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/a.opf"/></rootfiles></container>',
            "OPS/a.opf": f"<package><metadata {dublin_core}><dc:title>A book</dc:title>"
            "<dc:creator>A. Author</dc:creator><dc:language>en-GB</dc:language><dc:date>2026</dc:date></metadata>"
            "<manifest>"
            '<item href="one%20chapter.xhtml"/><item href="style.css"/><item href="missing.xhtml"/>'
            "</manifest></package>",
            "OPS/one chapter.xhtml": f"<html><body>{chapter}</body></html>",
            "OPS/style.css": "p { }",
        }
    )


WEB = "http://site.example"
SAMPLES: dict[str, tuple[str, bytes]] = {
    # name: MIME type and a good document
    "pdf": (
        "application/pdf",
        pdf(
            "Hello world",
            pages=2,
            links=[f"{WEB}/linked"],
            outline=[f"{WEB}/marked"],
            info="/Title (A title)",
        ),
    ),
    "feed": (
        "application/rss+xml",
        rss("<title>One</title><link>/one</link><pubDate>Sat, 21 Nov 2026 10:00:00 GMT</pubDate>" * 3),
    ),
    "sitemap": ("application/xml", urlset(*((f"{WEB}/{number}", "2026-11-21") for number in range(30)))),
}
"""Of each type that is read in a process of its own, whose reader is `read` of the module webcrawl.mime.NAME."""
