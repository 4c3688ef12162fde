"""The counters of a crawl and of each worker, made from the totals of the crawl."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from webcrawl.frontier.figures import EXTRACTED, FETCHES, MISSING_FIELD, REMARK, REVISITS
from webcrawl.metrics.families import CRAWL, WORKER, Family, MetricSample
from webcrawl.metrics.observations import LIVE_BOUNDS, Histogram

DEAD = "dead."
"""The prefix of the totals that count dead letters by cause."""
CAUSES = {
    "callback": "the callback raised an exception",
    "connection": "no connection, or it broke",
    "dns": "the name cannot be resolved",
    "host": "its host was given up after too many failures in a row",
    "malformed": "the answer is no HTTP",
    "pipeline": "an item pipeline failed",
    "request": "its request was lost with another process",
    "robots": "robots.txt is unreachable",
    "status": "the status of the last attempt was 429 or 503",
    "timeout": "no answer in time",
    "worker": "workers died with it too often",
    "other": "anything else",
}
"""The causes of dead letters, with their meanings."""

LIVE_ANSWERS = "live."
"""The prefix of the totals that count answers of the live lane by outcome."""
MOST_VALUES = 100
"""The most values of a label; further values, those with the smallest numbers, count as "other"."""
_OTHER = "other"
_STATUSES = frozenset(str(status.value) for status in HTTPStatus)


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter with at most one label, and the totals of which it is the sum.

    `totals`: the values of the label by name of the total, "" without a label. `prefix`: the prefix of further totals,
    whose names end with the value of the label. Values that are not in `known` count as "other".
    """

    base: str
    about: str
    totals: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    prefix: str = ""
    known: frozenset[str] = frozenset()
    factor: float = 1

    def family(self, scope: str) -> Family:
        """Returns the family of a scope."""
        return Family(scope, self.base, "counter", self.about, (self.label,) if self.label else ())

    def values(self, totals: Mapping[str, int]) -> Iterator[tuple[str, float]]:
        """Yields the values of the label that occur, with their numbers; a counter without a label has the value ""."""
        numbers: Counter[str] = Counter()
        for name, value in self.totals.items():
            numbers[value] += totals.get(name, 0)
        for name, number in totals.items():
            if self.prefix and name.startswith(self.prefix):
                value = name.removeprefix(self.prefix)
                numbers[value if not self.known or value in self.known else _OTHER] += number
        kept = numbers.most_common(MOST_VALUES)
        rest = sum(numbers.values()) - sum(number for _, number in kept)
        for value, number in kept:
            yield value, (number + rest * (value == _OTHER)) * self.factor
        if rest and _OTHER not in dict(kept):
            yield _OTHER, rest * self.factor


def _total(base: str, about: str, total: str = "") -> Counted:
    """Returns the counter of a single total, by default with the name of the counter."""
    return Counted(base, about, {total or base: ""})


COUNTED = (
    _total("pages", "pages that were fetched with a status of 2xx and processed"),
    _total("resources", "what pages load, fetched because of `PAGE_RESOURCES`"),
    Counted(
        "responses",
        "responses, with redirects and retries; without robots.txt",
        label="status",
        prefix="status.",
        known=_STATUSES,
    ),
    Counted(
        "received_bytes",
        "bytes of the bodies of these responses, as they were sent",
        label="status",
        prefix="status_bytes.",
        known=_STATUSES,
    ),
    Counted(
        "documents",
        "documents that reached the item pipelines, by MIME type",
        label="type",
        prefix="type_pages.",
    ),
    Counted("document_bytes", "their decoded bytes", label="type", prefix="type_bytes."),
    Counted("unreadable_documents", "those that could not be read", label="type", prefix="type_errors."),
    Counted(
        "unread_documents",
        "those that were stored, but not read without the library of an extra",
        label="extra",
        prefix="unread.",
    ),
    Counted(
        "extracted_pages",
        "pages whose fields were read, by the rule of `EXTRACT`",
        label="rule",
        prefix=EXTRACTED,
    ),
    Counted(
        "missing_fields", "such pages that lack a field, by the field", label="field", prefix=MISSING_FIELD
    ),
    Counted("items", "items that are no pages, by their class", label="item", prefix="items."),
    _total("archived", "exchanges that were written to the archive"),
    _total("stored_rows", "rows that were written to the metadata database", "stored"),
    _total("failed_fetches", "URLs whose last attempt failed without a response", "failed"),
    _total("retries", "attempts that are repeated later", "retried"),
    Counted(
        "dead_letters",
        "URLs that were given up, by cause",
        label="cause",
        prefix=DEAD,
        known=frozenset(CAUSES),
    ),
    Counted(
        "duplicates",
        "pages with the text of another one",
        {"exact_duplicates": "exact", "near_duplicates": "near"},
        "kind",
    ),
    _total("soft_404_pages", "error pages that answered with 200", "soft_404"),
    _total("repaired_documents", "damaged documents that were read all the same", "repaired"),
    Counted("remarks", "pages with a remark in their row, by the remark", label="remark", prefix=REMARK),
    Counted(
        "withheld_pages",
        "pages of which a part was left out because a robots directive says so",
        {"noindex": "noindex", "noarchive": "noarchive", "nofollow": "nofollow"},
        "directive",
    ),
    Counted(
        "live_answers",
        "URLs of the live lane that were answered: `fetched`, `stored` (young enough), or the word for an error",
        label="outcome",
        prefix=LIVE_ANSWERS,
    ),
    _total("live_forgotten_hosts", "idle hosts that the live lane has forgotten", "live_hosts_forgotten"),
    _total("live_messages", "messages of the live lane that workers have read"),
    _total("live_dead_messages", "messages of the live lane that cannot be used"),
    _total("unchanged_pages", "pages that had not changed since an earlier fetch (`REVISIT`)", "unchanged"),
    Counted(
        "fetches",
        "URLs that were fetched, by what for: `coverage-get`, `freshness-get`, `coverage-chk`, `freshness-chk` or "
        "`update-chk`",
        label="class",
        prefix=FETCHES,
    ),
    Counted(
        "revisits",
        "repeated visits of pages (`RECRAWL`) by outcome: `changed`, `unchanged`, `gone` or `failed`",
        label="outcome",
        prefix=REVISITS,
    ),
    _total("truncated_bodies", "bodies that were cut off at the limit of their type", "truncated"),
    _total("robots_denied", "URLs that robots.txt disallows"),
    _total("ai_denied", "URLs that a site keeps from crawlers for AI (`AI_OPT_OUTS`)"),
    _total("addresses_refused", "URLs that the address guard refused"),
    _total("names_not_resolved", "URLs whose host name could not be resolved"),
    _total("rewritten_urls", "URLs that a DUST rule made simpler", "rewritten"),
    Counted(
        "url_lookups",
        "found URLs by what was known of them: `cached` in the worker, `known` to the engine, or `new`",
        {"cache_hits": "cached", "known": "known", "discovered": "new"},
        "result",
    ),
    Counted(
        "cold_url_lookups",
        "those that the engine could not answer for, because they may be in the part of the seen set in the store",
        {"cold_known": "known", "cold_new": "new"},
        "result",
    ),
    _total("cold_bucket_reads", "parts of the seen set that were read from the store for that", "cold_reads"),
    _total("lost_leases", "hosts whose lease was lost"),
)
"""The counters in the order of the documentation."""
_ACTIVE = Counted(
    "active_seconds", "time in which at least one worker was alive", {"active_ms": ""}, factor=0.001
)
LIVE_SECONDS, LIVE_MS = "live_seconds.", "live_wait_ms"
"""The totals that count answers of the live lane by upper bound, and the total of their milliseconds."""
_LIVE = {
    scope: Family(
        scope,
        "live_answer_seconds",
        "histogram",
        "from a message of the live lane to its answer, when the page is stored and readable",
    )
    for scope in (CRAWL, WORKER)
}
FAMILIES = {
    CRAWL: [*(counted.family(CRAWL) for counted in (*COUNTED, _ACTIVE)), _LIVE[CRAWL]],
    WORKER: [*(counted.family(WORKER) for counted in COUNTED), _LIVE[WORKER]],
}
"""The counters of each scope."""


def samples_of(scope: str, totals: Mapping[str, int]) -> Iterator[MetricSample]:
    """Yields the counters of a scope from totals by name."""
    for counted, family in zip(
        (*COUNTED, *([_ACTIVE] if scope == CRAWL else [])), FAMILIES[scope], strict=False
    ):
        for value, number in counted.values(totals):
            yield MetricSample(family, number, (value,) if counted.label else ())
    if LIVE_MS in totals:
        yield MetricSample(_LIVE[scope], live_seconds(totals))


def live_bucket(seconds: float) -> str:
    """Returns the total that counts an answer of the live lane after these seconds."""
    bound = next((bound for bound in LIVE_BOUNDS if seconds <= bound), math.inf)
    return f"{LIVE_SECONDS}{bound:g}"


def live_seconds(totals: Mapping[str, int]) -> Histogram:
    """Returns how long the answers of the live lane took."""
    counts = {bound: totals.get(f"{LIVE_SECONDS}{bound:g}", 0) for bound in (*LIVE_BOUNDS, math.inf)}
    return Histogram.of(counts, totals.get(LIVE_MS, 0) / 1000, LIVE_BOUNDS)
