"""Where Python's codecs differ from the Encoding Standard, and the corrections.

Python decodes some characters differently, lacks those that Microsoft and later versions of GB 18030 and HKSCS added,
and refuses bytes that the standard decodes as control characters. Its encoders of two bytes also choose other bytes, so
`encoding_table` has those of the standard. All were compared with what Chromium makes of all sequences of two bytes,
and of all characters of the first three planes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import cast

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


def corrected(text: str, codec: str) -> str:
    """Returns a decoded text with the characters of the standard."""
    wrong = _WRONG.get(codec)
    return text if wrong is None else wrong.sub(lambda match: _CORRECT[codec][match[0]], text)


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
        letter = corrected(sequence.decode(codec, ERRORS.get(codec, "replace")), codec)
        if len(letter) == 1 and letter != "\ufffd":
            table.setdefault(letter, sequence)
    if codec in ("cp932", "euc_jp"):
        table |= {"\xa5": b"\\", "\u203e": b"~", "\u2212": table["\uff0d"]}
    return table


def reference(letter: str) -> str:
    """Returns what stands in a query for a character that the encoding lacks: an escaped reference ("&#8364;")."""
    number = 0xFFFD if "\ud800" <= letter <= "\udfff" else ord(letter)
    return f"%26%23{number}%3B"


def _windows(error: UnicodeError) -> tuple[str, int]:
    """Decodes bytes that a table of Windows leaves free as control characters."""
    refused = cast("UnicodeDecodeError", error)
    byte = refused.object[refused.start]
    return chr(byte) if byte < 0xA0 else "\u05ba" if byte == 0xCA else "\ufffd", refused.start + 1


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


ERRORS = {
    **dict.fromkeys(("cp874", *(f"cp125{number}" for number in range(9))), "webcrawl-windows"),
    **{"gbk": "webcrawl-gbk", "gb18030": "webcrawl-gbk"},
    **{"big5hkscs": "webcrawl-big5", "euc_jp": "webcrawl-euc-jp"},
}
"""The error handler of a codec; "replace" to decode, and REFERENCES to encode, by others."""
REFERENCES = "webcrawl-references"
for _name, _handler in {
    "webcrawl-windows": _windows,
    "webcrawl-gbk": _gbk,
    "webcrawl-big5": _big5,
    "webcrawl-euc-jp": _euc_jp,
    REFERENCES: _references,
}.items():
    codecs.register_error(_name, _handler)
