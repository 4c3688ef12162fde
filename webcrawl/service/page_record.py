"""A stored page as the API shows it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from webcrawl.client.answers import ArchiveLocation, ChainLink, PageRecord, PastFetch
from webcrawl.service.page_reader import StoredPage
from webcrawl.stores.redirect_chains import ChainRow, EarlierFetch


def page_record(page: StoredPage) -> PageRecord:
    """Returns what is stored about the last page of a chain."""
    chain, row = page.chain, page.chain[-1]
    links = [ChainLink(each.url, each.status) for each in chain]
    if (
        row.status is not None
        and 300 <= row.status < 400
        and row.final_url not in {each.url for each in chain}
    ):
        links.append(ChainLink(row.final_url, None))
    details = row.details
    return PageRecord(
        url=chain[0].url,
        final_url=links[-1].url,
        chain=links,
        status=row.status,
        fetched_at=row.fetched_at,
        first_fetched_at=row.first_fetched_at,
        fetches=row.fetches,
        tried_at=row.tried_at,
        changed_at=row.changed_at,
        changes=row.changes,
        state=row.state,
        error=row.error,
        title=row.title,
        description=row.description,
        picture=row.image_url,
        canonical_url=row.canonical_url,
        author=row.author,
        published_at=row.published_at,
        modified=_modified(details),
        language=row.language,
        mime_type=row.mime_type,
        charset=row.charset,
        length=row.length,
        digest=row.digest,
        truncated=row.truncated,
        duplicate_of=row.duplicate_of,
        duplicate_kind=row.duplicate_kind,
        soft_404=None if row.soft_404 is None else bool(row.soft_404),
        etag=row.etag,
        last_modified=row.last_modified,
        importance=row.importance,
        depth=row.depth,
        crawl=row.crawl,
        archive=_location(row),
        # as it is stored: it need not be read to be sent
        details=None if details is None else msgspec.Raw(details.encode()),  # type: ignore[arg-type]
        history=None if page.earlier is None else [_past_fetch(fetch) for fetch in page.earlier],
    )


class _Dates(Struct):
    modified: Any = None


_dates = msgspec.json.Decoder(_Dates)


def _modified(details: str | None) -> str | None:
    if details is None or '"modified"' not in details:
        return None
    modified = _dates.decode(details).modified
    return modified if isinstance(modified, str) else None


def _past_fetch(fetch: EarlierFetch) -> PastFetch:
    return PastFetch(
        fetch.fetched_at,
        fetch.status,
        None if fetch.changed is None else bool(fetch.changed),
        fetch.digest,
        fetch.length,
        fetch.latency,
        fetch.error,
        _location(fetch),
    )


def _location(row: ChainRow | EarlierFetch) -> ArchiveLocation | None:
    if row.warc_file is None or row.warc_offset is None or row.warc_length is None:
        return None
    return ArchiveLocation(row.warc_file, row.warc_offset, row.warc_length)
