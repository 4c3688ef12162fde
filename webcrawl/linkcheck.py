"""Which links of a crawl's pages are broken, from what the crawl has stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from webcrawl.mime.html import is_html
from webcrawl.plain import shown
from webcrawl.references import anchors, references
from webcrawl.stored import StoredPages
from webcrawl.stores.places import Row
from webcrawl.urls import Canonicalizer

BROKEN = ("missing", "refused", "broken", "failed", "anchor")
"""Problems that somebody has to mend. "redirect" is a good link with an old address, of "unchecked" nobody knows."""

_MOST_REFERRERS = 50
_MOST_HOPS = 10
_PERMANENT = (301, 308)
# Refused on our side: by robots.txt, or by the address guard.
_NOT_ASKED = ("IgnoreRequest", "RequestRefused")
# Addresses within a program, not places in a page.
_ROUTES = ("!", "/", ":~:")


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
) -> Iterator[Problem]:
    """The problems of all links in the pages that are `inside`, and of the seeds, in the order of their URLs."""
    targets = {url: _judged(stored, url, canonicalizer) for url in seeds}
    wanted: dict[tuple[str, str], Problem] = {}
    for row in stored.rows():
        if row["status"] != 200 or not is_html(row["mime_type"]) or not inside(row["url"]):
            continue
        document = stored.document(row)
        if document is None:
            continue
        for url, fragment in {(one.url, one.fragment): None for one in references(document)}:
            if url not in targets:
                targets[url] = _judged(stored, url, canonicalizer)
            if problem := targets[url]:
                _add(problem, row["url"])
            if fragment and not fragment.startswith(_ROUTES):
                place = wanted.setdefault((url, fragment), Problem(url, "anchor", 200, anchor=fragment))
                _add(place, row["url"])
    found = [problem for problem in targets.values() if problem is not None]
    found += _without_place(stored, wanted, inside)
    yield from sorted(found, key=lambda problem: (problem.url, problem.anchor or ""))


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
    return "\n".join([*map(shown, lines), f"Links: {told or 'all are good'}."])


def _add(problem: Problem, referrer: str) -> None:
    problem.links += 1
    if len(problem.referrers) < _MOST_REFERRERS:
        problem.referrers.append(referrer)


def _row(stored: StoredPages, url: str, canonicalizer: Canonicalizer) -> Row | None:
    """The row of a URL, or of the same page under its canonical form."""
    row = stored.get(url)
    if row is None and (canonical := canonicalizer.canonical(url)) != url:
        row = stored.get(canonical)
    return row


def _judged(stored: StoredPages, url: str, canonicalizer: Canonicalizer) -> Problem | None:
    """What is wrong with a URL, followed through its redirects; None when it is good."""
    first = row = _row(stored, url, canonicalizer)
    for _ in range(_MOST_HOPS):
        if row is None or row["state"] != "redirected" or row["final_url"] == row["url"]:
            break
        row = _row(stored, row["final_url"], canonicalizer)
    if first is None or row is None:
        return Problem(url, "unchecked")
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


def _without_place(
    stored: StoredPages, wanted: dict[tuple[str, str], Problem], inside: Callable[[str], bool]
) -> Iterator[Problem]:
    """Of the places in pages that links lead to, those that are not there; of pages outside, only the start is read."""
    known: tuple[str, set[str]] | None = None
    for url, fragment in sorted(wanted):
        if known is None or known[0] != url:
            row = stored.get(url)
            is_page = row is not None and row["status"] == 200 and is_html(row["mime_type"]) and inside(url)
            document = stored.document(row) if row is not None and is_page else None
            known = (url, anchors(document) if document else {fragment for _, fragment in wanted})
        if fragment not in known[1]:
            yield wanted[url, fragment]
