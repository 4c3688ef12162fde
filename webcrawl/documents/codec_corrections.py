"""Where Python's codecs differ from the Encoding Standard, and the corrections.

Python decodes some characters differently, lacks those that Microsoft and later versions of GB 18030 and HKSCS added,
and refuses bytes that the standard decodes as control characters. Its encoders of two bytes also choose other bytes, so
`encoding_table` has those of the standard. All were compared with what Chromium makes of all sequences of two bytes,
and of all characters of the first three planes.
"""

from __future__ import annotations

import codecs
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias, cast

_GB18030_OF_2000 = (
    "\ue5e5\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795"
    "\ue796\ue7c7\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864"
)
_GB18030_OF_2022 = (
    "\u3000\ufe10\ufe12\ufe11\ufe13\ufe14\ufe15\ufe16\ufe17\ufe18"
    "\ufe19\u1e3f\u9fb4\u9fb5\u9fb6\u9fb7\u9fb8\u9fb9\u9fba\u9fbb"
)
_DIFFERENT = {
    "gb18030": (_GB18030_OF_2000, _GB18030_OF_2022),
    "gbk": (_GB18030_OF_2000, _GB18030_OF_2022),
    "big5hkscs": (
        "\u2022\uff64\u203e\u223c\u2641\u2609\xa5\xa2\xa3",
        "\u2027\ufe51\xaf\uff5e\u2295\u2299\uffe5\uffe0\uffe1",
    ),
    "euc_jp": ("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2"),
    "koi8-u": ("\u255d\u256c", "\u045e\u040e"),
}
"""What Python decodes, and what the standard decodes from the same bytes."""
_CORRECT = {codec: dict(zip(*pair, strict=True)) for codec, pair in _DIFFERENT.items()}
_WRONG = {codec: re.compile(f"[{wrong}]") for codec, (wrong, _) in _DIFFERENT.items()}
GB18030_OF_2000 = {
    ord(new): old for old, new in zip(_GB18030_OF_2000, _GB18030_OF_2022, strict=True) if new != "\u3000"
}
"""The character of 2000 that has the two bytes of one of 2022, by its code point."""

# Pairs of bytes that big5hkscs lacks, and their characters.
_HKSCS_PAIRS = bytes.fromhex(
    "877a877b877c877d877e87a187a287a387a487a587a687a787a887a987aa87ab87ac87ad87ae87af87b087b187b287b387b4"
    "87b587b687b787b887b987ba87bb87bc87bd87be87bf87c087c187c287c387c487c587c687c787c887c987ca87cb87cc87cd"
    "87ce87cf87d087d187d287d387d487d587d687d787d887d987da87db87dc87dd87de87df8e698e6f8e7e8eab8eb48ecd8ed0"
    "8f578f698f6e8fcb8fcc8ffe906d907a90dc90f191bf924492af92b092b192b292c892d1944794ca95d9964496ed96fc9b76"
    "9b789b7b9bc69bde9bec9bf69c429c539c629c689c6b9c779cbc9cbd9cd09d579d5a9dc49ea99eef9efd9f609f669fcb9fd8"
    "a063a077a0d5a0dfa0e4a3e1c6cfc6d3c6d5c6d7c6dec6dffa5ffa66fabdfac5fad5fb48fbb8fbf3fbf9fc4ffc6cfcb9fce2"
    "fcf1fdb7fdb8fdbbfdf1fe52fe6ffeaafedd"
)
_HKSCS_LETTERS = (
    "㡵𡵓𣚞𦀡㻬𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳䤯呌䄱𣚎堘穲𧭥讏䚮𦺈"
    "䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋箸簆糎緒縝者耨菁蒨萏覦覩起都銹靜響鼖蔃兙兛兝兞鍮瑹浧禛邗靝瀞嬨爁"
    "矗纇駖釔惞澶輶侻營鄄鷰菏尐秣婧輋筑拐恢痹汊鬮鼗僭弌蠏拎瑨煢牐€廴无癶隶〃仝倩偽包卄卿嘅婷幵廐彘悤撐晴"
    "杞沜渝港煮猪瑜瓩砉"
)
_HKSCS = dict(zip(zip(_HKSCS_PAIRS[::2], _HKSCS_PAIRS[1::2], strict=True), _HKSCS_LETTERS, strict=True))
_CONTROL_PICTURES = range(0xC0, 0xE1)

_WITH_FREE_BYTES = frozenset({"koi8-u", "cp874", *(f"cp125{number}" for number in range(9))})
_MOST_CORRECTIONS = 5_000
"""Errors of a text that are corrected; the rest of the text is decoded by Python alone."""
_decoding = threading.local()
"""How many errors are `left`, and where the `rest` begins that Python decodes alone."""
_Handler: TypeAlias = Callable[[UnicodeError], tuple[str | bytes, int]]


def decode(body: bytes, codec: str) -> str:
    """Returns a text; see `webcrawl.documents.encodings.decode`."""
    if codec in _WITH_FREE_BYTES:
        return codecs.charmap_decode(body, "replace", _letters(codec))[0]
    if codec == "iso2022_jp":
        return _decode_iso_2022_jp(body)
    name, errors = "gb18030" if codec == "gbk" else codec, _ERRORS.get(codec, "replace")
    _decoding.left, _decoding.rest = _MOST_CORRECTIONS, len(body)
    text = body.decode(name, errors)
    if _decoding.rest < len(body):
        text += body[_decoding.rest :].decode(name, "replace")
    wrong = _WRONG.get(codec)
    if wrong is not None and wrong.search(text):
        for letter, correct in _CORRECT[codec].items():
            text = text.replace(letter, correct)
    return text


@cache
def _letters(codec: str) -> str:
    """Returns the characters of the 256 bytes; bytes that Windows leaves free are control characters."""
    letters = [bytes((byte,)).decode(codec, "replace") for byte in range(256)]
    for byte in range(0x80, 0xA0):
        letters[byte] = chr(byte) if letters[byte] == "\ufffd" else letters[byte]
    if codec == "cp1255":
        letters[0xCA] = "\u05ba"
    return "".join(_CORRECT.get(codec, {}).get(letter, letter) for letter in letters)


def _sequences(codec: str) -> Iterator[bytes]:
    """Yields the bytes of the characters that the standard encodes, the preferred bytes of each first."""
    leads: Sequence[int] = range(0xA1, 0xFF)
    if codec == "cp932":  # without the copies in rows 89 to 92, and private characters
        leads = (*range(0x81, 0xA0), *range(0xE0, 0xED), 0xEF, 0xFA, 0xFB, 0xFC)
        yield from (bytes((byte,)) for byte in (0x80, *range(0xA1, 0xE0)))
    elif codec == "euc_jp":  # without JIS X 0212
        yield from (bytes((0x8E, byte)) for byte in range(0xA1, 0xE0))
    elif codec == "big5hkscs":  # without the characters of Hong Kong
        # of these the last of two counts
        yield from map(bytes.fromhex, ("f9f9", "f9e9", "f9ea", "f9eb", "a451", "a4ca"))
    else:
        leads = ()
        yield from (bytes((byte,)) for byte in range(0x80, 0x100))
    for lead in leads:
        yield from (bytes((lead, trail)) for trail in range(0x40, 0xFF))


@cache
def encoding_table(codec: str) -> dict[str, bytes]:
    """Returns the bytes of each character in an encoding of one byte, or in cp932, euc_jp or big5hkscs."""
    table = {chr(byte): bytes((byte,)) for byte in range(128)}
    for sequence in _sequences(codec):
        letter = decode(sequence, codec)
        if len(letter) == 1 and letter != "\ufffd":
            table.setdefault(letter, sequence)
    if codec in ("cp932", "euc_jp"):
        table |= {"\xa5": b"\\", "\u203e": b"~", "\u2212": table["\uff0d"]}
    return table


_SWITCH = re.compile(rb"\x1b([$(][@BJI])")
_HIGH = bytes(byte | 0x80 if 0x21 <= byte <= 0x7E else byte for byte in range(256))
_LOW = bytes(byte & 0x7F for byte in range(256))
_TO_ASCII, _TO_JIS = b"\x1b(B", b"\x1b$B"


def _decode_iso_2022_jp(body: bytes) -> str:
    """Returns a text that switches between ASCII and JIS, by EUC-JP; Python's codec lacks the rows of Microsoft."""
    pieces = _SWITCH.split(body, _MOST_CORRECTIONS)
    for table, index in zip(pieces[1::2], range(2, len(pieces), 2), strict=True):
        if table[:1] == b"$":
            pieces[index] = pieces[index].translate(_HIGH)
        elif table == b"(I":
            katakana = pieces[index].translate(_HIGH).decode("cp932", "replace")
            pieces[index] = katakana.encode("euc_jp", "replace")
    return decode(b"".join(pieces[::2]), "euc_jp")


def encode_iso_2022_jp(text: str) -> bytes:
    """Returns a query in ISO-2022-JP; see `Encode`. Katakana of half width become those of full width."""
    letters, pieces, state = encoding_table("euc_jp"), list[bytes](), _TO_ASCII
    for letter in text:
        if "\uff61" <= letter <= "\uff9f":
            letter = unicodedata.normalize("NFKC", letter)
        data = letters.get(letter) or reference(letter).encode()
        needed = _TO_ASCII if data.isascii() else _TO_JIS
        if needed != state:
            pieces.append(state := needed)
        pieces.append(data.translate(_LOW))
    return b"".join([*pieces, _TO_ASCII] if state != _TO_ASCII else pieces)


def reference(letter: str) -> str:
    """Returns what stands in a query for a character that the encoding lacks: an escaped reference ("&#8364;")."""
    number = 0xFFFD if "\ud800" <= letter <= "\udfff" else ord(letter)
    return f"%26%23{number}%3B"


def _references(error: UnicodeError) -> tuple[str | bytes, int]:
    refused = cast("UnicodeEncodeError", error)
    return reference(refused.object[refused.start]), refused.start + 1


def _gbk(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encodes the characters that GB 18030 has in two bytes, and the euro sign in one; decodes it from one."""
    if isinstance(error, UnicodeEncodeError):
        letter = error.object[error.start]
        data = b"\x80" if letter == "\u20ac" else letter.encode("gb18030", "replace")
        return data if len(data) == 2 or data == b"\x80" else reference(letter), error.start + 1
    refused = cast("UnicodeDecodeError", error)
    if refused.object[refused.start] == 0x80:
        return "\u20ac", refused.start + 1
    return "\ufffd", refused.end


def _big5(error: UnicodeError) -> tuple[str, int]:
    refused = cast("UnicodeDecodeError", error)
    lead, trail, *_ = *refused.object[refused.start : refused.start + 2], 0
    letter = _HKSCS.get((lead, trail))
    if lead == 0xA3 and trail in _CONTROL_PICTURES:
        letter = chr(0x2421 if trail == 0xE0 else 0x2340 + trail)
    return ("\ufffd", refused.end) if letter is None else (letter, refused.start + 2)


def _euc_jp(error: UnicodeError) -> tuple[str, int]:
    """Decodes the rows of Microsoft, which Python has in Shift_JIS alone."""
    refused = cast("UnicodeDecodeError", error)
    pair = refused.object[refused.start : refused.start + 2]
    if len(pair) == 2 and min(pair) >= 0xA1 and max(pair) < 0xFF:
        row, cell = pair[0] - 0xA1, pair[1] - 0xA1
        lead = (row >> 1) + (0x81 if row < 62 else 0xC1)
        trail = cell + 0x9F if row & 1 else cell + 0x40 + (cell >= 63)
        letter = bytes((lead, trail)).decode("cp932", "replace")
        if len(letter) == 1:
            return letter, refused.start + 2
    return "\ufffd", refused.end


_ERRORS = {
    **{"gbk": "webcrawl-gbk", "gb18030": "webcrawl-gbk"},
    **{"big5hkscs": "webcrawl-big5", "euc_jp": "webcrawl-euc-jp"},
}
"""The error handler that decodes a codec; others use "replace"."""
REFERENCES = {"gbk": "webcrawl-gbk", "gb18030": "webcrawl-gbk", "cp949": "webcrawl-references"}
"""The error handler that encodes a codec."""


def _bounded(correct: _Handler) -> _Handler:
    """Returns a handler that corrects up to _MOST_CORRECTIONS errors of a text. Each takes a microsecond or two."""

    def handle(error: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(error, UnicodeDecodeError):
            if not _decoding.left:
                _decoding.rest = error.start
                return "", len(error.object)
            _decoding.left -= 1
        return correct(error)

    return handle


for _name, _handler in {
    "webcrawl-gbk": _bounded(_gbk),
    "webcrawl-big5": _bounded(_big5),
    "webcrawl-euc-jp": _bounded(_euc_jp),
    "webcrawl-references": _references,
}.items():
    codecs.register_error(_name, _handler)
