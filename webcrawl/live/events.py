"""The events of the live lane: what became of a URL, for everybody who asked for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webcrawl.live.asks import LiveAsk
from webcrawl.stores.listeners import encoded

FILTERED, INVALID, REDIRECTS, DEAD = "filtered", "invalid", "redirects", "dead"
_BY_TEXT = {"robots.txt disallows": "robots", "the site disallows": "robots"}
_BY_CLASS = {
    "RequestRefused": "guard",
    "CannotResolveHostError": "dns",
    "DownloadTimeoutError": "timeout",
    "NotSupported": "unsupported",
    "UnsupportedURLSchemeError": "unsupported",
}


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """What became of a URL.

    url     the last URL of its chain, normalized
    error   "" for a page, whatever its status; "robots", "guard", "dns", "timeout", "unsupported", "filtered",
            "invalid", "redirects" (too many, or in a circle), "dead" for everything else
    reason  the error in words
    row     of the last page, if one is stored
    stored  the page was young enough, and not fetched
    """

    url: str
    error: str = ""
    reason: str = ""
    row: Mapping[str, Any] | None = None
    stored: bool = False

    @classmethod
    def of_row(cls, row: Mapping[str, Any], *, stored: bool = False) -> LiveAnswer:
        """Returns the answer that the row of a page gives."""
        if row["status"] is not None:
            return cls(row["final_url"], row=row, stored=stored)
        reason = row["error"] or ""
        return cls(row["final_url"], error_of(reason), reason, row, stored)


def related_urls(row: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the URLs of a page's picture ("image") and of its feeds ("feed")."""
    details = row.get("details") or {}
    image = row.get("image_url") or details.get("first_image")
    return {"image": [image] if image else [], "feed": list(details.get("feeds") or ())}


def error_of(reason: str) -> str:
    """Returns the word for an error of a page, "CLASS: TEXT"."""
    name, _, text = reason.partition(": ")
    return next(
        (word for start, word in _BY_TEXT.items() if text.startswith(start)), _BY_CLASS.get(name, DEAD)
    )


def events(asks: Sequence[LiveAsk], answer: LiveAnswer) -> list[str]:
    """Returns the events for those who wait for a URL, as JSON: one for each URL as asked, tag and meta.

    Fields: kind ("page"), ids, url (as asked), final_url, chain (URLs that redirected), tag, meta, status, error,
    reason, stored, related_to (the page for which a picture or a feed was fetched, or ""), page (the row, as
    `scrapy listen` prints rows; null without one).
    """
    row = {name: value for name, value in (answer.row or {}).items() if value is not None}
    page = encoded(row) if row else "null"
    together: dict[tuple[str, ...], list[LiveAsk]] = {}
    for ask in asks:
        together.setdefault((ask.url, ask.tag, ask.meta, ask.page), []).append(ask)
    return [_event(some, answer, page) for some in together.values()]


def _event(asks: Sequence[LiveAsk], answer: LiveAnswer, page: str) -> str:
    ask = asks[0]
    fields = {
        "kind": "page",
        "ids": sorted({ask.id for ask in asks if ask.id}),
        "url": ask.url,
        "final_url": answer.url,
        "chain": list(ask.chain),
        "tag": ask.tag,
        "meta": json.loads(ask.meta or "{}"),
        "status": (answer.row or {}).get("status"),
        "error": answer.error,
        "reason": answer.reason,
        "stored": answer.stored,
        "related_to": ask.page,
    }
    # the row is limited in its own right
    return f'{json.dumps(fields, separators=(",", ":"))[:-1]},"page":{page}}}'
