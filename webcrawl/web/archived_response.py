"""Makes a response of an archived body that a browser shows inert: without scripts, forms and external resources."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

from starlette.responses import Response

from webcrawl.documents.encodings import label_of

MOST_BYTES = 4_000_000
"""The most bytes of a body that are shown; a longer body is truncated."""

_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_PICTURES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"}
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")
_HINTS = re.compile(rb"<(?=link\b)", re.IGNORECASE)


def archived_response(chunks: Iterable[bytes], most: float, mime_type: str, charset: str | None) -> Response:
    """Returns a body in the form for its type, or as a download if a browser cannot show it inert.

    Reads at most MOST_BYTES of the chunks.
    """
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) >= min(most, MOST_BYTES):
            break
    body = body[: int(min(most, MOST_BYTES))]
    headers = {
        "Content-Security-Policy": _POLICY,
        "X-Frame-Options": "SAMEORIGIN",
        "X-DNS-Prefetch-Control": "off",
    }
    if mime_type in _HTML:
        if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (charset or "").startswith(
            "utf-16"
        ):
            body, charset = body.decode("utf-16", "replace").encode(), "utf-8"
        # a policy does not prevent a browser from connecting to the hosts of rel=preconnect
        body, shown = _HINTS.sub(b"<!-", body), "text/html"
    elif mime_type in _PICTURES:
        shown = mime_type
    elif mime_type.startswith("text/") or mime_type in ("application/json", "application/xml"):
        shown = "text/plain"
    else:
        shown, headers["Content-Disposition"] = "application/octet-stream", 'attachment; filename="body"'
    if shown.startswith("text/"):
        known = label_of(charset) if charset and _CHARSET.fullmatch(charset) else "utf-8"
        shown += f"; charset={known}"
    return Response(body, headers={**headers, "Content-Type": shown})
