"""Finds addresses in plain text, such as "see https://example.org/a (or www.example.net)."

The rules are those of autolinks in GitHub Flavored Markdown (https://github.github.com/gfm/#autolinks-extension-), and
two rules of linkify-it: an address ends at a closing bracket without an opening bracket in the address, and at Chinese
and Japanese quotation marks and punctuation, which follow without a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LENGTH = 8_192
"""The most characters of an address; longer addresses are left out."""

# Ends an address wherever it stands: white space, controls, quotation marks, and punctuation of full width.
_ENDS = (
    r"\s\x00-\x1f<>\"`{}|\\^\u00ab\u00bb\u2018\u201c-\u201e\u2039\u203a\u3000-\u3003\u3008-\u3011\u3014-\u301f"
    r"\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\uff3b\uff3d\uff5b\uff5d\uff61-\uff64"
)
# The quantifiers are possessive, so that each character is read once. An apostrophe between letters belongs to the
# address. Markdown puts "](" between the text of a link and its address.
_ADDRESS = re.compile(
    rf"(?:(?<![A-Za-z0-9])(?:https?|ftp)://|(?<![A-Za-z0-9@./-])www\.(?=[^\s./]++\.))"
    rf"(?:[^]'\u2019{_ENDS}]|['\u2019](?=\w)|\](?!\())++",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[()\[\]]")
_OPENING = {")": "(", "]": "["}
_AFTER = ".,:!?*_~"
_ENTITY = re.compile(r"&[a-z0-9]{1,31};$", re.IGNORECASE)
_LONGEST_ENTITY = len("&;") + 31


def written_addresses(text: str) -> Iterator[str]:
    """Yields the addresses in a text, in order, without the punctuation of their sentences.

    Addresses are not normalised and may be invalid. An address that begins with "www." gets the scheme http.
    """
    for match in _ADDRESS.finditer(text):
        if match.end() - match.start() <= MAX_LENGTH and (address := trimmed(match[0])):
            yield f"http://{address}" if address[:4].lower() == "www." else address


def trimmed(address: str) -> str:
    """Removes the punctuation of the surrounding sentence from the end of an address."""
    address = _balanced(address)
    while True:
        address = address.rstrip(_AFTER)
        if not address.endswith(";"):
            return address
        entity = _ENTITY.search(address, max(0, len(address) - _LONGEST_ENTITY))
        address = address[: entity.start() if entity else -1]


def _balanced(address: str) -> str:
    """Cuts an address at the first closing bracket without an opening bracket in the address."""
    open_brackets: list[str] = []
    for match in _BRACKET.finditer(address):
        bracket = match[0]
        if bracket not in _OPENING:
            open_brackets.append(bracket)
        elif open_brackets and open_brackets[-1] == _OPENING[bracket]:
            open_brackets.pop()
        else:
            return address[: match.start()]
    return address
