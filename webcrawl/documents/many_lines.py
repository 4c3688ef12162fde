"""Splits many texts into lines at once with NumPy, which takes half the time of Python for one text after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from webcrawl.documents.html.text import BLOCK

_BLANK, _LINE_END, _BETWEEN = ord(" "), ord("\n"), "\0"
_WHITE = b"\t\x0b\x0c\r\x1c\x1d\x1f"
"""White space of ASCII other than blanks and the ends of lines."""
_PLAIN = bytes.maketrans(_WHITE + BLOCK.encode(), b" " * len(_WHITE) + b"\n")
_TWO = np.array([0x85, 0xA0], np.uint8)
"""The second bytes of white space that has two bytes in UTF-8."""
_THREE = np.array(
    [
        int.from_bytes(chr(code).encode())
        for code in (0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
    ],
    np.uint32,
)
"""White space that has three bytes in UTF-8."""


def lines_of_many(texts: Sequence[str]) -> list[bytes]:
    """Returns the lines of each text (`webcrawl.documents.html.text.lines_of`), joined, in UTF-8.

    A lone surrogate becomes "?".
    """
    cleaned = [text.replace("\0", "\ufffd").replace("\xad", "") for text in texts]
    raw = _BETWEEN.join(cleaned).encode("utf-8", "replace").translate(_PLAIN)
    octets = np.frombuffer(raw, np.uint8)
    if not raw.isascii():
        octets = octets.copy()
        _make_blank(octets)
    ends = octets == _LINE_END
    # keeps the first character and the line ends of each run of white space
    kept = octets != _BLANK
    kept &= ~ends
    kept[1:] |= kept[:-1]
    kept |= ends
    octets = octets[kept]
    ends = octets == _LINE_END
    # keeps the first line end of a run with line ends
    kept = np.full(len(octets), True)
    kept[:-1] = (octets[:-1] != _BLANK) | ~ends[1:]
    kept[1:] &= ~(ends[1:] & ends[:-1])
    return [text.strip() for text in octets[kept].tobytes().split(_BETWEEN.encode())]


def _make_blank(octets: npt.NDArray[np.uint8]) -> None:
    """Replaces white space outside ASCII by blanks."""
    first = (octets == 0xC2).nonzero()[0]
    starts = first[np.isin(octets[first + 1], _TWO)]
    octets[starts] = octets[starts + 1] = _BLANK
    first = ((octets >= 0xE1) & (octets <= 0xE3)).nonzero()[0]
    codes = octets[first].astype(np.uint32)
    for position in (1, 2):
        codes = codes << np.uint32(8) | octets[first + position]
    starts = first[np.isin(codes, _THREE)]
    for position in range(3):
        octets[starts + position] = _BLANK
