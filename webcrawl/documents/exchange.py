"""What went over the wire for one URL: the input of an archive."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from webcrawl.documents.body import Body, base32


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response, as bytes.

    `request_head` and `response_head` hold the request or status line, the header lines and the blank line
    that ends them, CRLF between lines. `payload` is the body as received with its content-encoding still on
    and its transfer-encoding removed: what a WARC calls the payload and what digests are taken of.
    `fetched_at` is in UTC. `truncated` says why the payload is not whole: "length" (a size limit), "time" or
    "disconnect". What came by another protocol than HTTP has no heads, but a `mime_type`, and a `problem` where that
    protocol made less of the answer than there was.
    """

    url: str
    method: str
    request_head: bytes
    request_body: bytes
    status: int
    response_head: bytes
    payload: Body
    ip_address: str | None
    fetched_at: datetime
    truncated: str | None = None
    mime_type: str | None = None
    problem: str | None = None


def digest(*parts: bytes | Body) -> str:
    """The SHA-1 of the parts put together, as WARC files write it: "sha1:" and 32 Base32 characters."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        for chunk in part.chunks() if isinstance(part, Body) else (part,):
            sha1.update(chunk)
    return base32(sha1.digest())


# who asks for one asks again when the page is stored
@lru_cache(maxsize=1024)
def digest_bytes(digest: str) -> bytes:
    """The 20 bytes of what `digest` returns."""
    return base64.b32decode(digest.partition(":")[2])
