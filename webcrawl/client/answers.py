"""The types of what the API answers, for the service and its clients."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

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


class StoredResult(Struct, omit_defaults=True):
    """A URL as given, and its page; null if no page of it is stored."""

    url: str
    page: PageRecord | None


class StoredResults(Struct):
    """The pages of the given URLs, in their order."""

    results: list[StoredResult]


class FetchError(Struct, omit_defaults=True):
    """Why there is no page: `robots`, `guard`, `dns`, `timeout`, `unsupported`, `filtered`, `invalid`, `redirects`,
    `dead`, or `busy`, if too many URLs of its host wait here.
    """

    reason: str
    detail: str = ""
    retry_after: Annotated[float | None, Meta(description="Seconds to wait before the next try.")] = None


class PageParts(Struct, omit_defaults=True):
    """The parts of a page that were asked for. A part that the page does not have is left out.

    `problem` says why parts are missing that the archive should have.
    """

    text: Annotated[
        str, Meta(description="The main text, or the whole text without one or if `TEXT_PART` is `page`.")
    ] = ""
    markdown: str = ""
    page_text: Annotated[str, Meta(description="The text of the whole page.")] = ""
    page_markdown: str = ""
    html: Annotated[str, Meta(description="The source, decoded by its charset.")] = ""
    links: list[str] = []
    record: Annotated[str, Meta(description="The WARC record, a gzip member, in base64.")] = ""
    problem: str = ""


class FetchedPage(Struct, omit_defaults=True):
    """What became of a URL: a `page`, an `error`, or neither while it is `pending`.

    `stored`: the page was not fetched for this request.
    """

    url: str
    pending: bool = False
    stored: bool = False
    page: PageRecord | None = None
    parts: PageParts | None = None
    error: FetchError | None = None


class FetchedPages(Struct):
    """The results of a request, in the order of its URLs. `id` is "" if nothing had to be fetched."""

    id: str
    complete: bool
    results: list[FetchedPage]


class SearchedPage(Struct, omit_defaults=True):
    """A page with the words of a search. `marks`: the start and end of each word in `snippet`, a part of the text.

    `copies`: the URLs of some results that are copies of this page.
    """

    url: str
    score: float
    fetched_at: TimeText
    title: str | None = None
    description: str | None = None
    author: str | None = None
    language: str | None = None
    mime_type: str | None = None
    published_at: TimeText | None = None
    snippet: str = ""
    marks: list[tuple[int, int]] = []
    copies: list[str] = []


class FacetValue(Struct):
    """A value of a facet, and how many results have it."""

    value: str
    count: int


class SearchedPages(Struct, omit_defaults=True):
    """The results of a search, the best first.

    `total` counts all, with copies. `has_all`: false if no page has all words, and the results have some of them.
    `facets`: by the name of a filter, the most frequent values among all results, if they were asked for.
    """

    total: int
    has_all: bool
    updated_at: Annotated[TimeText, Meta(description="When the index was last brought up to date.")]
    results: list[SearchedPage]
    corrected: Annotated[
        str | None,
        Meta(
            description="The query with other words, to which the results belong: no page has the asked words."
        ),
    ] = None
    suggested: Annotated[
        str | None, Meta(description="A query with other words, for which many more pages are found.")
    ] = None
    facets: dict[str, list[FacetValue]] = {}


class QueuedURLs(Struct):
    """How many URLs were queued."""

    queued: int


class CrawlEntry(Struct, omit_defaults=True):
    """A crawl in the list. `how`: why its last run ended. `queued`: its URLs that are queued or leased to workers.

    `checked`: repeated visits of known pages, which `pages` counts only if they have changed. `pages_per_second` and
    `checks_per_second`: over the last half minute, if it has a worker.
    """

    crawl: str
    state: Annotated[str, Meta(description="running, holding, paused, stopped, finished, or empty.")]
    pages: int
    queued: int
    checked: int = 0
    pages_per_second: float | None = None
    checks_per_second: float | None = None
    started: TimeText | None = None
    ended: TimeText | None = None
    how: str | None = None


class CrawlEntries(Struct):
    """The crawls of the engine, of running jobs on the service's machine, and those that DATA_DIR has a summary of."""

    crawls: list[CrawlEntry]


class BusyHost(Struct, omit_defaults=True):
    """A host with many URLs. `leased`: a worker asks it now. `next_attempt` is in seconds, of `waiting` URLs."""

    host: str
    queued: int
    leased: bool
    waiting: int = 0
    next_attempt: float | None = None


class CrawlDetails(Struct, omit_defaults=True):
    """The state and the figures of a crawl: those of `scrapy status --json`.

    `state` is as in the list, or `starting` if the service has started a process of which the engine knows nothing yet.
    """

    crawl: str
    state: str
    figures: dict[str, Any] = {}
    busiest_hosts: list[BusyHost] = []
    sunk_patterns: Annotated[
        dict[str, Any], Meta(description="URL patterns whose pages gave little that is new.")
    ] = {}
    over_budget: Annotated[
        dict[str, Any], Meta(description="Names and domains that have used up their budgets.")
    ] = {}


class SteeredCrawl(Struct):
    """A crawl after a change. `workers` are those that run: they complete their running requests."""

    crawl: str
    state: str
    workers: int


class IterationEntry(Struct, omit_defaults=True):
    """An iteration of a job. `due`: when it was wanted. `reason`: how it ended, or why it was not run."""

    number: int
    crawl: str
    state: Annotated[str, Meta(description="WAITING, RUNNING, FINISHED, FAILED, SKIPPED, or STOPPED.")]
    due: TimeText
    started: TimeText | None = None
    ended: TimeText | None = None
    reason: str | None = None
    queued: int = 0
    processed: Annotated[int, Meta(description="The pages that were stored.")] = 0
    stuck: int = 0


class JobEntry(Struct, omit_defaults=True):
    """A job: its schedule, when it fires next, and its latest iterations, the newest first."""

    job: str
    state: Annotated[str, Meta(description="ON, PAUSED, or OFF.")]
    spider: str
    cron: str
    timezone: str = "UTC"
    owner: str | None = None
    following: TimeText | None = None
    iterations: list[IterationEntry] = []


class JobEntries(Struct):
    """The jobs of the metadata database, by name."""

    jobs: list[JobEntry]


class WebhookEntry(Struct):
    """A webhook. `secret` is shown once, when it is added; figures are those of this service since its start."""

    id: str
    url: str
    tag: str = ""
    host: str = ""
    pattern: str = ""
    secret: str | UnsetType = UNSET
    named: Annotated[bool, Meta(description="Whether it is in the settings (WEBHOOKS).")] = False
    waiting: Annotated[int, Meta(description="Events that it has not accepted yet.")] = 0
    delivered: int = 0
    given_up: int = 0
    error: Annotated[str, Meta(description="Why it did not accept the last event.")] = ""


class WebhookEntries(Struct):
    """All webhooks."""

    webhooks: list[WebhookEntry]


class PageEvent(Struct, omit_defaults=True):
    """A finished page, or a URL of the live lane that has none.

    `url` is as asked for, `chain` the URLs that redirected, `page` the row of the page as `scrapy listen` prints it.
    `error` is "" for a page, or a word as in `FetchError`. `ids` are those of requests for the URL. `id` is that of the
    event.
    """

    url: str
    final_url: str
    status: int | None = None
    error: str = ""
    reason: str = ""
    stored: Annotated[bool, Meta(description="Whether the page was young enough, and not fetched.")] = False
    tag: str = ""
    meta: dict[str, Any] = {}
    ids: list[str] = []
    chain: list[str] = []
    page: dict[str, Any] | None = None
    id: str = ""

    @classmethod
    def read(cls, data: str, event_id: str) -> Self:
        """Returns the event of the stream's data; raises msgspec.MsgspecError."""
        event = msgspec.json.decode(data, type=cls)
        event.id = event_id
        return event
