"""What is known of a URL that is fetched again: its validators and its answer in the archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from webcrawl.stores.locations import Row, own_place, place_of
from webcrawl.stores.warc import WarcPlace

# Their links need not be found again, since there are none.
_WITHOUT_LINKS = (
    *("image/", "audio/", "video/", "font/"),
    *(
        f"application/{name}"
        for name in ("octet-stream", "zip", "x-tar", "x-7z-compressed", "vnd.rar", "wasm")
    ),
)


@dataclass(frozen=True, slots=True)
class Known:
    """The stored answer of a URL: its validators as header values, and where it is in the archive.

    `place` has its body, None when that is not there, and `head` its own header, of a copy in another record.
    """

    digest: str | None
    etag: str | None
    last_modified: str | None
    mime_type: str
    place: WarcPlace | None
    head: WarcPlace | None
    original: tuple[str, datetime]
    """URL and time of the fetch that the body is of."""

    @classmethod
    def of_row(cls, row: Row, get: Callable[[str], Row | None], limit: float) -> Self | None:
        """Of a row of table `pages`; None when the answer was none to be confirmed, or has no validator.

        `get` gives the row of the page that a copy is one of; `limit` is of how many bytes a fetch makes do today: what
        was cut off there would be again.
        """
        cut_elsewhere = row["truncated"] and (row["truncated"] != "length" or (row["length"] or 0) < limit)
        if row["status"] != 200 or cut_elsewhere or not (row["etag"] or row["last_modified"]):
            return None
        place, head = place_of(row, get), own_place(row)
        is_copy = row["duplicate_kind"] == "exact"
        # of a copy whose first page has another body by now, nobody knows here whether its record has one
        first = get(row["duplicate_of"]) if is_copy and place != head else row
        assert first is not None
        return cls(
            row["digest"],
            row["etag"],
            row["last_modified"],
            row["mime_type"] or "",
            None if is_copy and place == head else place,
            head,
            (first["url"], first["fetched_at"]),
        )

    @property
    def has_links(self) -> bool:
        """Whether the body may lead to other pages."""
        return not self.mime_type.startswith(_WITHOUT_LINKS)

    @property
    def keeps_links(self) -> bool:
        """Whether its links can be found without fetching it again."""
        return not self.has_links or self.place is not None

    def validators(self, etag: str | None, last_modified: str | None) -> tuple[str | None, str | None]:
        """Those that hold after an answer 304 with these: new ones only where one is the same (RFC 9111, 4.3.4).

        What has none in common is of another version, with which it must not be taken for unchanged later.
        """
        if (etag and etag == self.etag) or (last_modified and last_modified == self.last_modified):
            return etag or self.etag, last_modified or self.last_modified
        return self.etag, self.last_modified
