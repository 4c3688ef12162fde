"""The request and the response of a URL as they were transferred: the input of an archive."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Self

from webcrawl.documents.body import Body, base32
from webcrawl.http.heads import UP_TO_STATUS

_STATUS = re.compile(UP_TO_STATUS + rb"([1-9]\d\d)(?!\d)", re.IGNORECASE)


def status_in(head: bytes) -> int | None:
    """Returns the status in the status line with which a head begins; None without a status of three digits."""
    status = _STATUS.match(head)
    return int(status[1]) if status else None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response, as bytes.

    request_head, response_head   the request or status line, the header lines and the blank line, ended by CRLF
    payload      the body as received, with its content codings and without transfer codings, as in a WARC
    fetched_at   in UTC
    truncated    why the payload is incomplete: "length" (a size limit), "time" or "disconnect"
    mime_type    for protocols other than HTTP, which have no heads
    problem      why the response of such a protocol could not be used
    protocol     "h2" for HTTP/2, whose heads are converted to the form of HTTP/1.1
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
    protocol: str | None = None

    @classmethod
    def without_heads(
        cls,
        url: str,
        payload: Body,
        mime_type: str,
        *,
        status: int = 200,
        ip_address: str | None = None,
        truncated: str | None = None,
        problem: str | None = None,
    ) -> Self:
        """Returns the exchange of a body just fetched over another protocol than HTTP, or rendered by a browser."""
        return cls(
            url,
            "GET",
            request_head=b"",
            request_body=b"",
            status=status,
            response_head=b"",
            payload=payload,
            ip_address=ip_address,
            fetched_at=datetime.now(UTC),
            truncated=truncated,
            mime_type=mime_type,
            problem=problem,
        )


def digest(*parts: bytes | Body) -> str:
    """Returns the SHA-1 of the joined parts as in WARC files: "sha1:" and 32 Base32 characters."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        for chunk in part.chunks() if isinstance(part, Body) else (part,):
            sha1.update(chunk)
    return base32(sha1.digest())


# the checksum pipeline and the metadata pipeline ask for the same digest
@lru_cache(maxsize=1024)
def digest_bytes(digest: str) -> bytes:
    """Returns the 20 bytes of a digest as `digest` returns it."""
    return base64.b32decode(digest.partition(":")[2])
