"""A stored page as the API shows it."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from webcrawl.service.page_reader import StoredPage
from webcrawl.stores.redirect_chains import ChainRow, EarlierFetch

TimeText: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in UTC, in ISO 8601."""


class ArchiveLocation(Struct):
    """The WARC record of a response: a file of the archive, and the place of the compressed record in bytes."""

    file: str
    offset: int
    length: int


class ChainLink(Struct):
    """A URL of a chain of redirects. `status` is null if the URL was not fetched yet, or did not answer."""

    url: str
    status: int | None


class PastFetch(Struct, omit_defaults=True):
    """An earlier fetch of a page. `changed`: its contents differed from those before. `latency` is in seconds."""

    fetched_at: TimeText
    status: int | None
    changed: bool | None = None
    digest: str | None = None
    length: int | None = None
    latency: float | None = None
    error: str | None = None
    archive: ArchiveLocation | None = None


class PageRecord(Struct, omit_defaults=True):
    """What is stored about the page to which a URL leads. Fields that are null are left out.

    `chain` has the URL as stored, each URL to which redirects lead, and the page itself, which is `final_url`.
    `details` are facts that depend on the type of the document.
    """

    url: str
    final_url: str
    chain: list[ChainLink]
    status: int | None
    fetched_at: TimeText
    first_fetched_at: TimeText
    fetches: Annotated[int, Meta(description="How often the page was fetched.")]
    tried_at: Annotated[TimeText, Meta(description="The time of the latest attempt.")] | None = None
    changed_at: TimeText | None = None
    changes: int | None = None
    state: Annotated[str, Meta(description="The outcome of the latest attempt.")] | None = None
    error: str | None = None
    title: str | None = None
    description: str | None = None
    picture: Annotated[str, Meta(description="The URL of the picture that stands for the page.")] | None = (
        None
    )
    canonical_url: str | None = None
    author: str | None = None
    published_at: TimeText | None = None
    modified: Annotated[str, Meta(description="When the page says that it was changed.")] | None = None
    language: str | None = None
    mime_type: str | None = None
    charset: str | None = None
    length: Annotated[int, Meta(description="The bytes of the body.")] | None = None
    digest: str | None = None
    truncated: str | None = None
    duplicate_of: str | None = None
    duplicate_kind: str | None = None
    soft_404: bool | None = None
    etag: str | None = None
    last_modified: str | None = None
    importance: float | None = None
    depth: int | None = None
    crawl: str | None = None
    archive: ArchiveLocation | None = None
    details: dict[str, Any] | None = None
    history: list[PastFetch] | None = None


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
