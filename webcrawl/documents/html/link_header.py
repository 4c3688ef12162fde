"""Links to pages in the Link header (RFC 8288)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LEADING = frozenset({"canonical", "next", "prev", "previous", "alternate"})
_MOST = 100
# "<address>" and its parameters, up to the comma before the next one; quoted strings may contain commas.
_LINK = re.compile(r"""<([^<>]*)>((?:[^",<]|"(?:[^"\\]|\\.)*")*)""")
_PARAMETER = re.compile(r""";\s*([a-z*]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*)))?""", re.IGNORECASE)


class HeaderLink(NamedTuple):
    """An address as written, and whether the page names it as its canonical one."""

    address: str
    canonical: bool


def header_links(values: Iterable[str]) -> Iterator[HeaderLink]:
    """Yields the links to pages in Link headers, without those whose context is another page (anchor)."""
    for count, match in enumerate(match for value in values for match in _LINK.finditer(value)):
        if count == _MOST:
            return
        parameters: dict[str, str] = {}
        for name, quoted, bare in _PARAMETER.findall(match[2]):
            parameters.setdefault(name.lower(), quoted or bare)
        relations = parameters.get("rel", "").lower().split()
        if "anchor" in parameters or "nofollow" in relations or "stylesheet" in relations:
            continue
        if not _LEADING.isdisjoint(relations):
            yield HeaderLink(match[1], "canonical" in relations)
