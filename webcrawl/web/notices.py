"""The redirect after an action, and the notice that the target page shows."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

_FIELD = "notice"
_LONGEST = 300


def from_page(address: str) -> str:
    """Returns the path and query of an address in the dashboard; "/" for any other address."""
    if not address.startswith("/") or address.startswith(("//", "/\\")) or not address.isprintable():
        return "/"
    parts = urlsplit(address)
    return "/" if parts.scheme or parts.netloc or "\\" in address else address


def with_notice(address: str, notice: str) -> str:
    """Returns the address of a page with a notice."""
    path, _, query = address.partition("?")
    fields = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != _FIELD]
    return f"{path}?{urlencode([*fields, (_FIELD, notice[:_LONGEST])])}"


def notice_of(query: dict[str, str]) -> str:
    """Returns the notice in the query of a page."""
    return query.get(_FIELD, "")[:_LONGEST]
