"""A filter that rewrites URLs: it takes session ids out of paths."""

from __future__ import annotations

from webcrawl.urls.filters import URLFilter


class SessionFilter(URLFilter):
    """Removes `;jsessionid=...`."""

    why = "A session id names no page."

    def apply(self, url: str) -> str | None:
        return url.partition(";jsessionid=")[0]
