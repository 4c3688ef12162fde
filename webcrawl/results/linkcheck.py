"""Finds the broken links of a crawl from its metadata and archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.page import WANTS_COOKIES
from webcrawl.errors import printable
from webcrawl.links.questions import Opener, links_now
from webcrawl.results.references import PageAnchors, base_of, references, without_directive
from webcrawl.results.rewriting import loaded
from webcrawl.results.variants import Variants
from webcrawl.stores.locations import Row
from webcrawl.stores.stored_pages import StoredPages

BROKEN = ("missing", "refused", "broken", "failed", "anchor")
"""The problems to fix. A link with the problem "redirect" works but has an old address; "unchecked" was not fetched."""

_MOST_REFERRERS = 50
_MOST_HOPS = 10
_PERMANENT = (301, 308)
# requests that were not sent, because of robots.txt or the address guard
_NOT_ASKED = ("IgnoreRequest", "RequestRefused")
# prefixes of fragments that are routes of a script instead of anchors
_ROUTES = ("!", "/")


@dataclass
class Problem:
    """A link that is broken or redirected.

    `problem` is missing (404, 410), refused (other 4xx), broken (5xx), failed (no response), anchor (the page has no
    such anchor), redirect (permanently, to `target`) or unchecked. `status` and `error` belong to the last hop.
    """

    url: str
    problem: str
    status: int | None = None
    error: str | None = None
    target: str | None = None
    anchor: str | None = None
    referrers: list[str] = field(default_factory=list)
    links: int = 0
    """The number of pages with the link. `referrers` has the first fifty pages, or all pages if links are stored."""
    texts: list[dict[str, str | None]] | None = None
    """The pages with the link and the text of each link, from the link store: `page` and `text`."""


def problems(
    stored: StoredPages,
    inside: Callable[[str], bool],
    variants: Variants,
    seeds: Iterable[str] = (),
    lost: Mapping[str, str] | None = None,
    crawl: str | None = None,
    links: Sequence[Opener] | None = None,
) -> Iterator[Problem]:
    """Yields the problems of the seeds and of all links in pages that are `inside`, sorted by URL.

    Only rows that `crawl` tried last count, because other crawls may share the database; None for all rows. `lost`
    maps dead letters to their reasons: a URL without a row failed for this reason. For pages that are not archived,
    uses the URLs that the crawl fetched because of them, and their links in the files of the link store (`links`).
    `variants` gets the URLs of these rows. Raises StoreError if an archived page or a file of links cannot be read.
    """
    most = None if links else _MOST_REFERRERS
    variants.add(row["url"] for row in stored.rows(crawl))
    variants.add(lost or ())
    check = _LinkCheck(stored, inside, _Targets(stored, variants, lost or {}, crawl), crawl, most)
    for url in seeds:
        check.problem_of(url)
    check.read_pages()
    check.read_rows()
    if links:
        check.read_links(links)
    yield from sorted(check.all_problems(), key=lambda problem: (problem.url, problem.anchor or ""))


class _LinkCheck:
    """Collects the problems of links, and the pages with each link."""

    def __init__(
        self,
        stored: StoredPages,
        inside: Callable[[str], bool],
        targets: _Targets,
        crawl: str | None,
        most: int | None,
    ) -> None:
        """Keeps at most `most` referrers of each problem; None for all."""
        self._most = most
        self._crawl = crawl
        self._stored = stored
        self._inside = inside
        self._targets = targets
        self._problems: dict[str, Problem | None] = {}
        """The problems by URL; None for a good link."""
        self._fragments: dict[tuple[str, str], Problem] = {}
        """By URL and fragment, the problem to report if the page does not have the anchor."""
        self._read: set[str] = set()
        """The pages whose links were read from the archive."""

    def problem_of(self, url: str) -> Problem | None:
        if url not in self._problems:
            self._problems[url] = self._targets.problem_of(url)
        return self._problems[url]

    def read_pages(self) -> None:
        """Checks the links of all archived pages and style sheets."""
        for row in self._stored.rows(self._crawl):
            if row["status"] != 200 or not _has_links(row) or not self._inside(row["url"]):
                continue
            document = self._stored.document(row)
            if document is not None and document.refused is None:
                self._read.add(row["url"])
                self._add_links(document, row["url"])

    def _add_links(self, document: Document, referrer: str) -> None:
        links = _links_of(document)
        for url in {url: None for url, _ in links}:
            if problem := self.problem_of(url):
                self._add(problem, referrer)
        for url, fragment in links:
            if fragment and not fragment.startswith(_ROUTES):
                missing = Problem(url, "anchor", 200, anchor=unquote(fragment))
                self._add(self._fragments.setdefault((url, fragment), missing), referrer)

    def read_rows(self) -> None:
        """Adds URLs that the crawl found on pages that are not archived.

        These are pages with noarchive or noindex, documents other than HTML, and `Link:` headers.
        """
        for row in self._stored.rows(self._crawl):
            url, referrer = row["url"], row["referrer"]
            is_problem = row["state"] in BROKEN or row["state"] == "redirected"
            if not is_problem or referrer is None or not self._inside(referrer):
                continue
            by = self._stored.get(referrer)
            # the target of a redirect is not reported: the redirect is
            if by is not None and by["state"] == "redirected":
                continue
            if url in self._problems and referrer in self._read:
                continue
            if problem := self.problem_of(url):
                self._add(problem, referrer)

    def read_links(self, files: Sequence[Opener]) -> None:
        """Adds the texts of links, and pages that are not archived, from the link store."""
        known = {url: problem for url, problem in self._problems.items() if problem is not None}
        pages = {url: set(problem.referrers) for url, problem in known.items()}
        for page, links in groupby(links_now(files, sorted(known), self._stored.get), lambda link: link.page):
            if not self._inside(page):
                continue
            # the target of a redirect is not reported: the redirect is
            targets = ((link.url, link.text) for link in links if link.element != "redirect")
            for url, text in dict.fromkeys(targets):
                problem = known[url]
                problem.texts = problem.texts or []
                problem.texts.append({"page": page, "text": text})
                if page not in pages[url]:
                    pages[url].add(page)
                    self._add(problem, page)

    def _add(self, problem: Problem, referrer: str) -> None:
        problem.links += 1
        if self._most is None or len(problem.referrers) < self._most:
            problem.referrers.append(referrer)

    def all_problems(self) -> Iterator[Problem]:
        """Yields all problems, in any order."""
        yield from (problem for problem in self._problems.values() if problem is not None)
        by_url = groupby(sorted(self._fragments.items(), key=lambda item: item[0]), lambda item: item[0][0])
        for url, wanted in by_url:
            target, anchors = self._anchors_of(url)
            for (_, fragment), problem in wanted:
                problem.target = target
                if anchors is not None and fragment not in anchors:
                    yield problem

    def _anchors_of(self, url: str) -> tuple[str | None, PageAnchors | None]:
        """Returns the target of a URL's redirects, if any, and the anchors of the page; None for unknown anchors."""
        row = self._targets.page_of(url)
        if row is None:
            return None, None
        target = row["url"] if row["url"] != url else None
        # pages outside the scope may be truncated
        is_page = row["status"] == 200 and is_html(row["mime_type"]) and self._inside(row["url"])
        return target, self._targets.anchors(row) if is_page else None


def write(problems: Iterable[Problem]) -> Iterator[str]:
    """Yields problems as JSON lines."""
    for problem in problems:
        known = {name: value for name, value in asdict(problem).items() if value is not None}
        yield json.dumps(known, ensure_ascii=False)


def table(problems: Iterable[Problem]) -> str:
    """Returns a report for people: problems with their referrers, then a count of each kind."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    for problem in problems:
        counts[problem.problem] += 1
        if problem.problem == "unchecked":
            continue
        fragment = f"#{problem.anchor}" if problem.anchor else ""
        why = problem.error or (problem.status if problem.status != 200 else "no such anchor") or ""
        target = f" -> {problem.target}" if problem.target else ""
        lines.append(f"{problem.problem:9} {problem.url}{fragment}{target}  ({why})")
        texts = {text["page"]: text["text"] for text in problem.texts or ()}
        for referrer in problem.referrers[:3]:
            words = f"  {json.dumps(texts[referrer], ensure_ascii=False)}" if texts.get(referrer) else ""
            lines.append(f"{'':9}   on {referrer}{words}")
        if problem.links > 3:
            lines.append(f"{'':9}   and on {problem.links - 3:,} more pages")
    summary = ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items()))
    return "\n".join([*map(printable, lines), f"Links: {summary or 'all are good'}."])


def _has_links(row: Row) -> bool:
    return is_html(row["mime_type"]) or row["mime_type"] == "text/css"


def _links_of(document: Document) -> dict[tuple[str, str], None]:
    """Returns the links and resources of a page or style sheet: distinct URLs with fragments, in order."""
    links: dict[tuple[str, str], None] = {}
    if is_html(document.mime_type):
        links = {
            (reference.url, without_directive(reference.fragment)): None
            for reference in references(document.html, base_of(document))
            if reference.use != "named"
        }
    return links | {(url, ""): None for url in loaded(document)}


def _wants_cookies(row: Row) -> bool:
    return WANTS_COOKIES in ((row["details"] or {}).get("remarks") or ())


class _Targets:
    """The outcome of the URLs that links point to."""

    def __init__(
        self, stored: StoredPages, variants: Variants, lost: Mapping[str, str], crawl: str | None
    ) -> None:
        self._crawl = crawl
        self._stored = stored
        self._variants = variants
        self._lost = lost

    def problem_of(self, url: str) -> Problem | None:
        """Returns the problem of a URL or of its redirects; None for a good URL."""
        rows, last = self._hops(url)
        if last is not None:
            reason = next(filter(None, map(self._lost.get, self._variants.of(last))), None)
            if reason is None:
                return Problem(url, "unchecked")
            return Problem(url, "failed", error=reason, target=last if rows else None)
        first, row = rows[0], rows[-1]
        target = row["url"] if row["url"] != first["url"] else None
        facts: dict[str, Any] = {"status": row["status"], "error": row["error"], "target": target}
        if row["state"] in BROKEN:
            asked = not str(row["error"] or "").startswith(_NOT_ASKED)
            return Problem(url, row["state"] if asked else "unchecked", **facts)
        if row["state"] == "redirected" and any(map(_wants_cookies, rows)):
            return Problem(
                url, "unchecked", **(facts | {"error": "it wants its cookie back: COOKIES_ENABLED=True"})
            )
        if row["state"] == "redirected":
            return Problem(url, "broken", **(facts | {"error": "it redirects endlessly, or not to a URL"}))
        if target and first["status"] in _PERMANENT:
            return Problem(url, "redirect", first["status"], target=target)
        return None

    def page_of(self, url: str) -> Row | None:
        """The page to which the fragment of a URL applies; None if unknown, or if a redirect sets another fragment."""
        rows, last = self._hops(url)
        if last is not None or any("#" in (self._stored.location(row) or "#") for row in rows[:-1]):
            return None
        return rows[-1]

    def anchors(self, row: Row) -> PageAnchors | None:
        """Returns the anchors of a page; None if it is truncated, simplified, refused or not in the archive."""
        document = None if row["truncated"] else self._stored.document(row)
        if document is None or document.refused is not None or document.simplified:
            return None
        return PageAnchors(document)

    def _hops(self, url: str) -> tuple[list[Row], str | None]:
        """Returns the rows of a URL and its redirects, and the URL of the chain that has no row, if any."""
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
        """Returns the row of a URL as it may have been requested, if the crawl tried it last."""
        rows = map(self._stored.get, self._variants.of(url))
        return next((row for row in rows if row is not None and self._crawl in (None, row["crawl"])), None)
