"""Determines the MIME type of a body from the header, the first bytes and the URL.

Follows section 7 of the WHATWG MIME Sniffing standard (https://mimesniff.spec.whatwg.org/), with differences for a
crawler: a binary signature overrides a header that says text; `application/octet-stream` is sniffed, even with
`nosniff`; without a signature the extension of the URL counts; feeds and XHTML have types of their own; a sitemap is
XML whatever the header says, because many servers send theirs as HTML or plain text.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

from w3lib.encoding import read_bom

from webcrawl.documents.body import Body
from webcrawl.documents.mime.charset import CHARSET_BYTES, charset_of, utf16_without_mark
from webcrawl.documents.mime.signatures import STANDARD_TYPES, add_signature, is_binary, signature
from webcrawl.errors import ConfigurationError

# The length of the standard's "resource header".
SNIFF_BYTES = 1445

_TYPE = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+)(?=[\s;(]|$)")
_HTML = re.compile(
    rb"\s*(?:<!--|<(?:!DOCTYPE\s+HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|BODY|BR|B|P)[\s/>])",
    re.IGNORECASE,
)
# The root element of XML after its declaration, comments, processing instructions and DOCTYPE. Each of these matches in
# one way only: otherwise a few hundred bytes would take hours.
_XML_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:(?><\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*+(?:\[.*?\])?\s*+>)\s*+)*+"
    rb"<(?:[\w.-]++:)?([\w.-]++)",
    re.DOTALL,
)
_SITEMAP_ROOTS = frozenset({b"urlset", b"sitemapindex"})
# A sitemap after what a program printed by mistake, such as a warning; not one that a page of HTML shows.
_LATE_SITEMAP = re.compile(
    rb"(?:(?!<!DOCTYPE\s+HTML|<(?:html|head|body|pre|code|script|style|textarea)[\s/>]).)*?"
    rb"(<(?:[\w.-]++:)?(?:urlset|sitemapindex)\s)[^>]*sitemaps\.org",
    re.IGNORECASE | re.DOTALL,
)
_ROOT_TYPES = {
    b"rss": "application/rss+xml",
    b"RDF": "application/rss+xml",  # RSS 1.0 served as plain XML
    b"feed": "application/atom+xml",
    b"html": "application/xhtml+xml",
    b"svg": "image/svg+xml",
}
# Types that say nothing: only the content and the extension count.
_UNKNOWN = frozenset({"", "*/*", "unknown/unknown", "application/unknown"})
_UNTYPED_BINARY = frozenset({"application/octet-stream", "binary/octet-stream", "application/force-download"})
# Containers whose kind only the header or the extension names (office documents, books, packages).
_CONTAINERS = frozenset(
    {"application/zip", "application/x-ole-storage", "application/gzip", "application/ogg"}
)
_CONTAINED = {
    "application/ogg": ("ogg", "opus", "vorbis", "theora", "flac"),
    "video/mp4": ("mp4", "m4a", "m4v", "aac", "quicktime", "3gp"),
    "audio/mp4": ("mp4", "m4a", "aac"),
    "video/webm": ("webm", "matroska"),
    "video/x-matroska": ("webm", "matroska"),
    "audio/mpeg": ("mpeg", "mp3"),
}
_SCRIPTABLE = frozenset(
    {"text/html", "application/xhtml+xml", "text/xml", "application/xml", "image/svg+xml"}
)
_ZIP = frozenset({"application/zip", "application/x-zip-compressed"})
_PLAIN_XML = frozenset({"text/xml", "application/xml"})
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})
# Types that servers send with feeds, and that no reader of other documents knows.
_OTHER_FEED_TYPE = re.compile(r"(?:text|application)/(?:x-|xml-)?(?:rss|atom)(?:[.+-]?xml)?")
# Python's table instead of the machine's, so that types are the same on all machines.
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


_added_types: set[str] = set()


def add_types(
    types: Iterable[str], extensions: Mapping[str, str] = {}, signatures: Mapping[bytes, str] = {}
) -> None:
    """Adds types, and the file extensions (".djvu") and patterns of first bytes by which they are recognized.

    A known type needs no extension or pattern. Raises ConfigurationError for an extension that can never match.
    """
    for extension in extensions:
        if not extension.startswith(".") or extension != extension.lower():
            raise ConfigurationError(
                f"extension {extension!r}: write it in lower case with a dot, as in '.pdf'"
            )
    _added_types.update(types, extensions.values(), signatures.values())
    _EXTENSIONS.update(extensions)
    for pattern, mime_type in signatures.items():
        add_signature(pattern, mime_type)


def known_types() -> frozenset[str]:
    """Returns the types that extensions, signatures or pipelines define. A header may declare any other type."""
    return STANDARD_TYPES | {
        *_added_types,
        *_EXTENSIONS.values(),
        *_ROOT_TYPES.values(),
        *_PLAIN_XML,
        *_UNTYPED_BINARY,
        "text/html",
        "text/plain",
    }


class MediaType(NamedTuple):
    """A MIME type in lower case without parameters, and the name of a Python codec if the body is text."""

    mime_type: str
    charset: str | None


def sniff(content_type: str | None, body: Body | bytes, url: str, *, nosniff: bool = False) -> MediaType:
    """Returns the media type of a decoded body.

    `content_type` is the value of the header as received; `nosniff`: X-Content-Type-Options forbids sniffing.
    """
    body = body if isinstance(body, Body) else Body(body)
    mime_type = mime_type_of(content_type, body.start(SNIFF_BYTES), url, nosniff=nosniff)
    if not is_text(mime_type):
        return MediaType(mime_type, None)
    return MediaType(mime_type, charset_of(content_type, body.start(CHARSET_BYTES), mime_type))


def is_text(mime_type: str) -> bool:
    """Returns whether bodies of this type are text."""
    kind, _, name = mime_type.partition("/")
    return kind == "text" or name.endswith(
        ("xml", "json", "javascript", "ecmascript", "x-www-form-urlencoded")
    )


def mime_type_of(content_type: str | None, body: bytes, url: str, *, nosniff: bool = False) -> str:
    """Returns the declared MIME type, corrected by the first bytes and completed by the extension of the URL."""
    declared = _declared(content_type)
    start = body[:SNIFF_BYTES]
    if codec := utf16_without_mark(start):
        start = start.decode(codec, "replace").encode()
    if is_sitemap(start):
        return "application/xml"
    if declared in _UNKNOWN:
        return _guess(start, url, scriptable=not nosniff)
    if nosniff and declared not in _UNTYPED_BINARY:
        return _xml_type(start, declared) if declared in _PLAIN_XML else declared
    by_signature = signature(start)
    if declared in _UNTYPED_BINARY:
        if by_signature:
            return _refined(by_signature, url)
        return _ROOT_TYPES[_root(start)] if _is_feed(start) else _by_extension(url) or declared
    if by_signature:
        return _corrected(declared, by_signature, url)
    if declared in _PLAIN_XML or declared == "text/html":
        return _xml_type(start, declared)
    if (declared == "text/plain" or _OTHER_FEED_TYPE.fullmatch(declared)) and _is_feed(start):
        return _ROOT_TYPES[_root(start)]
    if declared == "text/plain" and is_binary(start) and read_bom(start)[0] is None:
        return _by_extension(url) or "application/octet-stream"
    return declared


def is_sitemap(start: bytes) -> bool:
    """Returns whether the bytes begin as the XML of a sitemap or of a sitemap index, also after a warning in HTML."""
    return _root(start) in _SITEMAP_ROOTS or start_of_sitemap(start) > 0


def start_of_sitemap(start: bytes) -> int:
    """Returns where the XML of a sitemap begins, if a warning comes before it; else 0."""
    if b"sitemaps.org" not in start or _root(start) in _SITEMAP_ROOTS:
        return 0
    late = _LATE_SITEMAP.match(start)
    return 0 if late is None else max(start.rfind(b"<?xml", 0, late.start(1)), 0) or late.start(1)


def _is_feed(start: bytes) -> bool:
    return _ROOT_TYPES.get(_root(start)) in _FEED_TYPES


def _root(start: bytes) -> bytes:
    """Returns the local name of the root element; empty if the bytes are not XML."""
    root = _XML_ROOT.match(start)
    return root[1] if root else b""


def _declared(content_type: str | None) -> str:
    """Returns the last valid type of a header ("extract a MIME type" in the Fetch standard), or "".

    As in browsers, white space or a parenthesis ends a type, too: `text/html charset=utf-8`.
    """
    matches = (_TYPE.match(part) for part in reversed((content_type or "").split(",")))
    return next((match[1].lower() for match in matches if match and match[1] != "*/*"), "")


def _guess(start: bytes, url: str, *, scriptable: bool) -> str:
    """Follows section 7.1, then the extension. Returns no type that can run scripts unless `scriptable`."""
    by_signature = signature(start)
    if by_signature and (scriptable or by_signature != "application/pdf"):
        return _refined(by_signature, url)
    if scriptable and _HTML.match(start):
        return "text/html"
    if scriptable and start.lstrip()[:5] == b"<?xml":
        return _xml_type(start, "text/xml")
    by_extension = _by_extension(url)
    if is_binary(start) and read_bom(start)[0] is None:
        return by_extension if by_extension and not is_text(by_extension) else "application/octet-stream"
    if not scriptable and by_extension in _SCRIPTABLE:
        return "text/plain"
    return by_extension if by_extension and is_text(by_extension) else "text/plain"


def _corrected(declared: str, by_signature: str, url: str) -> str:
    """Returns the declared type, or the type of the signature if they contradict each other."""
    if is_text(declared):
        is_drawing = declared == "image/svg+xml" and by_signature.startswith("image/")
        return declared if is_drawing else _refined(by_signature, url)
    if declared in _ZIP and by_signature.startswith(("application/vnd.", "application/epub")):
        return by_signature
    kind, _, name = declared.partition("/")
    if kind in ("image", "font") and by_signature.startswith(kind):
        return by_signature
    if kind in ("audio", "video") and by_signature.startswith(("audio/", "video/", "application/ogg")):
        # the header is more specific about the contents of a container
        return declared if any(word in name for word in _CONTAINED.get(by_signature, ())) else by_signature
    return declared


def _refined(by_signature: str, url: str) -> str:
    by_extension = _by_extension(url) if by_signature in _CONTAINERS else None
    return by_extension if by_extension and not is_text(by_extension) else by_signature


def _xml_type(start: bytes, declared: str) -> str:
    """Returns the type of XML, or of a feed sent as HTML, by its root element. Other HTML and XHTML keep their type."""
    by_root = _ROOT_TYPES.get(_root(start))
    if declared == "text/html":
        return by_root if by_root in _FEED_TYPES else declared
    return by_root or declared


def _by_extension(url: str) -> str | None:
    try:
        path = urlsplit(url).path
    except ValueError:
        return None
    return _EXTENSIONS.get(PurePosixPath(path).suffix.lower())
