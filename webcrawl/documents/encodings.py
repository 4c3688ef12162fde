"""The encodings of the Encoding Standard (https://encoding.spec.whatwg.org): their labels, decoding, and encoding.

An encoding has the name of a Python codec. What is wrong with Python's codecs is in `codec_corrections`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

from w3lib.encoding import resolve_encoding
from webencodings import LABELS

from webcrawl.documents import codec_corrections
from webcrawl.documents.codec_corrections import (
    GB18030_OF_2000,
    REFERENCES,
    encode_iso_2022_jp,
    encoding_table,
    reference,
)

Encode: TypeAlias = Callable[[str], bytes]
"""Encodes the query of a URL; characters that the encoding lacks become percent-encoded references ("&#8364;")."""

_CODECS = {
    **{"utf-16be": "utf-16-be", "utf-16le": "utf-16-le", "ibm866": "cp866", "macintosh": "mac-roman"},
    **{"big5": "big5hkscs", "euc-jp": "euc_jp", "euc-kr": "cp949", "iso-2022-jp": "iso2022_jp"},
    **{"shift_jis": "cp932", "x-mac-cyrillic": "mac-cyrillic", "iso-8859-8-i": "iso8859-8"},
    # its bytes stand for signs of a font, and read as windows-1252 they are sent back as they are
    "x-user-defined": "cp1252",
}
"""Codecs of encodings whose name in the standard is not theirs, beside ISO 8859 and Windows."""
_NAMES = {codec: name for name, codec in _CODECS.items() if name[:2] != "x-"} | {
    **{"cp874": "windows-874", "mac-cyrillic": "x-mac-cyrillic", "iso8859-8": "iso-8859-8"}
}
_NOT_READ = "replacement"
"""The name of encodings that browsers refuse to read, because their bytes may hide markup."""
CODECS = frozenset(
    _CODECS.get(name) or name.replace("iso-", "iso").replace("windows-", "cp")
    for name in LABELS.values()
    if name != _NOT_READ
)
"""The codecs of all encodings; other codecs (base64, idna, utf-7) are not encodings of pages."""
_WITHOUT_TABLE = frozenset({"gbk", "gb18030", "cp949"})
"""Python encodes these as the standard does."""
_ONE_WAY = frozenset("\xa5\u203e\u2212")
"""Characters that Japanese encodings encode as others."""
_BEYOND_ASCII = re.compile(r"[^\0-\x7f]")
_SAMPLE = 1 << 16
_ERRORS = re.compile("\ufffd+")
_BYTES_OF_A_LETTER = 3
_MORE_THAN_ERRORS = 1.5
_END_OF_LATIN = "\u0250"


@lru_cache(maxsize=256)
def codec_of(label: str) -> str | None:
    """Returns the codec of a label of the standard, or else of Python; None if pages cannot have it."""
    label = label.strip("\t\n\f\r ").lower()
    name = LABELS.get(label)
    if name is None:
        codec = resolve_encoding(label)
        return codec if codec in CODECS else None
    if name == _NOT_READ:
        return None
    return _CODECS.get(name) or name.replace("iso-", "iso").replace("windows-", "cp")


def label_of(codec: str) -> str:
    """Returns the name in the standard of a codec; of another codec its own name."""
    return _NAMES.get(codec) or codec.replace("iso8859", "iso-8859").replace("cp1", "windows-1")


def decode(body: bytes, codec: str) -> str:
    """Returns the text of `body` as the standard decodes it; undecodable bytes become U+FFFD.

    Raises LookupError and ValueError if `codec` is not the codec of a text.
    """
    return codec_corrections.decode(body, codec)


def encoder(codec: str | None) -> Encode | None:
    """Returns the encoder of the queries in a page of a codec.

    None if they are in UTF-8, as they are in pages in UTF-8, in UTF-16, and in an unknown encoding.
    """
    if codec is None or codec.startswith("utf") or codec not in CODECS:
        return None
    if codec == "iso2022_jp":
        return encode_iso_2022_jp
    return partial(_by_codec if codec in _WITHOUT_TABLE else _by_table, codec)


def _by_table(codec: str, text: str) -> bytes:
    table = encoding_table(codec)
    return b"".join([table.get(letter) or reference(letter).encode() for letter in text])


def _by_codec(codec: str, text: str) -> bytes:
    if codec.startswith("gb"):
        text = text.translate(GB18030_OF_2000)
    return text.encode(codec, REFERENCES[codec])


def encode_page(text: str, codec: str | None) -> bytes | None:
    """Returns a page of HTML in the encoding of a codec, of which `decode` and a parser make the same tree.

    Characters that the encoding lacks become references ("&#8364;"). None if the queries of its links are in UTF-8; see
    `encoder`.
    """
    encode = encoder(codec)
    if encode is None or codec is None:
        return None
    if codec in _WITHOUT_TABLE:
        if codec.startswith("gb"):
            text, codec = text.translate(GB18030_OF_2000), "gb18030"
        return text.encode(codec, "xmlcharrefreplace")
    table = encoding_table("euc_jp" if codec == "iso2022_jp" else codec)
    return encode(
        _BEYOND_ASCII.sub(
            lambda match: (
                match[0] if match[0] in table and match[0] not in _ONE_WAY else f"&#{ord(match[0])};"
            ),
            text,
        )
    )


def is_utf8(body: bytes, *, is_cut: bool = False) -> bool:
    """Returns whether a text is valid UTF-8; if it `is_cut`, its last character may be."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body, not is_cut)
    except UnicodeDecodeError:
        return False
    return True


def is_mostly_utf8(body: bytes) -> bool:
    """Returns whether bytes are UTF-8 but for a few: a text with a damaged letter, or with a comment of another page.

    Reads 64 KiB around the first error. Of messages of programs in 32 languages and 42 encodings, 1 in 250 is taken for
    UTF-8 by mistake, and no text of five messages or more.
    """
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        sample = body[max(0, error.start - _SAMPLE // 2) :][:_SAMPLE]
    else:
        return True
    # leaves out a last character that is cut
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    runs = _ERRORS.findall(text)
    errors = sum(map(len, runs))
    characters = len(text) - len(text.encode("ascii", "ignore")) - errors
    if len(runs) == 1 and errors <= _BYTES_OF_A_LETTER:
        errors = 1
    if not characters:
        return False
    is_latin = max(text.replace("\ufffd", "")) < _END_OF_LATIN
    return characters >= errors * (1 if is_latin else _MORE_THAN_ERRORS)
