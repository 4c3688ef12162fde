"""Finds the changes of a site between two runs of a crawl with the same stores."""

from __future__ import annotations

import difflib
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.payload import unchanged_since
from webcrawl.errors import printable
from webcrawl.links.questions import Opener, links_known, pages_among
from webcrawl.results.versions import UNREACHABLE, Versions
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import StoredFetch

_MOST_LINES = 5_000
_MOST_DIFFERENCES = 200
_SHOWN = 6
_MOST_REFERRERS = 50
_EVER = datetime.min.replace(tzinfo=UTC)
_NONE: Mapping[str, list[str]] = {}
# types with human-readable text
_TEXTS = ("text/", "application/json", "application/xml")
# the separator of text blocks, a character that pages do not contain
_BETWEEN = "\x1e"
_UNSEEN = "script,style,noscript,template"


@dataclass
class PageChange:
    """The change of a page since the last finished run.

    `change` is new, changed, unchanged, gone (404, 410, a redirect to `target`, or no page links to it any more),
    unlinked (no page links to it by the link store; `referrers` has the first fifty pages that did), unreachable
    (another 4xx, 5xx or no response) or unseen (not fetched, nor were pages that may link to it). `diff` has at most
    200 lines of a unified diff of the text; None if there is no text to compare. Times are ISO 8601.
    """

    url: str
    change: str
    status: int | None = None
    fetched_at: str | None = None
    before: str | None = None
    target: str | None = None
    error: str | None = None
    diff: list[str] | None = None
    referrers: list[str] | None = None


class MonitorRun(NamedTuple):
    """A run of the crawl that began at `since`, over the URLs that are `inside`.

    `finished` has the begin and end of each earlier finished run, in order: fetches of other runs have not been
    reported. A page that is no longer fetched is reported if it was fetched since `watched`. `lost`: the dead letters
    of the run; None if URLs are left in the frontier. `differing`: the settings for the choice of pages that differ
    from the last finished run. `cut`: whether there were links beyond DEPTH_LIMIT.
    """

    since: datetime
    inside: Callable[[str], bool]
    finished: Sequence[tuple[datetime, datetime]] = ()
    watched: datetime | None = None
    lost: Collection[str] | None = ()
    cut: bool = False
    differing: Sequence[str] = ()

    @property
    def last(self) -> datetime | None:
        """The time at which the last finished run began."""
        return self.finished[-1][0] if self.finished else None

    def before(self, stored: Versions, url: str) -> StoredFetch | None:
        """Returns the version of a page that the finished runs last reported; None if the page did not exist."""
        last = stored.last(url, self.since, self._was_reported)
        return last if last is not None and last.status == 200 else None

    def watched_next(self, doubt: str) -> datetime:
        """Returns `watched` for the next run: `since` if all missing pages were reported or settings changed."""
        return self.watched if doubt and not self.differing and self.watched else self.since

    def _was_reported(self, moment: datetime) -> bool:
        number = bisect_right(self.finished, moment, key=itemgetter(0))
        return number > 0 and moment <= self.finished[number - 1][1]


def changes(
    stored: Versions, run: MonitorRun, doubt: str, unlinked: Mapping[str, list[str]] = _NONE
) -> Iterator[PageChange]:
    """Yields the changes of all pages that are inside, sorted by URL; `doubt` is the result of `doubt_of`.

    `unlinked`: pages to which no page links any more, with the pages that did.
    """
    for row in stored.rows():
        if not run.inside(row["url"]):
            continue
        not_fetched = is_not_fetched(row, run.since)
        referrers = unlinked.get(row["url"])
        if (
            change := _untried(stored, row, run, doubt, referrers)
            if not_fetched
            else _change(stored, row, run)
        ):
            yield change


def doubt_of(stored: Versions, run: MonitorRun) -> str:
    """Returns why a page that was not fetched may still be linked; "" if no page can link to it."""
    if run.differing:
        return f"visited with another {' and '.join(run.differing)}"
    if run.lost is None or any(is_not_fetched(stored.get(url), run.since) for url in run.lost):
        return "not all pages were reached"
    if any(is_lost(stored, row, run.since) for row in stored.rows() if run.inside(row["url"])):
        return "not all pages were reached"
    return "links beyond DEPTH_LIMIT are not followed" if run.cut else ""


def write(changes: Iterable[PageChange]) -> Iterator[str]:
    """Yields changes as JSON lines."""
    for change in changes:
        known = {name: value for name, value in asdict(change).items() if value is not None}
        yield json.dumps(known, ensure_ascii=False)


class ChangeReport:
    """A report for people: a few lines for each change, and a count of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def lines(self, change: PageChange) -> list[str]:
        self.counts[change.change] += 1
        if change.change == "unchanged":
            return []
        why = change.target or change.error or (change.status if change.status != 200 else "")
        lines = [f"{change.change:11} {change.url}" + (f"  ({why})" if why else "")]
        differences = [line for line in (change.diff or [])[2:] if line.startswith(("+", "-"))]
        lines += [f"{'':11}   {line[:150]}" for line in differences[:_SHOWN]]
        lines += [f"{'':11}   was linked from {url}" for url in (change.referrers or ())[:_SHOWN]]
        lines += [f"{'':11}   ..."] if len(differences) > _SHOWN else []
        return [printable(line) for line in lines]

    @property
    def total(self) -> str:
        return ", ".join(f"{number:,} {kind}" for kind, number in sorted(self.counts.items())) or "no pages"


def is_not_fetched(row: Row | None, since: datetime) -> bool:
    """Returns whether a run that began at `since` did not try a known page."""
    return row is not None and _tried_at(row) < since


def _tried_at(row: Row) -> datetime:
    tried_at: datetime = row["tried_at"] or row["fetched_at"]
    return tried_at


def is_lost(stored: Versions, row: Row, since: datetime) -> bool:
    """Returns whether this run could not fetch a page that existed and may link to other pages."""
    if row["state"] not in UNREACHABLE or is_not_fetched(row, since) or row["first_fetched_at"] >= since:
        return False
    answers = stored.answers(row["url"], since)
    return bool(answers) and (answers[-1].status or 0) < 400


def _untried(
    stored: Versions, row: Row, run: MonitorRun, doubt: str, referrers: list[str] | None
) -> PageChange | None:
    """Returns the change of a page that this run did not fetch; reports doubts only once."""
    since = run.last if doubt else run.watched
    if since is None or _tried_at(row) < since or run.before(stored, row["url"]) is None:
        return None
    facts: dict[str, Any] = {"status": row["status"], "fetched_at": row["fetched_at"].isoformat()}
    if referrers is not None:
        first_referrers = referrers[:_MOST_REFERRERS]
        return PageChange(
            row["url"], "unlinked", **facts, error="no page links to it any more", referrers=first_referrers
        )
    kind, why = ("unseen", doubt) if doubt else ("gone", "no page leads to it")
    return PageChange(row["url"], kind, **facts, error=why)


def _change(stored: Versions, row: Row, run: MonitorRun) -> PageChange | None:
    """Returns the change of a page that this run fetched; None if it did not exist before and does not exist now."""
    before = run.before(stored, row["url"])
    facts: dict[str, Any] = {"status": row["status"], "fetched_at": row["fetched_at"].isoformat()}
    is_here = row["status"] == 200 and row["state"] not in UNREACHABLE
    if before is None:
        return PageChange(row["url"], "new", **facts) if is_here else None
    if is_here and row["digest"] == before.digest:
        return PageChange(row["url"], "unchanged", **facts)
    facts["before"] = before.fetched_at.isoformat()
    if is_here:
        return _compared(stored, row, before, facts)
    if row["state"] in UNREACHABLE:
        return PageChange(row["url"], "unreachable", **facts, error=row["error"])
    target = row["final_url"] if row["state"] == "redirected" else None
    return PageChange(row["url"], "gone", **facts, target=target)


def _compared(stored: Versions, row: Row, before: StoredFetch, facts: dict[str, Any]) -> PageChange:
    """Returns the change of a page with different bytes; unchanged if its text is the same."""
    new = _lines(stored.version(row))
    old = _lines(stored.version(before.row(row["url"])))
    if new is None or old is None:
        return PageChange(row["url"], "changed", **facts)
    if new == old:
        return PageChange(row["url"], "unchanged", **facts)
    diff = difflib.unified_diff(old, new, facts["before"], facts["fetched_at"], lineterm="", n=1)
    return PageChange(row["url"], "changed", **facts, diff=list(islice(diff, _MOST_DIFFERENCES)))


def _lines(document: Document | None) -> list[str] | None:
    """Returns the text of a page, one line for each block; None if it has no text."""
    if document is None or document.refused is not None:
        return None
    if not is_html(document.mime_type):
        readable = document.mime_type.startswith(_TEXTS)
        return document.text.splitlines()[:_MOST_LINES] if readable else None
    tree = document.html
    for node in tree.css(_UNSEEN):
        node.decompose()
    text = tree.body.text(separator=_BETWEEN) if tree.body is not None else ""
    lines = (" ".join(line.split()) for line in text.split(_BETWEEN))
    return list(islice(filter(None, lines), _MOST_LINES))


def unlinked(stored: Versions, run: MonitorRun, files: Sequence[Opener]) -> dict[str, list[str]]:
    """Returns the pages that were not fetched and are not linked any more, with the sorted pages that linked to them.

    A page that a run did not fetch is still linked if another page had the link in its last response, and the run
    tried the other page or the other page is itself linked in this way.

    Pages to which no link is known are left out. The result is empty if there may be another way to the pages: other
    settings, URLs that are still queued, or a page that could not be fetched and whose links are not stored.
    """
    if run.differing or run.lost is None:
        return {}
    missing: set[str] = set()
    answered: dict[str, datetime] = {}
    leads: defaultdict[str, set[str]] = defaultdict(set)
    lost = []
    for row in stored.rows():
        if not run.inside(row["url"]):
            continue
        answered[row["url"]] = _unchanged_since(stored, row, run.since)
        if is_not_fetched(row, run.since):
            missing.add(row["url"])
        elif is_lost(stored, row, run.since):
            lost.append(row["url"])
        if row["final_url"] != row["url"]:
            leads[row["url"]].add(row["final_url"])
    if len(pages_among(files, lost)) < len(lost):
        return {}
    before: defaultdict[str, set[str]] = defaultdict(set)
    for link in links_known(files, sorted(missing)):
        before[link.url].add(link.page)
        if link.time >= answered.get(link.page, run.since):
            leads[link.page].add(link.url)
    still = _reached(leads, leads.keys() - missing)
    return {url: sorted(before[url]) for url in missing - still if url in before}


def _unchanged_since(stored: Versions, row: Row, since: datetime) -> datetime:
    """Returns a time from which on stored links are those of a page's last response with links.

    An error does not mean that the links are gone.
    """
    answers = stored.answers(row["url"], since) if row["state"] in UNREACHABLE else []
    if not answers:
        return unchanged_since(row)
    # the link store has the links of unchanged contents once
    moment = answers[-1].fetched_at
    for answer in reversed(answers):
        if answer.digest != answers[-1].digest:
            return moment
        moment = answer.fetched_at
    return _EVER


def _reached(leads: dict[str, set[str]], starts: Iterable[str]) -> set[str]:
    """Returns the pages that can be reached from `starts`."""
    reached: set[str] = set()
    todo = list(starts)
    while todo:
        new = leads.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached
