"""Finds pages whose payload an earlier fetch of the same URL has archived, in this or another crawl."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.documents.payload import STORED_LINKS, STORED_TEXT, EarlierContents, StoredPayload, StoredRows
from webcrawl.errors import StoreError
from webcrawl.stores.history import UNCHANGED
from webcrawl.stores.locations import Row, location_of_payload, own_location, payload_of
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.warc.files import WarcLocation, crawl_of, prefix_of

logger = logging.getLogger(__name__)

Across = Literal["crawl", "database"]


class EarlierPayloads:
    """The payloads that the rows of a metadata database name, if their WARC files are still in the same archive.

    `across` is the value of DEDUP_ACROSS: only files of the crawl, or of all crawls of the database. `is_archived`
    returns whether the archive has a record with a payload. For one thread.
    """

    def __init__(
        self, uri: str, crawl: str, across: Across, is_archived: Callable[[WarcLocation], bool]
    ) -> None:
        self._metadata = Metadata(uri)
        self._crawl = prefix_of(crawl) if across == "crawl" else None
        self._is_archived = is_archived

    def close(self) -> None:
        """Closes the database."""
        self._metadata.close()

    def find(self, pages: Sequence[Page]) -> dict[str, EarlierContents]:
        """Returns the earlier payloads of these pages by URL. Without its database, no page has one."""
        digests = {page.url: page.digest for page in pages if _is_comparable(page)}
        try:
            rows = self._metadata.payload_rows(list(digests)) if digests else {}
            same = {url: row for url, row in rows.items() if row["digest"] == digests[url]}
            firsts = self._firsts(same)
        except StoreError as error:
            # the page is archived in full; the metadata pipeline reports the unavailable database
            logger.info("Earlier payloads are not known: %s", error)
            return {}
        payloads = {url: _payload(row, firsts.get) for url, row in same.items()}
        return {
            url: EarlierContents(
                payload,
                *(StoredRows.of_details(same[url]["details"], name) for name in (STORED_TEXT, STORED_LINKS)),
            )
            for url, payload in payloads.items()
            if payload and self._is_usable(payload)
        }

    def _firsts(self, rows: Mapping[str, Row]) -> dict[str, dict[str, Any]]:
        """Returns the rows of the pages of which these rows are copies."""
        copied = {row["duplicate_of"] for row in rows.values() if row["duplicate_kind"] == "exact"}
        return self._metadata.payload_rows(sorted(copied - {None})) if copied else {}

    def _is_usable(self, payload: StoredPayload) -> bool:
        if self._crawl is not None and crawl_of(payload.warc_file) != self._crawl:
            return False
        return self._is_archived(location_of_payload(payload))


def _is_comparable(page: Page) -> bool:
    """Returns whether the response of a page has a complete payload that no page of the crawl has archived."""
    exchange: Exchange | None = page.archived.exchange
    if exchange is None or exchange.status == UNCHANGED or exchange.truncated or not page.digest:
        return False
    is_archived = page.duplicate_kind == "exact" and page.archived.duplicate_fetched_at is not None
    return bool(len(exchange.payload)) and not is_archived


def _payload(row: Row, get: Callable[[str], Row | None]) -> StoredPayload | None:
    """Returns the payload of a row; None if it is not known whether the record of a copy has it."""
    payload = payload_of(row, get)
    if payload and row["duplicate_kind"] == "exact" and location_of_payload(payload) == own_location(row):
        return None
    return payload
