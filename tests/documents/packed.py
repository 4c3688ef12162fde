"""Archives, and documents in zip containers."""

from __future__ import annotations

import base64
import io
import struct
import tarfile
import zipfile
import zlib


def zipped(members: dict[str, str | bytes]) -> bytes:
    """A zip file."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in members.items():
                is_type = name == "mimetype"  # stored uncompressed, as the formats require
                packing = zipfile.ZIP_STORED if is_type else zipfile.ZIP_DEFLATED
                archive.writestr(zipfile.ZipInfo(name), data, packing)
        return file.getvalue()


def epub(chapter: str) -> bytes:
    """An EPUB book of one chapter."""
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


_CORE = (
    '<cp:coreProperties xmlns:cp="http://a/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://b/">'
    "<dc:title>A title</dc:title><dc:creator>A. Author</dc:creator><dc:language>en-GB</dc:language>"
    "<dcterms:created>2026-11-20T08:00:00Z</dcterms:created><dcterms:modified>2026-11-21T08:00:00Z</dcterms:modified>"
    "</cp:coreProperties>"
)

_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


def ooxml(**parts: str) -> bytes:
    """An Office Open XML document of the named parts; "__" stands for a slash."""
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


def tar(*names: str, mode: str = "w") -> bytes:
    """A tar archive, compressed with mode "w:gz", "w:bz2" or "w:xz"."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 100
                archive.addfile(member, io.BytesIO(bytes(100)))
        return file.getvalue()


def zip_bomb(name: str, megabytes: int = 300) -> bytes:
    """A zip file with one member of XML and many megabytes of spaces."""
    return zipped({"[Content_Types].xml": "<Types/>", name: b"<a>" + b" " * (megabytes * 1_000_000)})


# 7-Zip 26.02: a.txt, b/größe.txt and an empty file.
SEVEN_ZIP = base64.b64decode(
    "N3q8ryccAAS+ZUtubwAAAAAAAAAgAAAAAAAAADLw0kABABFoZWxsbwpoZWxsbyBhZ2FpbgoAAACBMweuD89dLwwHyEN/QbH6/eXH"
    "feltPKYSy+nt802scJWFOaxsDdU590RzMfeE8Hhhx1yrMaugoNYr5DwiNvONApiMj+7OrCEIAZ8u0rN/jC5XQV6YAAAXBhYBCVkA"
    "BwsBAAEjAwEBBV0AEAAADGYKAdzhTz8AAA=="
)


def rar(*names: str, solid: bool = False, ended: bool = True) -> bytes:
    """A RAR 5 archive of uncompressed files of 100 bytes."""

    def block(kind: int, *fields: int, data: bytes = b"", name: bytes = b"") -> bytes:
        flags = [2, len(data)] if data else [0]
        head = b"".join(map(_vint, (kind, *flags, *fields))) + name
        head = _vint(len(head)) + head
        return struct.pack("<I", zlib.crc32(head)) + head + data

    body = b"Rar!\x1a\x07\x01\0" + block(1, 4 if solid else 0)
    for name in names:
        coded = name.encode()
        body += block(2, 0, 100, 32, 0, 1, len(coded), data=bytes(100), name=coded)
    return body + (block(5, 0) if ended else b"")


def rar4(*names: str, encrypted: bool = False) -> bytes:
    """The same in the format of RAR 2.9."""

    def block(kind: int, flags: int, rest: bytes, data: bytes = b"") -> bytes:
        head = struct.pack("<BHH", kind, flags, 7 + len(rest)) + rest
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head + data

    body = b"Rar!\x1a\x07\0" + block(0x73, 0, bytes(6))
    for name in names:
        coded = name.encode()
        rest = struct.pack("<IIBIIBBHI", 100, 100, 3, 0, 0, 29, 0x30, len(coded), 0o644) + coded
        body += block(0x74, 0x8004 if encrypted else 0x8000, rest, bytes(100))
    return body + block(0x7B, 0x4000, b"")


def rar_locked() -> bytes:
    """A RAR 5 archive with encrypted headers."""
    head = _vint(4) + _vint(0) + _vint(0) + _vint(0) + b"\x0f" + bytes(16)
    head = _vint(len(head)) + head
    return b"Rar!\x1a\x07\x01\0" + struct.pack("<I", zlib.crc32(head)) + head + bytes(range(96))


def _vint(number: int) -> bytes:
    """Encodes a variable-length integer: seven bits per byte, lowest first."""
    coded = bytearray()
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    return bytes([*coded, number])
