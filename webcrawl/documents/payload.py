"""Where a payload was archived, and its text and links stored: for pages that came back with an earlier payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

from webcrawl.documents.values import plain

PAYLOAD = "payload"
"""The name of the payload's facts in the details of a row."""
STORED_TEXT = "stored_text"
"""The name of the facts about the stored text."""
STORED_LINKS = "stored_links"
"""The name of the facts about the stored links."""


class StoredPayload(NamedTuple):
    """The fetch that archived a payload, and the gzip member of its record: file, offset and length in bytes."""

    url: str
    fetched_at: datetime
    warc_file: str
    warc_offset: int
    warc_length: int

    @classmethod
    def of_details(cls, details: object) -> Self | None:
        """Returns the payload that the details of a page name; None for a page with a payload of its own."""
        facts = _facts(details, PAYLOAD, cls._fields)
        return None if facts is None else cls(**facts)

    def facts(self) -> dict[str, Any]:
        """Returns the fields as values of JSON."""
        return {name: plain(value) for name, value in self._asdict().items()}


class StoredRows(NamedTuple):
    """The fetch whose text or links are in a table, their file without suffix, and the digest of what they say."""

    fetched_at: datetime
    file: str
    digest: str

    @classmethod
    def of_details(cls, details: object, name: str) -> Self | None:
        """Returns what the details of a page have under STORED_TEXT or STORED_LINKS; None if none are known."""
        facts = _facts(details, name, cls._fields)
        return None if facts is None else cls(**facts)

    def facts(self) -> dict[str, Any]:
        """Returns the fields as values of JSON."""
        return {**self._asdict(), "fetched_at": plain(self.fetched_at)}


class EarlierContents(NamedTuple):
    """What an earlier fetch has stored of a page that came back with the same payload."""

    payload: StoredPayload
    text: StoredRows | None
    links: StoredRows | None


def _facts(details: object, name: str, fields: Iterable[str]) -> dict[str, Any] | None:
    """Returns these fields of what the details of a page have under a name; None if anything is missing or wrong."""
    facts = details.get(name) if isinstance(details, Mapping) else None
    if not isinstance(facts, Mapping):
        return None
    try:
        values = {field: facts[field] for field in fields}
        return values | {"fetched_at": datetime.fromisoformat(facts["fetched_at"])}
    except (KeyError, TypeError, ValueError):
        return None


def unchanged_since(row: Mapping[str, Any]) -> datetime:
    """Returns when the payload of a page was stored first, because fetches with the same payload change nothing.

    `row` has `url`, `fetched_at` and `details`.
    """
    payload = StoredPayload.of_details(row["details"])
    fetched_at: datetime = row["fetched_at"]
    return payload.fetched_at if payload is not None and payload.url == row["url"] else fetched_at
