"""What is known of a URL that is fetched again: validators to be sent, and the stored answer where it is unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.body import Body
from webcrawl.mime.html import is_html
from webcrawl.responses import make_response
from webcrawl.stores.record import StoredRecord
from webcrawl.stores.warc import WarcPlace

UNCHANGED = 304

# Their links need not be found again, since there are none.
_WITHOUT_LINKS = ("image/", "audio/", "video/", "font/")


@dataclass(frozen=True, slots=True)
class Known:
    """The stored answer of a URL: its validators as header values, and its place where its body is in the archive."""

    fetched_at: datetime
    digest: str | None
    etag: str | None
    last_modified: str | None
    mime_type: str
    place: WarcPlace | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self | None:
        """Of a row of table `pages`; None when the answer was none to be confirmed, or has no validator."""
        if row["status"] != 200 or row["truncated"] or not (row["etag"] or row["last_modified"]):
            return None
        # a copy is in the archive without its body
        whole = row["warc_file"] is not None and row["duplicate_kind"] != "exact"
        place = WarcPlace(row["warc_file"], row["warc_offset"], row["warc_length"]) if whole else None
        return cls(
            row["fetched_at"],
            row["digest"],
            row["etag"],
            row["last_modified"],
            row["mime_type"] or "",
            place,
        )

    @property
    def has_links(self) -> bool:
        """Whether the body may lead to other pages."""
        return not self.mime_type.startswith(_WITHOUT_LINKS)

    @property
    def keeps_links(self) -> bool:
        """Whether its links can be found without fetching it again."""
        return not self.has_links or (is_html(self.mime_type) and self.place is not None)

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
