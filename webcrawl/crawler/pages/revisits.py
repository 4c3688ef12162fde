"""What is known of a URL that is fetched again: validators to be sent, and the stored answer where it is unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.crawler.responses import make_response
from webcrawl.documents.body import Body
from webcrawl.stores.locations import Row, own_place, place_of
from webcrawl.stores.record import StoredRecord
from webcrawl.stores.warc import WarcPlace

UNCHANGED = 304

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

    def ask(self, request: Request) -> None:
        """Make a request a conditional one."""
        if self.etag:
            request.headers["If-None-Match"] = self.etag.encode("latin-1", "replace")
        if self.last_modified:
            request.headers["If-Modified-Since"] = self.last_modified.encode("latin-1", "replace")
        _asked[request] = self


_asked: WeakKeyDictionary[Request, Known] = WeakKeyDictionary()
_stored: WeakKeyDictionary[Response, Response] = WeakKeyDictionary()


def known_of(response: Response) -> Known | None:
    """What was known of a URL that answered to its conditional request that it is unchanged, else None."""
    if response.status != UNCHANGED or response.request is None:
        return None
    return _asked.get(response.request)


def asked(request: Request) -> Known | None:
    """What a conditional request was made of."""
    return _asked.get(request)


def remember_stored(response: Response, record: StoredRecord, body: Body) -> None:
    """The stored answer of which `response` says that it still holds: its record, and its body as `Bodies` reads it."""
    lines = (line.partition(b":") for line in record.http_head.split(b"\r\n")[1:])
    headers = Headers([(name.strip(), value.strip()) for name, colon, value in lines if colon])
    # the body comes without it
    headers.pop("Content-Encoding", None)
    if not record.http_head:
        headers["Content-Type"] = record.headers.get("Content-Type", "")
    _stored[response] = make_response(body, response.url, headers, request=response.request)


def stored_answer(response: Response) -> Response | None:
    """The answer, from the archive, that a response 304 stands for; None where it was not looked for."""
    return _stored.get(response)
