"""Reads earlier versions of pages: responses from the history, and documents from the archive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from webcrawl.documents.document import Document
from webcrawl.documents.mime.sniff import sniff
from webcrawl.documents.payload import StoredPayload
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.bodies import about
from webcrawl.stores.history import UNCHANGED, state
from webcrawl.stores.locations import Row, location_of_payload, own_location
from webcrawl.stores.metadata import StoredFetch
from webcrawl.stores.stored_pages import StoredPages
from webcrawl.stores.warc.files import WarcLocation

UNREACHABLE = ("refused", "broken", "failed")
"""States that do not show whether a page exists."""


class Versions(StoredPages):
    """Stored pages with their earlier versions."""

    def answers(self, url: str, until: datetime) -> list[StoredFetch]:
        """Returns the fetches of a page before `until`, oldest first, without failed fetches (`UNREACHABLE`)."""
        fetches = self.metadata.history(url)
        return [
            fetch for fetch in fetches if fetch.fetched_at < until and state(fetch.status) not in UNREACHABLE
        ]

    def last(self, url: str, until: datetime, counts: Callable[[datetime], bool]) -> StoredFetch | None:
        """Returns the version of the latest fetch before `until` whose time `counts` accepts, or None.

        For a 304, returns the version that it confirms.
        """
        answers = self.answers(url, until)
        while answers and not counts(answers[-1].fetched_at):
            answers.pop()
        if not answers or answers[-1].status != UNCHANGED:
            return answers[-1] if answers else None
        confirmed = [fetch for fetch in answers if fetch.status != UNCHANGED]
        # the history may have dropped the version that the 304 confirms
        return confirmed[-1] if confirmed else answers[-1]._replace(status=200)

    def version(self, fetch: Row) -> Document | None:
        """Returns the document of a fetch, with the type and charset at that time; None if it is missing or damaged.

        `fetch`: a row, or a StoredFetch as a mapping with `url`. The document is `refused` if parsing takes too long.
        """
        earlier = StoredPayload.of_details(fetch.get("details"))
        location = own_location(fetch) if earlier is None else location_of_payload(earlier)
        try:
            return None if location is None else self._document_at(location, fetch["url"])
        except StoreUnavailable:
            raise
        except StoreError:
            return None

    def _document_at(self, location: WarcLocation, url: str) -> Document | None:
        body = self.body_at(location)
        if body is None:
            return None
        record = self._bodies.head(location)
        media = sniff(body=body, **about(record))
        # the record of a rendered page may name the charset that the page had before rendering
        return self._read(body, media.mime_type, media.charset if record.http_head else None, url)
