"""What a body is: its MIME type and its charset, from the header, the bytes and the URL.

After the WHATWG MIME Sniffing and Encoding standards, with a crawler's liberties: a binary signature is
believed whatever the header says, `application/octet-stream` is looked at, and feeds and XHTML get types of
their own.
"""

from __future__ import annotations

import codecs
import mimetypes
import re
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

from webcrawl.body import Body

# Bytes looked at, as in the standard ("resource header").
SNIFF_BYTES = 1445
# How much of a body decides whether it is UTF-8.
CHARSET_BYTES = 1 << 20

_TYPE = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:[;,]|$)")
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_HTML = re.compile(
    rb"\s*(?:<!--|<(?:!DOCTYPE\s+HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|BODY|BR|B|P)[\s/>])",
    re.IGNORECASE,
)
# The root element of XML, past its declaration, comments, processing instructions and DOCTYPE.
_XML_ROOT = re.compile(
    rb"\s*(?:(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\])?\s*>)\s*)*<(?:[\w.-]+:)?([\w.-]+)", re.DOTALL
)
_ROOT_TYPES = {
    b"rss": "application/rss+xml",
    b"RDF": "application/rss+xml",  # RSS 1.0 where it is served as plain XML
    b"feed": "application/atom+xml",
    b"html": "application/xhtml+xml",
    b"svg": "image/svg+xml",
    b"urlset": "application/xml",
    b"sitemapindex": "application/xml",
}
_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), mime_type)
    for pattern, mime_type in (
        (rb"%PDF-", "application/pdf"),
        (rb"%!PS-Adobe-", "application/postscript"),
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBPVP", "image/webp"),
        (rb"BM.{4}\x00\x00\x00\x00", "image/bmp"),
        (rb"\x00\x00[\x01\x02]\x00", "image/x-icon"),
        (rb"....ftypavi[fs]", "image/avif"),
        (rb"....ftyp", "video/mp4"),
        (rb"\x1aE\xdf\xa3", "video/webm"),
        (rb"OggS\x00", "application/ogg"),
        (rb"RIFF....WAVE", "audio/wave"),
        (rb"RIFF....AVI ", "video/avi"),
        (rb"FORM....AIFF", "audio/aiff"),
        (rb"ID3", "audio/mpeg"),
        (rb"MThd\x00\x00\x00\x06", "audio/midi"),
        (rb"wOFF", "font/woff"),
        (rb"wOF2", "font/woff2"),
        (rb"\x1f\x8b\x08", "application/gzip"),
        (rb"PK\x03\x04", "application/zip"),
        (rb"Rar!\x1a\x07", "application/vnd.rar"),
        (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (rb"BZh[1-9]1AY&SY", "application/x-bzip2"),
        (rb"\xfd7zXZ\x00", "application/x-xz"),
        (rb"\x28\xb5\x2f\xfd", "application/zstd"),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
        (rb"\x7fELF", "application/x-executable"),
    )
)
# Types that say nothing, so that content and extension decide alone.
_UNKNOWN = frozenset({"", "*/*", "unknown/unknown", "application/unknown"})
_UNTYPED_BINARY = frozenset({"application/octet-stream", "binary/octet-stream", "application/force-download"})
# Containers whose contents only the header or the extension can tell (office documents, books, packages).
_CONTAINERS = frozenset(
    {"application/zip", "application/x-ole-storage", "application/gzip", "application/ogg"}
)
_PLAIN_XML = frozenset({"text/xml", "application/xml"})
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
# The table inside Python, not the one of this machine: the same answer everywhere.
_EXTENSIONS = {
    **mimetypes.MimeTypes().types_map[1],
    ".apk": "application/vnd.android.package-archive",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".md": "text/markdown",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".woff2": "font/woff2",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
# Python names of the codecs behind the WHATWG encodings: other codecs (base64, idna, utf-7...) are no
# charsets here.
_CODEC_NAMES = (
    "utf-8 utf-16-le utf-16-be cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic gb18030 big5hkscs"
    " euc_jp iso2022_jp cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2"
    " iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15"
    " iso8859-16"
)
_CODECS = frozenset(_CODEC_NAMES.split())


class MediaType(NamedTuple):
    """A MIME type in lower case without parameters, and the name of a Python codec where the body is text."""

    mime_type: str
    charset: str | None


def sniff(content_type: str | None, body: Body | bytes, url: str) -> MediaType:
    """The media type of a decoded body; `content_type` is the header's value as received. Never raises."""
    body = body if isinstance(body, Body) else Body(body)
    mime_type = mime_type_of(content_type, body.start(SNIFF_BYTES), url)
    if not is_text(mime_type):
        return MediaType(mime_type, None)
    return MediaType(mime_type, charset_of(content_type, body.start(CHARSET_BYTES), mime_type))


def is_text(mime_type: str) -> bool:
    """Whether bodies of this type are characters."""
    kind, _, name = mime_type.partition("/")
    return kind == "text" or name.endswith(
        ("xml", "json", "javascript", "ecmascript", "x-www-form-urlencoded")
    )


def mime_type_of(content_type: str | None, body: bytes, url: str) -> str:
    """The MIME type: declared, corrected by what the first bytes are, completed by the URL's extension."""
    match = _TYPE.match(content_type or "")
    declared = match[1].lower() if match else ""
    start = body[:SNIFF_BYTES]
    signature = next((mime_type for pattern, mime_type in _SIGNATURES if pattern.match(start)), None)
    if declared in _UNKNOWN:
        return _guess(start, signature, url)
    if declared in _UNTYPED_BINARY:
        return _refined(signature, url) if signature else _by_extension(url) or declared
    if signature:
        return _corrected(declared, signature, url)
    if declared in _PLAIN_XML or declared == "text/html":
        return _xml_type(start, declared)
    if declared == "text/plain" and _BINARY.search(start) and read_bom(start)[0] is None:
        return _by_extension(url) or "application/octet-stream"
    return declared


def charset_of(content_type: str | None, body: bytes, mime_type: str) -> str:
    """A text's codec: byte order mark, header, <meta> or XML declaration, valid UTF-8, windows-1252."""
    bom_charset = read_bom(body)[0]
    if bom_charset is not None:
        return bom_charset
    declared = http_content_type_encoding(content_type)
    if declared == "utf-16":
        declared = "utf-16-le"  # what the label means to browsers
    if declared in _CODECS:
        return declared
    if mime_type in _HTML_TYPES or mime_type.endswith("xml"):
        declared = html_body_declared_encoding(body)
        if declared is not None and declared.startswith("utf-16"):
            declared = "utf-8"  # the declaration was read as ASCII, so it cannot be true
        if declared in _CODECS:
            return declared
    return "utf-8" if _is_utf8(body[:CHARSET_BYTES]) else "cp1252"


def _guess(start: bytes, signature: str | None, url: str) -> str:
    if signature:
        return _refined(signature, url)
    if _HTML.match(start):
        return "text/html"
    if start.lstrip()[:5] == b"<?xml":
        return _xml_type(start, "text/xml")
    by_extension = _by_extension(url)
    if _BINARY.search(start) and read_bom(start)[0] is None:
        return by_extension if by_extension and not is_text(by_extension) else "application/octet-stream"
    return by_extension if by_extension and is_text(by_extension) else "text/plain"


def _corrected(declared: str, signature: str, url: str) -> str:
    """A declared type that a binary signature may contradict."""
    if is_text(declared):
        return _refined(signature, url)
    kind = declared.partition("/")[0]
    if kind == "image" and signature.startswith("image/") and declared != "image/svg+xml":
        return signature
    return declared


def _refined(signature: str, url: str) -> str:
    by_extension = _by_extension(url) if signature in _CONTAINERS else None
    return by_extension if by_extension and not is_text(by_extension) else signature


def _xml_type(start: bytes, declared: str) -> str:
    """Plain XML by its root element; HTML that is really a feed. Real HTML stays HTML, XHTML included."""
    root = _XML_ROOT.match(start)
    by_root = _ROOT_TYPES.get(root[1]) if root else None
    if declared == "text/html":
        return by_root if by_root in {"application/rss+xml", "application/atom+xml"} else declared
    return by_root or declared


def _by_extension(url: str) -> str | None:
    try:
        path = urlsplit(url).path
    except ValueError:
        return None
    return _EXTENSIONS.get(PurePosixPath(path).suffix.lower())


def _is_utf8(body: bytes) -> bool:
    try:
        # Not final: a character cut off at the end is no proof against UTF-8.
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True
