"""Recognizes soft 404s: error pages of a host that answer with 200.

After Bar-Yossef, Broder, Kumar and Tomkins ("Sic transit gloria telae: towards an understanding of the web's decay",
WWW 2004, section 4): a host is asked for a path that cannot exist. If it answers with a page, pages that look the same
are error pages. If it redirects, URLs that redirect to the same target are error pages. Two rules are added: the
start page is no error page; and if the answer looks like most pages of the host, it is their shell and shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import xxhash

LEAST_PAGES = 20
"""A host is asked when it has shown more pages than this."""

NO_ANSWER = 0
"""The status if the host did not answer, or robots.txt did not permit the request."""


class Print(NamedTuple):
    """A summary of a page: hashes of its payload and of a short text, and the SimHash of a longer text.

    Each is an unsigned 64-bit number; 0 means that it is not known.
    """

    payload: int
    text: int = 0
    simhash: int = 0

    def is_like(self, other: Print, distance: int) -> bool:
        """Whether the pages are the same, or their SimHashes differ in at most `distance` bits."""
        if self.payload == other.payload != 0 or self.text == other.text != 0:
            return True
        return bool(self.simhash and other.simhash) and (self.simhash ^ other.simhash).bit_count() <= distance


@dataclass(frozen=True, slots=True)
class UnknownPathAnswer:
    """The answer of a host to a path that cannot exist.

    status   the status of the response, or NO_ANSWER
    page     the page of a response with status 200
    target   the target of a redirect, without fragment; "" without a redirect, or if the target depends on the path
    shell    whether most pages of the host look like `page`, so that the answer shows nothing
    """

    status: int = NO_ANSWER
    page: Print | None = None
    target: str = ""
    shell: bool = False

    @property
    def is_page(self) -> bool:
        """Whether pages can be recognized as error pages by this answer."""
        return self.page is not None and not self.shell

    def is_error(self, page: Print, distance: int) -> bool:
        """Whether a page with status 200 is an error page."""
        return self.page is not None and not self.shell and page.is_like(self.page, distance)

    def about(self) -> str:
        """Returns a phrase that says what the answer means for the pages of the host."""
        if self.shell:
            return f"status {self.status}, as most pages: none is marked"
        if self.is_page:
            return f"status {self.status}: pages like this answer are marked as soft 404"
        if self.target:
            return f"status {self.status}: redirects to {self.target} are marked as soft 404"
        return f"status {self.status}" if self.status else "no answer"

    def encoded(self) -> str:
        """Returns a short text for the engine: a status alone for most hosts."""
        if self.shell:
            return f"{self.status} shell"
        if self.page is not None:
            return f"{self.status} page {self.page.payload:x} {self.page.text:x} {self.page.simhash:x}"
        return f"{self.status} to {self.target}" if self.target else str(self.status)

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Reverses `encoded`."""
        status, _, rest = text.partition(" ")
        kind, _, value = rest.partition(" ")
        if kind == "page":
            return cls(int(status), page=Print(*(int(part, 16) for part in value.split())))
        return cls(int(status), target=value, shell=kind == "shell")


def is_shell(pages: Sequence[Print], answer: Print, distance: int) -> bool:
    """Whether more than half of a host's pages look like its answer to a path that cannot exist."""
    return 2 * sum(page.is_like(answer, distance) for page in pages) > len(pages)


def may_be_error(url: str) -> bool:
    """Whether a URL may be an error page; the start page of a host never is."""
    return urlsplit(url).path not in ("", "/")


def impossible(url: str, word: str) -> str:
    """Returns the URL of `word` in the folder of a page: a path that cannot exist if the word is long and random."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path[: parts.path.rfind('/') + 1] or '/'}{word}"


def payload_print(digest: str | None) -> int:
    """Returns the hash of a payload digest; 0 without a digest."""
    return xxhash.xxh3_64_intdigest(digest.encode()) if digest else 0


def text_print(text: str, url: str) -> int:
    """Returns the hash of a short text without the address that it may mention; 0 if nothing is left."""
    parts = urlsplit(url)
    for mention in (url, parts.path, parts.path.rpartition("/")[2]):
        if len(mention) > 1:
            text = text.replace(mention, "")
    words = " ".join(text.split())
    return xxhash.xxh3_64_intdigest(words.encode("utf-8", "surrogatepass")) if words else 0
