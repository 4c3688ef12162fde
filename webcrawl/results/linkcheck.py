"""Which links of a crawl's pages are broken, from what the crawl has stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.values import printable
from webcrawl.results.references import Anchors, place, references
from webcrawl.results.rewriting import loaded
from webcrawl.stores.locations import Row
from webcrawl.stores.stored_pages import StoredPages
from webcrawl.urls.canonical import Canonicalizer

BROKEN = ("missing", "refused", "broken", "failed", "anchor")
"""Problems that somebody has to mend. "redirect" is a good link with an old address, of "unchecked" nobody knows."""

_MOST_REFERRERS = 50
_MOST_HOPS = 10
_PERMANENT = (301, 308)
# Refused on our side: by robots.txt, or by the address guard.
_NOT_ASKED = ("IgnoreRequest", "RequestRefused")
# Addresses within a program, not places in a page.
_ROUTES = ("!", "/")


@dataclass
class Problem:
    """A link that leads nowhere, or not straight.

    `problem` is missing (404, 410), refused (other 4xx), broken (5xx), failed (no answer), anchor (the page has no such
    place), redirect (for good, to `target`) or unchecked. `status` and `error` are those of the last hop.
    """

    url: str
    problem: str
    status: int | None = None
    error: str | None = None
    target: str | None = None
    anchor: str | None = None
    referrers: list[str] = field(default_factory=list)
    links: int = 0
    """Pages that link to it, of which `referrers` names the first fifty."""


def problems(
    stored: StoredPages,
    inside: Callable[[str], bool],
    canonicalizer: Canonicalizer,
    seeds: Iterable[str] = (),
    lost: Mapping[str, str] | None = None,
    crawl: str | None = None,
) -> Iterator[Problem]:
    """The problems of all links in the pages that are `inside`, and of the seeds, in the order of their URLs.

    `lost`: of URLs that were given up, the reasons. One that has no page has failed for that. Of pages that are not in
    the archive, what `crawl` asked for because of them is told. Raises StoreError when an archived page cannot be read.
    """
    links = _Links(stored, canonicalizer, lost or {})
    targets = {url: links.judged(url) for url in seeds}
    wanted: dict[tuple[str, str], Problem] = {}
    read: set[str] = set()
    for row in stored.rows():
        if row["status"] != 200 or not _has_links(row) or not inside(row["url"]):
            continue
        document = stored.document(row)
        if document is None or document.refused is not None:
            continue
        read.add(row["url"])
        found = _addresses(document)
        for url in {url: None for url, _ in found}:
            if url not in targets:
                targets[url] = links.judged(url)
            if problem := targets[url]:
                _add(problem, row["url"])
        for url, fragment in found:
            if fragment and not fragment.startswith(_ROUTES):
                one = wanted.setdefault(
                    (url, fragment), Problem(url, "anchor", 200, anchor=unquote(fragment))
                )
                _add(one, row["url"])
    for url, referrer in _found_elsewhere(stored, crawl, inside):
        if url in targets and referrer in read:
            continue
        if url not in targets:
            targets[url] = links.judged(url)
        if problem := targets[url]:
            _add(problem, referrer)
    broken = [problem for problem in targets.values() if problem is not None]
    broken += _without_place(links, wanted, inside)
    yield from sorted(broken, key=lambda problem: (problem.url, problem.anchor or ""))


def write(found: Iterable[Problem]) -> Iterator[str]:
    """Problems as JSON lines."""
    for problem in found:
        known = {name: value for name, value in asdict(problem).items() if value is not None}
        yield json.dumps(known, ensure_ascii=False)


def table(found: Iterable[Problem]) -> str:
    """What a person reads: broken links with the pages on which they are, then how many there are of each kind."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    for problem in found:
        counts[problem.problem] += 1
        if problem.problem == "unchecked":
            continue
        place = f"#{problem.anchor}" if problem.anchor else ""
        why = problem.error or (problem.status if problem.status != 200 else "no such place") or ""
        target = f" -> {problem.target}" if problem.target else ""
        lines.append(f"{problem.problem:9} {problem.url}{place}{target}  ({why})")
        lines += [f"{'':9}   on {referrer}" for referrer in problem.referrers[:3]]
        if problem.links > 3:
            lines.append(f"{'':9}   and on {problem.links - 3:,} more pages")
    told = ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items()))
    return "\n".join([*map(printable, lines), f"Links: {told or 'all are good'}."])


def _add(problem: Problem, referrer: str) -> None:
    problem.links += 1
    if len(problem.referrers) < _MOST_REFERRERS:
        problem.referrers.append(referrer)


def _has_links(row: Row) -> bool:
    return is_html(row["mime_type"]) or row["mime_type"] == "text/css"


def _found_elsewhere(
    stored: StoredPages, crawl: str | None, inside: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """The URLs of a crawl that may be a problem, with the page where each was found first.

    So those are told that no archived page has: pages that say noarchive or noindex, documents that are no HTML,
    `Link:` headers. What a redirect led to is left out: it is the redirect that was found.
    """
    for row in stored.rows():
        referrer = row["referrer"]
        if row["crawl"] != crawl or not (row["state"] in BROKEN or row["state"] == "redirected"):
            continue
        if referrer is not None and inside(referrer):
            by = stored.get(referrer)
            if by is None or by["state"] != "redirected":
                yield row["url"], referrer


def _addresses(document: Document) -> dict[tuple[str, str], None]:
    """What a page or a style sheet leads to or loads: URLs with the places in them that are meant, each once."""
    found: dict[tuple[str, str], None] = {}
    if is_html(document.mime_type):
        found = {(one.url, place(one.fragment)): None for one in references(document) if one.use != "named"}
    return found | {(url, ""): None for url in loaded(document)}


class _Links:
    """What has become of the URLs that links lead to."""

    def __init__(self, stored: StoredPages, canonicalizer: Canonicalizer, lost: Mapping[str, str]) -> None:
        self.stored = stored
        self._canonicalizer = canonicalizer
        self._lost = lost

    def judged(self, url: str) -> Problem | None:
        """What is wrong with a URL, followed through its redirects; None when it is good."""
        rows, last = self._hops(url)
        if last is not None:
            if (
                reason := self._lost.get(last) or self._lost.get(self._canonicalizer.canonical(last))
            ) is None:
                return Problem(url, "unchecked")
            return Problem(url, "failed", error=reason, target=last if rows else None)
        first, row = rows[0], rows[-1]
        target = row["url"] if row["url"] != first["url"] else None
        facts: dict[str, Any] = {"status": row["status"], "error": row["error"], "target": target}
        if row["state"] in BROKEN:
            asked = not str(row["error"] or "").startswith(_NOT_ASKED)
            return Problem(url, row["state"] if asked else "unchecked", **facts)
        if row["state"] == "redirected":
            return Problem(url, "broken", **(facts | {"error": "redirects without end, or to no URL"}))
        if target and first["status"] in _PERMANENT:
            return Problem(url, "redirect", first["status"], target=target)
        return None

    def opened(self, url: str) -> Row | None:
        """The page at whose places a URL's fragments lead; None where there is none, or a redirect has its own."""
        rows, last = self._hops(url)
        if last is not None or any("#" in (self.stored.location(row) or "#") for row in rows[:-1]):
            return None
        return rows[-1]

    def anchors(self, row: Row) -> Anchors | None:
        """The places in a page; None where there may be others: cut off, simplified, refused or not in the archive."""
        document = None if row["truncated"] else self.stored.document(row)
        if document is None or document.refused is not None or document.simplified:
            return None
        return Anchors(document)

    def _hops(self, url: str) -> tuple[list[Row], str | None]:
        """The rows of a URL and of those it redirects to, and the one of them that has no row, if any."""
        rows: list[Row] = []
        while len(rows) <= _MOST_HOPS:
            if (row := self._row(url)) is None:
                return rows, url
            rows.append(row)
            if row["state"] != "redirected" or row["final_url"] == row["url"]:
                break
            url = row["final_url"]
        return rows, None

    def _row(self, url: str) -> Row | None:
        """The row of a URL, or of the same page under its canonical form."""
        row = self.stored.get(url)
        if row is None and (canonical := self._canonicalizer.canonical(url)) != url:
            row = self.stored.get(canonical)
        return row


def _without_place(
    links: _Links, wanted: dict[tuple[str, str], Problem], inside: Callable[[str], bool]
) -> Iterator[Problem]:
    """Of the places in pages that links lead to, those that are not there; of pages outside, only the start is read."""
    known: tuple[str, str | None, Anchors | None] | None = None
    for (url, fragment), problem in sorted(wanted.items(), key=lambda item: item[0]):
        if known is None or known[0] != url:
            row = links.opened(url)
            is_page = (
                row is not None and row["status"] == 200 and is_html(row["mime_type"]) and inside(row["url"])
            )
            target = row["url"] if row is not None and row["url"] != url else None
            known = (url, target, links.anchors(row) if row is not None and is_page else None)
        _, problem.target, anchors = known
        if anchors is not None and fragment not in anchors:
            yield problem
