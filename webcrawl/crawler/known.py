"""The stored response of a URL that is fetched again: its validators, and where it is archived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from webcrawl.documents.payload import STORED_LINKS, StoredRows, unchanged_since
from webcrawl.stores.locations import Row, location_of_payload, own_location, payload_of
from webcrawl.stores.warc.files import WarcLocation

UNCHANGED = 304
"""The status of a response that confirms the stored one."""

# Documents of these types contain no links.
_WITHOUT_LINKS = (
    *("image/", "audio/", "video/", "font/"),
    *(
        f"application/{name}"
        for name in ("octet-stream", "zip", "x-tar", "x-7z-compressed", "vnd.rar", "wasm")
    ),
)


@dataclass(frozen=True, slots=True)
class Known:
    """The stored response of a URL: its validators as header values, and where it is archived.

    `body_location` is the record with its body, or None without such a record. `head` is the record with its header,
    which is another record for an exact copy.
    """

    digest: str | None
    etag: str | None
    last_modified: str | None
    mime_type: str
    body_location: WarcLocation | None
    head: WarcLocation | None
    original: tuple[str, datetime]
    """URL and time of the fetch that stored the body."""
    links: StoredRows | None
    """Where the links of the contents are in the link store; None if they are not known to be there."""

    @classmethod
    def of_row(cls, row: Row, get: Callable[[str], Row | None], limit: float) -> Self | None:
        """Reads a row of the table `pages`; returns None if it has no validator, or no 304 can confirm it.

        `get` returns the row of the original of a copy. `limit` is the number of bytes to which a body of
        its type is truncated now: a body that was truncated to it would not grow if it were fetched again.
        """
        cut_elsewhere = row["truncated"] and (row["truncated"] != "length" or (row["length"] or 0) < limit)
        # without a digest, only the head was asked for: a 304 would confirm a body that nobody has
        if (
            row["status"] != 200
            or row["digest"] is None
            or cut_elsewhere
            or not (row["etag"] or row["last_modified"])
        ):
            return None
        payload, head = payload_of(row, get), own_location(row)
        body_location = payload and location_of_payload(payload)
        if row["duplicate_kind"] == "exact" and body_location == head:
            # the original has changed since: whether the copy's own record has the body is not known
            body_location = None
        return cls(
            row["digest"],
            row["etag"],
            row["last_modified"],
            row["mime_type"] or "",
            body_location,
            head,
            (payload.url, payload.fetched_at) if payload else (row["url"], row["fetched_at"]),
            _links(row),
        )

    @property
    def has_links(self) -> bool:
        """Whether the body may contain links."""
        return not self.mime_type.startswith(_WITHOUT_LINKS)

    @property
    def keeps_links(self) -> bool:
        """Whether its links can be found without fetching the body again."""
        return not self.has_links or self.body_location is not None

    def validators(self, etag: str | None, last_modified: str | None) -> tuple[str | None, str | None]:
        """Returns the validators to store after a 304: the given validators only if one matches (RFC 9111, 4.3.4).

        Without a match, the new validators belong to another version, which must not confirm this body later.
        """
        if (etag and etag == self.etag) or (last_modified and last_modified == self.last_modified):
            return etag or self.etag, last_modified or self.last_modified
        return self.etag, self.last_modified


def _links(row: Row) -> StoredRows | None:
    """Returns the links that a row names, unless they are of earlier contents."""
    links = StoredRows.of_details(row["details"], STORED_LINKS)
    return links if links is not None and links.fetched_at >= unchanged_since(row) else None
