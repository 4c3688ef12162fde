"""Reads the folder listings of FTP servers, MLSD (RFC 3659) and the common formats of LIST, and turns them into HTML.

Names are bytes. A name begins after one space and ends with its line, so that its own spaces are kept.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from webcrawl.urls.canonical import hostname, split

_SHOWN = 80

# A month is any word, in any language. The quantifiers are possessive, so that matching takes linear time.
_DATE = rb"""(?:
    \d{4}-\d\d-\d\d (?: [ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)? (?:[ ][+-]\d{4})? | [ ] )?
  | \d\d-\d\d[ ]\d\d:\d\d
  | (?!\d+\s)\S++\s++ \d{1,2}[^\s\d]{0,3}\s++ (?:\d{4}|\d{1,2}:\d\d)
  | \d{1,2}[^\s\d]{0,3}\s++ (?!\d+\s)\S++\s++ (?:\d{4}|\d{1,2}:\d\d)
)"""
# Links, owner and group if they are present; otherwise any words before a size and a date.
_UNIX = re.compile(
    rb"""(?P<kind>[-a-zA-Z])[-rwxsStTlL]{9}[+.@]?\s*+
    (?: \d++\s++\S++\s++\S++\s++ | (?:\S++\s++){0,8}? ) (?P<size>\d++)\s++ """
    + _DATE
    + rb"[ ](?P<name>.+)",
    re.VERBOSE,
)
_DOS = re.compile(
    rb"""(?: \d\d[-/.]\d\d[-/.](?:\d{4}|\d\d) | \d{4}[-/.]\d\d[-/.]\d\d ) \s++ \d{1,2}:\d\d (?:\s*+[AP]M)? \s++
    (?: (?P<folder><DIR>)\s++ | (?P<size>\d[\d.,]*+)[ ] ) (?P<name>.+)""",
    re.VERBOSE | re.IGNORECASE,
)
_EPLF = re.compile(rb"\+(?P<facts>[^\t]*)\t(?P<name>.+)")
_MLSD = re.compile(rb"(?P<facts>(?:[^;= ]+=[^;]*;)+) (?P<name>.+)")
# "total 12" in any language, or nothing
_NO_ENTRY = re.compile(rb"\s*|\S+\s+\d[\d.,]*[KMGT]?")
_LINK = (b"os.unix=slink", b"os.unix=symlink")


class FolderEntry(NamedTuple):
    """An entry of a folder; `size` is a number of bytes, as the digits that the server sent."""

    name: bytes
    folder: bool
    size: str


@dataclass
class FolderListing:
    """The entries of a folder. `exact`: the lines are in the format of MLSD, otherwise of LIST."""

    exact: bool
    entries: list[FolderEntry] = field(default_factory=list)
    lines: int = 0
    _unread: int = 0
    _first_unread: bytes = b""

    def add(self, line: bytes) -> None:
        """Reads one line, with or without its line end."""
        self.lines += 1
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            entry = mlsd_entry(line) if self.exact else list_entry(line)
        except ValueError:
            self._unread += 1
            self._first_unread = self._first_unread or line
        else:
            if entry is not None:
                self.entries.append(entry)

    @property
    def problem(self) -> str | None:
        """The number of lines that could not be read, and the first of them; None if all were read."""
        if not self._unread:
            return None
        shown = self._first_unread[:_SHOWN].decode("utf-8", "replace")
        return (
            f"{self._unread} of {self.lines} lines of the listing could not be read, the first is {shown!r}"
        )


def list_entry(line: bytes) -> FolderEntry | None:
    """Returns the entry of a line of LIST, None if neither file nor folder; raises ValueError if unreadable."""
    if unix := _UNIX.fullmatch(line):
        kind, name = unix["kind"], unix["name"]
        if kind == b"l":
            source, _, target = name.rpartition(b" -> ")
            return _entry(source or name, target.endswith(b"/"), unix["size"])
        return _entry(name, kind == b"d", unix["size"]) if kind in b"-d" else None
    if dos := _DOS.fullmatch(line):
        return _entry(dos["name"], dos["folder"] is not None, re.sub(rb"\D", b"", dos["size"] or b""))
    if eplf := _EPLF.fullmatch(line):
        facts = {fact[:1]: fact[1:] for fact in eplf["facts"].split(b",")}
        readable = b"/" in facts or b"r" in facts
        return _entry(eplf["name"], b"/" in facts, facts.get(b"s", b"")) if readable else None
    if _NO_ENTRY.fullmatch(line):
        return None
    raise ValueError("not a known format of LIST")


def mlsd_entry(line: bytes) -> FolderEntry | None:
    """Returns the entry of a line of MLSD, None if neither file nor folder; raises ValueError if unreadable."""
    match = _MLSD.fullmatch(line)
    facts = dict(fact.lower().split(b"=", 1) for fact in match["facts"][:-1].split(b";")) if match else {}
    if match is None or b"type" not in facts:
        raise ValueError("not a line of MLSD")
    kind = facts[b"type"]
    if kind in (b"file", b"dir") or kind.startswith(_LINK):
        return _entry(match["name"], kind == b"dir", facts.get(b"size", b""))
    return None


def _entry(name: bytes, folder: bool, size: bytes) -> FolderEntry | None:
    name = name.removeprefix(b"./").rstrip(b"/")
    if name in (b".", b".."):
        return None
    if not name or b"/" in name:
        raise ValueError("not the name of an entry")
    return FolderEntry(name, folder, size.decode("ascii", "replace"))


def index_page(url: str, entries: list[FolderEntry]) -> bytes:
    """Returns an HTML page that links to each entry of the folder at `url`."""
    path = split(url)[1].rstrip("/") + "/"
    base = html.escape(path)
    rows = []
    for name, folder, size in entries:
        href = base + quote(name) + ("/" if folder else "")
        rows.append(f'<li><a href="{href}">{_shown(name)}</a> {html.escape(size)}')
    title = f"Index of {html.escape(hostname(url))}{_shown(unquote_to_bytes(path))}"
    lines = ["<!DOCTYPE html>", '<meta charset="utf-8">', f"<title>{title}</title>"]
    lines += [f'<link rel="canonical" href="{base}">', f"<h1>{title}</h1>", "<ul>", *rows, "</ul>", ""]
    return "\n".join(lines).encode()


def _shown(name: bytes) -> str:
    """Returns a name as HTML; a name that is not valid UTF-8 is decoded as windows-1252."""
    try:
        return html.escape(name.decode())
    except UnicodeDecodeError:
        return html.escape(name.decode("cp1252", "replace"))
