"""Archived bodies as responses that a browser shows inert."""

from __future__ import annotations

import gzip

from tests.cases import cases
from webcrawl.web.pages.archived import MOST_BYTES, archived_response


@cases(
    ("mime_type", "shown"),
    [
        ("text/html", "text/plain; charset=utf-8"),
        ("image/svg+xml", "image/svg+xml"),
        ("text/css", "text/plain; charset=utf-8"),
        ("application/json", "text/plain; charset=utf-8"),
        ("application/pdf", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("text/html\r\nX-Evil: 1", "text/plain; charset=utf-8"),
    ],
)
def test_a_body_is_shown_by_its_type_in_bounded_size(mime_type: str, shown: str) -> None:
    chunks = iter([b"a" * 1_000_000] * 10)
    response = archived_response(chunks, 1e9, mime_type, "evil\r\nX-Evil: 1")
    assert response.headers["content-type"] == shown
    assert len(response.body) == MOST_BYTES and len(list(chunks)) == 6
    assert len(archived_response([gzip.compress(b"x")], 5, mime_type, None).body) == 5
    assert response.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert ("attachment" in response.headers.get("content-disposition", "")) == ("octet" in shown)
