"""Makes a response of an archived body that a browser shows inert: without scripts, forms and external resources."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.responses import Response

from webcrawl.documents.encodings import label_of

MOST_BYTES = 4_000_000
"""The most bytes of a body that are shown; a longer body is truncated."""

_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline' data:; img-src data:; font-src data:; media-src data:; "
    "frame-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "X-DNS-Prefetch-Control": "off",
}
_PICTURES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"}
)
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")


def first_bytes(chunks: Iterable[bytes], most: float) -> bytes:
    """Returns the first `most` bytes of the chunks, at most MOST_BYTES."""
    limit, body = int(min(most, MOST_BYTES)), b""
    for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            break
    return body[:limit]


def replayed_response(body: bytes) -> Response:
    """Returns an HTML page of `webcrawl.results.replay`, which has in itself what it shows."""
    return Response(body, headers={**_HEADERS, "Content-Type": "text/html; charset=utf-8"})


def archived_response(chunks: Iterable[bytes], most: float, mime_type: str, charset: str | None) -> Response:
    """Returns a body that is no HTML in the form for its type, or as a download if a browser cannot show it inert.

    Reads at most MOST_BYTES of the chunks.
    """
    headers = dict(_HEADERS)
    if mime_type in _PICTURES:
        shown = mime_type
    elif mime_type.startswith("text/") or mime_type in ("application/json", "application/xml"):
        known = label_of(charset) if charset and _CHARSET.fullmatch(charset) else "utf-8"
        shown = f"text/plain; charset={known}"
    else:
        shown, headers["Content-Disposition"] = "application/octet-stream", 'attachment; filename="body"'
    return Response(first_bytes(chunks, most), headers={**headers, "Content-Type": shown})
