"""Documents of other types than HTML, made here: small, good ones, for tests that read, break or crawl them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Iterable

from PIL import Image


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


def pdf_of(objects: dict[int, str], more: str = "") -> bytes:
    """A PDF file of numbered objects: 1 is its catalog, 6 its information dictionary; `more` is for the trailer."""
    body, places = b"%PDF-1.7\n", {}
    for number in sorted(objects):
        places[number] = len(body)
        body += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("latin-1")
    table = "".join(f"{number} 1\n{place:010d} 00000 n \n" for number, place in sorted(places.items()))
    start = len(body)
    trailer = f"<< /Size {max(objects) + 1} /Root 1 0 R /Info 6 0 R {more} >>"
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


def gzip_bomb(megabytes: int = 80) -> bytes:
    """Gzip of a sitemap's start and very many spaces and line ends."""
    line = b" " * 1_000_000 + b"\n<a/>"
    return gzip.compress(b"<urlset>" + line * megabytes, 1, mtime=0)


def zipped(members: dict[str, str | bytes]) -> bytes:
    """A zip file."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in members.items():
                is_type = name == "mimetype"  # which is there for all to see
                packing = zipfile.ZIP_STORED if is_type else zipfile.ZIP_DEFLATED
                archive.writestr(zipfile.ZipInfo(name), data, packing)
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


def image(format: str = "PNG", size: tuple[int, int] = (64, 48), **options: object) -> bytes:
    """A picture that is bright on the left and dark on the right."""
    with io.BytesIO() as file:
        Image.linear_gradient("L").rotate(270).resize(size).save(file, format, **options)
        return file.getvalue()


def png_bomb() -> bytes:
    """A PNG of some kilobytes with 65,000 x 65,000 pixels."""
    header = struct.pack(">IIBBBBB", 65_000, 65_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(3_000_000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def wav(seconds: float = 1.0) -> bytes:
    with io.BytesIO() as file:
        with wave.open(file, "wb") as sound:
            sound.setparams((2, 2, 8_000, 0, "NONE", ""))
            sound.writeframes(bytes(int(seconds * 8_000) * 4))
        return file.getvalue()


def mp3(title: str = "", artist: str = "", *, frames: int = 100) -> bytes:
    """Silent MPEG audio, 128 kbit/s at 44.1 kHz (26 ms a frame), with an ID3 tag."""

    def tag(name: str, text: str) -> bytes:
        data = b"\x03" + text.encode()
        return name.encode() + struct.pack(">IH", len(data), 0) + data

    tags = tag("TIT2", title) + tag("TPE1", artist) if title else b""
    size = len(tags)
    head = b"ID3\x03\0\0" + bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127])
    return head + tags + (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def mp4(seconds: int = 5) -> bytes:
    """An MPEG-4 file with the head of one H.264 video track of 320 x 240, and no frames."""

    def box(name: bytes, *parts: bytes) -> bytes:
        data = b"".join(parts)
        return struct.pack(">I", 8 + len(data)) + name + data

    matrix = struct.pack(">9I", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    duration = struct.pack(">IIII", 0, 0, 1000, seconds * 1000)
    mvhd = box(b"mvhd", bytes(4), duration, struct.pack(">IH10x", 65536, 256), matrix, bytes(24), b"\0\0\0\2")
    track = struct.pack(">IIIII", 0, 0, 1, 0, seconds * 1000)
    tkhd = box(b"tkhd", b"\0\0\0\7", track, bytes(16), matrix, struct.pack(">II", 320 << 16, 240 << 16))
    avc = box(b"avcC", b"\x01\x42\xe0\x1e\xff\xe0\x00")
    sample = box(b"avc1", struct.pack(">6xH16xHHII4xH32xHh", 1, 320, 240, 0x480000, 0x480000, 1, 24, -1), avc)
    stbl = box(
        b"stbl",
        box(b"stsd", struct.pack(">II", 0, 1), sample),
        *(box(name, bytes(8)) for name in (b"stts", b"stsc", b"stco")),
        box(b"stsz", bytes(12)),
    )
    mdia = box(
        b"mdia",
        box(b"mdhd", bytes(4), duration, struct.pack(">HH", 0x15C7, 0)),
        box(b"hdlr", bytes(8), b"vide", bytes(13)),
        box(b"minf", box(b"vmhd", bytes(12)), stbl),
    )
    return box(b"ftyp", b"isom", bytes(4), b"isomavc1") + box(b"moov", mvhd, box(b"trak", tkhd, mdia))


def webm(seconds: float = 5.0) -> bytes:
    """The head of a WebM file with one VP9 track of 320 x 240."""

    def element(number: int, data: bytes) -> bytes:
        size = (number.bit_length() + 7) // 8
        return number.to_bytes(size, "big") + struct.pack(">Q", len(data) | 1 << 56) + data

    head = element(0x1A45DFA3, element(0x4282, b"webm") + element(0x4287, b"\2") + element(0x4285, b"\2"))
    info = element(
        0x1549A966,
        element(0x2AD7B1, b"\x0f\x42\x40")
        + element(0x4489, struct.pack(">d", seconds * 1000))
        + element(0x7BA9, b"Clip"),
    )
    video = element(0xE0, element(0xB0, b"\x01\x40") + element(0xBA, b"\xf0"))
    entry = (
        element(0xD7, b"\1") + element(0x73C5, b"\1") + element(0x83, b"\1") + element(0x86, b"V_VP9") + video
    )
    return head + element(0x18538067, info + element(0x1654AE6B, element(0xAE, entry)))


_CORE = (
    '<cp:coreProperties xmlns:cp="http://a/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://b/">'
    "<dc:title>A title</dc:title><dc:creator>A. Author</dc:creator><dc:language>en-GB</dc:language>"
    "<dcterms:created>2026-11-20T08:00:00Z</dcterms:created><dcterms:modified>2026-11-21T08:00:00Z</dcterms:modified>"
    "</cp:coreProperties>"
)
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


def ooxml(**parts: str) -> bytes:
    """An office document of parts by their names, "__" for a slash."""
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "docProps/core.xml": _CORE,
        "docProps/app.xml": "<Properties><Pages>3</Pages><Application>Pen</Application></Properties>",
        "word/_rels/document.xml.rels": f'<Relationships><Relationship Id="r" Type="{_TYPE}" '
        'Target="http://site.example/linked" TargetMode="External"/>'
        f'<Relationship Id="s" Type="{_TYPE}" Target="inside.xml"/></Relationships>',
    }
    return zipped(members | {f"{name.replace('__', '/')}.xml": text for name, text in parts.items()})


def docx(*paragraphs: str) -> bytes:
    inner = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return ooxml(word__document=f'<w:document xmlns:w="http://w/"><w:body>{inner}</w:body></w:document>')


def odt(*paragraphs: str) -> bytes:
    spaces = 'xmlns:text="http://t/" xmlns:xlink="http://x/" xmlns:meta="http://m/" xmlns:dc="http://d/"'
    inner = "".join(f"<text:p>{text}</text:p>" for text in paragraphs)
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<content {spaces}>{inner}<text:a xlink:href='/linked'>x</text:a></content>",
            "meta.xml": f"<meta {spaces}><dc:title>A title</dc:title><dc:creator>A. Author</dc:creator>"
            "<meta:creation-date>2026-11-20T08:00:00</meta:creation-date>"
            '<meta:document-statistic meta:page-count="3" meta:word-count="7"/></meta>',
        }
    )


def ole(title: str = "A title", author: str = "A. Author") -> bytes:
    """A compound file, as older office documents are, with nothing but its summary information."""

    def text(value: str) -> bytes:
        data = value.encode("cp1252") + b"\0"
        return struct.pack("<II", 30, len(data)) + data + bytes(-len(data) % 4)

    values = {2: text(title), 4: text(author), 14: struct.pack("<II", 3, 12)}
    index, data = b"", b""
    for number, value in values.items():
        index += struct.pack("<II", number, 8 + 8 * len(values) + len(data))
        data += value
    section = struct.pack("<II", 8 + len(index) + len(data), len(values)) + index + data
    fmtid = bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9")
    stream = struct.pack("<HHI16xI", 0xFFFE, 0, 0x20006, 1) + fmtid + struct.pack("<I", 48) + section
    stream = stream.ljust(4096, b"\0")

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        coded = name.encode("utf-16-le") + b"\0\0"
        links = struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, child)
        return (
            coded.ljust(64, b"\0")
            + struct.pack("<HBB", len(coded), kind, 1)
            + links
            + bytes(36)
            + struct.pack("<IQ", start, size)
        )

    folder = entry("Root Entry", 5, 1, 0xFFFFFFFE, 0) + entry("\5SummaryInformation", 2, 0xFFFFFFFF, 2, 4096)
    table = [0xFFFFFFFD, 0xFFFFFFFE, *range(3, 10), 0xFFFFFFFE]
    fat = struct.pack(f"<{len(table)}I", *table).ljust(512, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack(
        "<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0
    )
    header += struct.pack("<I", 0).ljust(436, b"\xff")
    return header + fat + folder.ljust(512, b"\0") + stream


def tar(*names: str, mode: str = "w") -> bytes:
    """A tar archive; mode "w:gz", "w:bz2" or "w:xz" packs it."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 100
                archive.addfile(member, io.BytesIO(bytes(100)))
        return file.getvalue()


def zip_bomb(name: str, megabytes: int = 300) -> bytes:
    """A zip file whose one member is XML of very many spaces."""
    return zipped({"[Content_Types].xml": "<Types/>", name: b"<a>" + b" " * (megabytes * 1_000_000)})


WEB = "http://site.example"
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_ODT = "application/vnd.oasis.opendocument.text"
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
    "image": ("image/png", image()),
    "media": ("video/mp4", mp4()),
    "office": (_DOCX, docx("Some words", "and others")),
    "jsondata": ("application/json", b'{"@type": "Article", "name": "A name", "items": [1, 2, {"a": null}]}'),
    "text": ("text/plain", b"Some text."),
    "archive": ("application/gzip", gzip.compress(tar("a/b", "c"), mtime=0)),
}
MORE_SAMPLES: dict[str, list[tuple[str, bytes]]] = {
    "feed": [
        ("application/atom+xml", atom('<title>One</title><link href="one"/>' * 3, head="<title>A</title>"))
    ],
    "sitemap": [("application/gzip", gzip.compress(urlset((f"{WEB}/a", None)), mtime=0))],
    "image": [
        ("image/jpeg", image("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")),
        ("image/gif", image("GIF")),
        ("image/webp", image("WEBP")),
        ("image/tiff", image("TIFF")),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' width='3'><title>T</title></svg>"),
    ],
    "media": [("audio/wave", wav(0.1)), ("audio/mpeg", mp3("A", "B")), ("video/webm", webm())],
    "office": [(_ODT, odt("Some words")), ("application/msword", ole())],
    "archive": [("application/x-tar", tar("a/b", "c")), ("application/zip", zipped({"a": "b"}))],
}
"""Of each type that is read in a process of its own, whose reader is `read` of the module webcrawl.mime.NAME."""


def mixed() -> tuple[dict[str, tuple[str, bytes]], dict[str, tuple[str, bytes]]]:
    """All samples by a name of their own, as MIME type and bytes; and each again, cut in two."""
    good, cut = {}, {}
    for name, first in SAMPLES.items():
        for number, (mime_type, body) in enumerate([first, *MORE_SAMPLES.get(name, [])]):
            suffix = ".xml.gz" if name == "sitemap" and mime_type == "application/gzip" else ""
            good[f"{name}-{number}{suffix}"] = mime_type, body
            cut[f"cut-{name}-{number}{suffix}"] = mime_type, body[: len(body) // 2]
    return good, cut
