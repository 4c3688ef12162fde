"""What has changed on a site between two runs of a crawl over the same stores."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from webcrawl.document import Document
from webcrawl.errors import StoreError
from webcrawl.mime.html import is_html
from webcrawl.plain import shown
from webcrawl.stored import StoredPages
from webcrawl.stores.metadata import Fetch
from webcrawl.stores.places import Row
from webcrawl.stores.warc import WarcPlace

_MOST_LINES = 5_000
_MOST_DIFFERENCES = 200
_SHOWN = 6
# The text of other types is none that a person reads.
_TEXTS = ("text/", "application/json", "application/xml")
_UNREACHABLE = ("refused", "broken", "failed")
# Between pieces of text: no page has it, and line ends within a piece mean nothing.
_BETWEEN = "\x1e"
_UNSEEN = "script,style,noscript,template"


@dataclass
class Change:
    """What became of a page since the run before.

    `change` is new, changed, unchanged, gone (404, 410, a redirect to `target`, or no page leads to it any more),
    unreachable (another 4xx, 5xx, no answer: nothing is known) or unseen (nobody asked for it, and pages that may lead
    to it were not reached, or not looked for, either). `diff` are the lines of a unified diff of its text, at most 200;
    None where there is no text to compare. Times are ISO 8601.
    """

    url: str
    change: str
    status: int | None = None
    fetched_at: str | None = None
    before: str | None = None
    target: str | None = None
    error: str | None = None
    diff: list[str] | None = None


class Run(NamedTuple):
    """A run of the crawl, begun at `since`, over the URLs that are `inside`.

    `last` is when the run before began, None for the first; what was gone by then is not told of again. `lost` are the
    URLs that the run gave up, None when it left others behind. `differing` names the settings that were others in the
    run before, of those that decide which pages are visited. `cut`: there were links beyond DEPTH_LIMIT.
    """

    since: datetime
    last: datetime | None
    inside: Callable[[str], bool]
    lost: Collection[str] | None = ()
    cut: bool = False
    differing: Sequence[str] = ()


def changes(stored: StoredPages, run: Run) -> Iterator[Change]:
    """The pages that are inside, in the order of their URLs: what a run found of them."""
    doubt = _doubt(stored, run)
    for row in stored.rows():
        if not run.inside(row["url"]):
            continue
        unasked = _is_unasked(row, run.since)
        if change := _untried(row, run.last, doubt) if unasked else _change(stored, row, run.since):
            yield change


def _doubt(stored: StoredPages, run: Run) -> str:
    """Why a page that nobody asked for may be linked all the same; "" when it cannot be."""
    if run.differing:
        return f"visited with another {' and '.join(run.differing)}"
    if run.lost is None or any(_is_unasked(stored.get(url), run.since) for url in run.lost):
        return "not all pages were reached"
    if any(_is_lost(stored, row, run.since) for row in stored.rows() if run.inside(row["url"])):
        return "not all pages were reached"
    return "links beyond DEPTH_LIMIT are not followed" if run.cut else ""


def write(found: Iterable[Change]) -> Iterator[str]:
    """Changes as JSON lines."""
    for change in found:
        known = {name: value for name, value in asdict(change).items() if value is not None}
        yield json.dumps(known, ensure_ascii=False)


class Told:
    """What a person reads: a few lines for each change as it comes, and how many there were of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def lines(self, change: Change) -> list[str]:
        self.counts[change.change] += 1
        if change.change == "unchanged":
            return []
        why = change.target or change.error or (change.status if change.status != 200 else "")
        lines = [f"{change.change:11} {change.url}" + (f"  ({why})" if why else "")]
        differences = [line for line in change.diff or () if line.startswith(("+", "-"))]
        lines += [f"{'':11}   {line[:150]}" for line in differences[:_SHOWN]]
        lines += [f"{'':11}   ..."] if len(differences) > _SHOWN else []
        return [shown(line) for line in lines]

    @property
    def total(self) -> str:
        return ", ".join(f"{number:,} {kind}" for kind, number in sorted(self.counts.items())) or "no pages"


def _is_unasked(row: Row | None, since: datetime) -> bool:
    return row is not None and (row["tried_at"] or row["fetched_at"]) < since


def _is_lost(stored: StoredPages, row: Row, since: datetime) -> bool:
    """Whether there were contents, which may have led to other pages, and this run could not see them."""
    if row["state"] not in _UNREACHABLE or _is_unasked(row, since) or row["first_fetched_at"] >= since:
        return False
    before = _before(stored, row["url"], since)
    return before is not None and before.status is not None and before.status < 400


def _untried(row: Row, last: datetime | None, doubt: str) -> Change | None:
    """A page that the run before knew and this one did not ask for."""
    if last is None or (row["tried_at"] or row["fetched_at"]) < last or row["status"] != 200:
        return None
    kind, why = ("unseen", doubt) if doubt else ("gone", "no page leads to it")
    return Change(row["url"], kind, row["status"], row["fetched_at"].isoformat(), error=why)


def _change(stored: StoredPages, row: Row, since: datetime) -> Change | None:
    facts: dict[str, Any] = {"status": row["status"], "fetched_at": row["fetched_at"].isoformat()}
    if row["state"] == "unchanged":
        return Change(row["url"], "unchanged", **facts)
    if row["first_fetched_at"] >= since:
        return Change(row["url"], "new", **facts) if row["status"] == 200 else None
    if row["state"] == "failed":
        return (
            Change(row["url"], "unreachable", **facts, error=row["error"]) if row["status"] == 200 else None
        )
    if row["status"] == 200 and (row["changed_at"] is None or row["changed_at"] < since):
        return Change(row["url"], "unchanged", **facts)
    before = _before(stored, row["url"], since)
    if before is None or before.status != 200:
        return Change(row["url"], "new", **facts) if row["status"] == 200 else None
    facts["before"] = before.fetched_at.isoformat()
    if row["status"] == 200:
        return _compared(stored, row, before, facts)
    target = row["final_url"] if row["state"] == "redirected" else None
    kind = "unreachable" if row["state"] in _UNREACHABLE else "gone"
    return Change(row["url"], kind, **facts, target=target)


def _before(stored: StoredPages, url: str, since: datetime) -> Fetch | None:
    """The last answer with contents before this run."""
    earlier = [
        fetch
        for fetch in stored.metadata.history(url)
        if fetch.fetched_at < since and fetch.status not in (None, 304)
    ]
    return earlier[-1] if earlier else None


def _compared(stored: StoredPages, row: Row, before: Fetch, facts: dict[str, Any]) -> Change:
    """A page whose bytes are others; unchanged all the same when its text is what it was."""
    new = _lines(row, stored.document(row))
    old = _lines(row, _document_of(stored, row, before))
    if new is None or old is None:
        return Change(row["url"], "changed", **facts)
    if new == old:
        return Change(row["url"], "unchanged", **facts)
    diff = difflib.unified_diff(old, new, facts["before"], facts["fetched_at"], lineterm="", n=1)
    return Change(row["url"], "changed", **facts, diff=list(islice(diff, _MOST_DIFFERENCES)))


def _document_of(stored: StoredPages, row: Row, fetch: Fetch) -> Document | None:
    if fetch.warc_file is None or fetch.warc_offset is None or fetch.warc_length is None:
        return None
    try:
        return stored.document_at(row, WarcPlace(fetch.warc_file, fetch.warc_offset, fetch.warc_length))
    except (StoreError, ValueError, EOFError, OSError):
        return None


def _lines(row: Row, document: Document | None) -> list[str] | None:
    """The text of a page, a line for each piece that stands by itself; None where there is none."""
    if document is None or document.refused is not None:
        return None
    if not is_html(row["mime_type"]):
        readable = (row["mime_type"] or "").startswith(_TEXTS)
        return document.text.splitlines()[:_MOST_LINES] if readable else None
    tree = document.html
    for node in tree.css(_UNSEEN):
        node.decompose()
    text = tree.body.text(separator=_BETWEEN) if tree.body is not None else ""
    lines = (" ".join(line.split()) for line in text.split(_BETWEEN))
    return list(islice(filter(None, lines), _MOST_LINES))
