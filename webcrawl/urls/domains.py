"""Lists of domains, from settings or files: ALLOWED_DOMAINS and DENIED_DOMAINS."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Self

from xxhash import xxh3_64_intdigest

from webcrawl.config import read
from webcrawl.config.file_version import FileVersion, file_version
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.canonical import hostname, is_address, normalize
from webcrawl.urls.filters import URLFilter

_PLAIN = re.compile(
    r"(?!xn--)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.(?!xn--)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.[a-z]+"
)
_MOST_BITS = 16
"""The most leading bits of a hash by which it is looked up; a binary search does the rest."""
_CACHED = 1 << 14


class Domains:
    """A set of domains and addresses, each domain with all names under it. It has room for millions.

    Keeps the sorted 64-bit hashes (xxh3) of the names, 8 bytes each. The probability that a name outside the set is
    taken for a name in it is one in 10^13 for a million domains.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """`names`: host names as in normalized URLs, without a dot at the end."""
        labels: set[int] = set()
        unsorted = array("Q")
        for name in names:
            labels.add(1 if is_address(name) else name.count(".") + 1)
            unsorted.append(xxh3_64_intdigest(name.encode()))
        self._hashes = array("Q", sorted(unsorted))
        self._labels = sorted(labels)
        self._shift = 64 - min(_MOST_BITS, len(unsorted).bit_length())
        self._starts = array("I", _starts(self._hashes, self._shift))
        self.covers_authority = lru_cache(maxsize=_CACHED)(self._covers_authority)
        """Whether a host name, which may have a port, is in the set or under a domain in it."""

    def __len__(self) -> int:
        return len(self._hashes)

    def covers(self, url: str) -> bool:
        """Whether the host of a normalized URL is in the set or under a domain in it."""
        return self.covers_authority(url.split("/", 3)[2])

    def _covers_authority(self, authority: str) -> bool:
        name = hostname(f"http://{authority}") if ":" in authority else authority
        if name[-1] == ".":
            name = name[:-1]
        if (name[-1].isdigit() or ":" in name) and is_address(name):
            return self._has(name.encode())
        labels = name.encode().split(b".")
        for few in self._labels:
            if few > len(labels):
                break
            if self._has(b".".join(labels[-few:])):
                return True
        return False

    def _has(self, name: bytes) -> bool:
        digest, starts = xxh3_64_intdigest(name), self._starts
        first = digest >> self._shift
        end = starts[first + 1]
        index = bisect_left(self._hashes, digest, starts[first], end)
        return index < end and self._hashes[index] == digest


class DomainFilter(URLFilter):
    """Drops URLs in `denied` domains, and URLs outside `allowed` domains unless `allowed` is None.

    Keys: ALLOWED_DOMAINS, DENIED_DOMAINS, each a list of domains or of files of domains ("@domains.txt").
    """

    why = "The operator's lists ALLOWED_DOMAINS and DENIED_DOMAINS decide which domains are crawled."

    def __init__(self, allowed: Domains | None = None, denied: Domains | None = None) -> None:
        self._allowed = allowed
        self._denied = denied

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        return cls(read_domains(config, "ALLOWED_DOMAINS"), read_domains(config, "DENIED_DOMAINS"))

    def apply(self, url: str) -> str | None:
        if self._allowed is not None and not self._allowed.covers(url):
            return None
        return None if self._denied is not None and self._denied.covers(url) else url


def read_domains(config: Mapping[str, object], setting: str) -> Domains | None:
    """Returns the domains of a setting, or None if it is empty.

    Raises ConfigurationError, which names the setting, the file and the line.
    """
    entries = tuple(read(config, setting))
    # a crawl makes several chains of filters, and should read a long file once
    versions = tuple(file_version(entry[1:]) for entry in entries if entry.startswith("@"))
    return _domains(setting, entries, versions) if entries else None


def domain(text: str) -> str:
    """Returns the host name of an entry; raises ValueError, which says what is wrong."""
    if _PLAIN.fullmatch(text):
        return text
    for part, fault in (
        ("://", "has a scheme"),
        ("*", "has a wildcard, and a domain stands for all names under it"),
        ("/", "has a path"),
        ("@", "has a user name"),
        ("?", "has a query"),
        ("#", "has a fragment"),
    ):
        if part in text:
            raise ValueError(f"{fault}: write only the domain, such as example.org")
    bare = text.strip("[]")
    if bare.count(":") == 1:
        raise ValueError("has a port: write only the domain, such as example.org")
    try:
        name = hostname(normalize(f"http://[{bare}]/" if ":" in bare else f"http://{text}/"))
    except InvalidURL:
        raise ValueError("is not a domain") from None
    return name.removesuffix(".")


def _starts(hashes: array[int], shift: int) -> Iterator[int]:
    """Yields for each prefix of bits the index of the first hash with it, and then the number of all hashes."""
    for first in range(1 << (64 - shift)):
        yield bisect_left(hashes, first << shift)
    yield len(hashes)


@lru_cache(maxsize=8)
def _domains(setting: str, entries: tuple[str, ...], versions: tuple[FileVersion | None, ...]) -> Domains:
    return Domains(_names(setting, entries))


def _names(setting: str, entries: tuple[str, ...]) -> Iterator[str]:
    for number, entry in enumerate(entries, 1):
        if entry.startswith("@"):
            yield from _names_in_file(setting, entry)
        else:
            yield _valid(f"{setting}, entry {number}", entry)


def _names_in_file(setting: str, entry: str) -> Iterator[str]:
    """Yields the domains of a file with one domain per line and # comments."""
    try:
        with open(entry[1:], encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if text := line.partition("#")[0].strip():
                    yield _valid(f"{setting}, line {number} of {entry[1:]}", text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{setting}: {entry!r} cannot be read: {error}") from None


def _valid(where: str, text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    try:
        return domain(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {text!r} {error}") from None
