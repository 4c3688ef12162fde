"""Finds the charset of a text: from its byte order mark, its header, its own declaration, or its bytes.

Follows the WHATWG Encoding and HTML standards. chardet detects undeclared charsets. Measured with 558 short pages in
22 languages, none in UTF-8: chardet is right for 97 of 100, and windows-1252 for every page is right for 20 of 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from w3lib.encoding import read_bom

from webcrawl.documents.encodings import CODECS, codec_of, is_mostly_utf8, is_utf8

CHARSET_BYTES = 1 << 20
"""How many bytes of a body are checked for UTF-8."""

_DETECTED_BYTES = 8192
# Detection needs this many bytes beyond ASCII; most pages with fewer have quotes and accents in windows-1252.
_LEAST = 8
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")

# A parameter of a Content-Type; a quoted string may contain what looks like another.
_PARAMETER = re.compile(r"""(?:^|;)\s*([^\s;="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;,]*))""")
# The types of a Content-Type, of which a server or a proxy may send several.
_TYPES = re.compile(r"""(?:[^",]|"(?:[^"\\]|\\.)*+"?)++""")
_LONGEST_HEADER = 1_000
_DECLARED_BYTES = 16_384
"""How much of a page may come before its declaration. Browsers read at least 1,024 bytes, and more in the head."""
# The declarations up to the body. Nothing has to follow the repeated alternatives, so none is tried twice.
_DECLARATION = re.compile(
    r"""<!--(?:-?>|.*?(?:--!?>|\Z))
    | <\s*meta(?=[\s/])(?P<meta>(?:[^<>=]|=\s*(?:"[^"]*"|'[^']*')?)*)
    | <\?xml\s(?P<xml>[^<>]*)
    | <\s*(?P<body>body)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""(?<![^\s=/"'<>])([^\s=/"'<>]++)\s*+=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
# Also "http_equiv" and "ContentType", which some pages have.
_PRAGMA = re.compile(r"http[-_]?equiv", re.IGNORECASE)
_CONTENT_TYPE = re.compile(r"content[-_ ]?type", re.IGNORECASE)
_CHARSET_IN_CONTENT = re.compile(r"""charset\s*=\s*["']?\s*([^\s;"']+)""", re.IGNORECASE)
_CSS_CHARSET = re.compile(r'@charset "([^"]*)";')
_WITHOUT_MARK = re.compile(r"[^\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufffe\uffff]*")
_MARKLESS_BYTES = 2048

# The detected charsets by their names in chardet; Firefox and Chrome detect nearly the same.
_DETECTABLE_NAMES = (
    "cp866 cp874 cp932 cp949 koi8-r koi8-u gb18030 big5hkscs euc_jis_2004 cp1250 cp1251 cp1252 cp1253 cp1254"
    " cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-5 iso8859-7"
)
_DETECTABLE = frozenset(_DETECTABLE_NAMES.split())
# Browsers take undeclared Chinese for GBK, which differs in queries alone.
_DETECTED_AS = {"euc_jis_2004": "euc_jp", "gb18030": "gbk"}


def charset_of(content_type: str | None, start: bytes, mime_type: str) -> str:
    """Returns the codec of a text by its start: byte order mark, header, declaration, detection.

    HTML is declared by <meta>, XML by its declaration, and a style sheet by its @charset.
    """
    bom_charset = read_bom(start)[0]
    if bom_charset is not None:
        return bom_charset
    if content_type and (codec := _header_codec(content_type[:_LONGEST_HEADER])):
        return codec
    return utf16_without_mark(start) or _declared(start, mime_type) or detected(start)


def utf16_without_mark(start: bytes) -> str | None:
    """Returns the codec of UTF-16 that plainly begins with an ASCII character; None for other bytes."""
    if b"\0" not in start[:2]:
        return None
    codec = "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    sample = start[: min(len(start), _MARKLESS_BYTES) & ~1]
    try:
        text = sample.decode(codec)
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        text = sample[:-2].decode(codec)
    return codec if len(text) > 1 and _WITHOUT_MARK.fullmatch(text) else None


@lru_cache(maxsize=256)
def _header_codec(content_type: str) -> str | None:
    """Returns the codec that a Content-Type names. Of several types the last counts (Fetch, "extract a MIME type").

    If that has no charset, the one before it counts if it is the same type.
    """
    types, kind, label = _TYPES.findall(content_type), "", ""
    for each in types:
        this_kind = each.partition(";")[0].strip().lower()
        if len(types) > 1 and ("/" not in this_kind or this_kind == "*/*"):
            continue
        own = _label_of(each)
        label = own or (label if this_kind == kind else "")
        kind = this_kind
    return codec_of(label) if label else None


def _label_of(content_type: str) -> str:
    parameters = _PARAMETER.findall(content_type)
    return next(
        ((quoted or bare).strip("\"' ") for name, quoted, bare in parameters if name.lower() == "charset"),
        "",
    )


def _declared(start: bytes, mime_type: str) -> str | None:
    """Returns the codec that a document declares itself."""
    text = start[:_DECLARED_BYTES].decode("latin-1")
    if mime_type in ("text/html", "application/xhtml+xml") or mime_type.endswith("xml"):
        labels = _labels(text, xml_first=mime_type != "text/html")
    elif mime_type == "text/css" and (rule := _CSS_CHARSET.match(text)):
        labels = iter((rule[1],))
    else:
        return None
    codec = next(filter(None, map(codec_of, labels)), None)
    # the declaration was read as ASCII, so it cannot be true
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _labels(text: str, *, xml_first: bool) -> Iterator[str]:
    """Yields the labels in the head of a page in the order in which they count; in HTML that of XML counts last."""
    last = ""
    for match in _DECLARATION.finditer(text):
        if match["body"]:
            break
        if match["xml"]:
            label = _label_of_xml(match["xml"])
            if xml_first:
                yield label
            last = last or label
        elif (meta := match["meta"]) and "charset" in meta.lower():
            yield _label_of_meta(meta)
    if last:
        yield last


# sites repeat their declarations on page after page
@lru_cache(maxsize=256)
def _label_of_xml(declaration: str) -> str:
    """Returns the label of an XML declaration; empty without one."""
    return dict(_attributes(declaration)).get("encoding", "")


@lru_cache(maxsize=256)
def _label_of_meta(meta: str) -> str:
    """Returns the label of a <meta charset>, or of a Content-Type pragma; empty for others."""
    label, is_pragma = "", False
    for name, value in _attributes(meta):
        if name == "charset":
            return value
        if name == "content" and (match := _CHARSET_IN_CONTENT.search(value)):
            label = match[1]
        is_pragma = is_pragma or bool(_PRAGMA.fullmatch(name) and _CONTENT_TYPE.search(value))
    return label if is_pragma else ""


def _attributes(tag: str) -> Iterator[tuple[str, str]]:
    for name, double, single, bare in _ATTRIBUTE.findall(tag):
        yield name.lower(), double or single or bare


def detected(start: bytes) -> str:
    """Returns the codec of undeclared bytes: UTF-8 if most of them are, else the detected codec, else windows-1252."""
    if is_utf8(start, is_cut=len(start) >= CHARSET_BYTES):
        return "iso2022_jp" if _ISO_2022_JP.search(start) else "utf-8"
    if is_mostly_utf8(start):
        return "utf-8"
    first = _BEYOND_ASCII.search(start)
    sample = start[max(0, first.start() - 200) :][:_DETECTED_BYTES] if first else b""
    if len(_BEYOND_ASCII.findall(sample)) < _LEAST:
        return "cp1252"
    import chardet  # few pages need it

    guess = chardet.detect(
        sample, encoding_era=chardet.EncodingEra.ALL, include_encodings=_DETECTABLE, compat_names=False
    )
    name = guess["encoding"] or ""
    codec = _DETECTED_AS.get(name, name)
    return codec if codec in CODECS else "cp1252"
