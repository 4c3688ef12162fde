"""Queries stored links, reading as little of the files as possible."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from webcrawl.documents.payload import unchanged_since
from webcrawl.links.arrow import pyarrow, schema
from webcrawl.links.sources import LinkFile
from webcrawl.stores.current_pages import CurrentPages, CurrentRows

Opener = Callable[[], LinkFile]
GetRows = Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]]
"""Returns rows of table `pages` by URL, with `url`, `fetched_at` and `details`."""
_FETCH = ("from_url", "crawl", "time", "read_at")
"""The columns that say which fetch of a page a link is from."""


def links_from(files: Iterable[Opener], urls: Sequence[str], crawl: str | None = None) -> Any:
    """Returns the links on a page as an Arrow table, in the order of the page; `urls` are spellings of its URL.

    If the page was fetched several times, also by several crawls, the table has the links of the last fetch.
    """

    def search(file: LinkFile) -> Any:
        groups = file.groups if file.may_have_page(urls) else ()
        return _matching(file, groups, "from_url", urls, schema().names)

    return _latest(_searched(files, search), crawl).sort_by(_ascending("crawl", "from_url", "place"))


def links_to(files: Iterable[Opener], urls: Sequence[str], crawl: str | None = None) -> Any:
    """Returns the links to a URL as an Arrow table, sorted by page; see `links_from`."""

    def search(file: LinkFile) -> Any:
        groups = [group for group in file.groups if file.may_have(group, "to_url", urls)]
        return _matching(file, groups, "to_url", urls, schema().names)

    return _latest(_searched(files, search), crawl).sort_by(_ascending("from_host", "from_url", "place"))


def current(links: Any, rows: GetRows) -> Any:
    """Returns the links that pages have now, and those of pages without a row."""
    pages, since = links["from_url"].unique().to_pylist(), dict[str, datetime]()
    for start in range(0, len(pages), _AT_ONCE):
        stored = rows(pages[start : start + _AT_ONCE])
        since |= {url: unchanged_since(row) for url, row in stored.items()}
    times = zip(links["from_url"].to_pylist(), links["time"].to_pylist(), strict=True)
    kept = [url not in since or time >= since[url] for url, time in times]
    return links.filter(pyarrow().array(kept, pyarrow().bool_()))


def linked_hosts(
    files: Iterable[Opener],
    host: str,
    *,
    inbound: bool = False,
    crawl: str | None = None,
    rows: GetRows | None = None,
) -> list[tuple[str, int]]:
    """Returns the hosts to which a host links, with their numbers of links; if `inbound`, the hosts that link to it.

    All hosts are reversed. The host with the most links comes first. A page that was fetched twice counts once, and
    with `rows` only by the links that it has now.
    """
    own, other = ("to_host", "from_host") if inbound else ("from_host", "to_host")

    def search(file: LinkFile) -> Any:
        groups = [group for group in file.groups if file.may_have(group, own, [host])]
        return _matching(file, groups, own, [host], [other, *_FETCH])

    table = _latest(_searched(files, search), crawl)
    if rows is not None:
        table = current(table, rows)
    pairs = pyarrow().compute.value_counts(table[other]).to_pylist() if len(table) else ()
    return sorted(((pair["values"], pair["counts"]) for pair in pairs), key=lambda item: (-item[1], item[0]))


def pages_among(files: Iterable[Opener], urls: Sequence[str]) -> set[str]:
    """Returns the pages among `urls` with stored links of any fetch. Compares hashes, so it may return a wrong page."""
    stored_pages = (
        _searched(files, lambda file: {url for url in urls if file.may_have_page([url])}) if urls else []
    )
    return set().union(*stored_pages)


def link_counts(files: Iterable[Opener], urls: Sequence[str]) -> Counter[str]:
    """Returns the number of links to each of the URLs; a page that was fetched twice counts once.

    For a crawl without a database, which does not know what pages have now: see `CurrentLinkCounts`. Reads one column
    of the row groups that may have the URLs, and who links there only in files that share a page with another file.
    """
    wanted, ends = pyarrow().array(urls, pyarrow().string()), [min(urls, default=""), max(urls, default="")]

    def search(file: LinkFile) -> Counter[str]:
        counts: Counter[str] = Counter()
        for group in file.groups:
            if file.may_overlap(group, "to_url", *ends):
                for url, links in file.counts(group, "to_url", wanted):
                    counts[url] += links
        return counts

    def search_shared(file: LinkFile) -> Any:
        groups = [group for group in file.groups if file.may_overlap(group, "to_url", *ends)]
        return _matching(file, groups, "to_url", urls, ["to_url", *_FETCH])

    total: Counter[str] = Counter()
    if urls:
        shared, single = _by_sharing(files)
        for counts in _searched(single, search):
            total.update(counts)
        if shared:
            for pair in pyarrow().compute.value_counts(
                _latest(_searched(shared, search_shared), None)["to_url"]
            ):
                total[pair["values"].as_py()] += pair["counts"].as_py()
    return total


class CurrentLinkCounts:
    """Counts the links that `pages` have now, in a bit for each stored link.

    A page that was fetched twice counts once, and a page that has lost its links, or is gone, not at all.
    """

    def __init__(self, files: Iterable[Opener], pages: CurrentPages) -> None:
        """Reads three columns of all links, twice. Raises StoreError for a damaged file."""
        self._files = [opener() for opener in files]
        rows = CurrentRows(pages, ("from_url", "time"))
        for file in self._files:
            for group in file.groups:
                rows.see(file.read(group, rows.columns))
        self._current = [
            [np.packbits(rows.are(file.read(group, rows.columns))) for group in file.groups]
            for file in self._files
        ]

    def of(self, urls: Sequence[str]) -> Counter[str]:
        """Returns the number of links to each of the URLs; reads one column of the row groups that may have them."""
        wanted, ends = (
            pyarrow().array(urls, pyarrow().string()),
            [min(urls, default=""), max(urls, default="")],
        )
        counts: Counter[str] = Counter()
        for file, groups in zip(self._files, self._current, strict=True):
            for group, current in zip(file.groups, groups, strict=True):
                if file.may_overlap(group, "to_url", *ends):
                    for url, links in file.counts(group, "to_url", wanted, current):
                        counts[url] += links
        return counts


def _by_sharing(files: Iterable[Opener]) -> tuple[list[Opener], list[Opener]]:
    """Returns the files that may have a page twice, alone or with another file, and the others; reads the footers."""
    openers = list(files)
    pages = _searched(openers, lambda file: file.pages() if file.has_pages_once() else None)
    digests = [known for known in pages if known is not None]
    every = np.concatenate([*digests, np.empty(0, "<u8")])
    values, numbers = np.unique(every, return_counts=True)
    repeated = values[numbers > 1]
    is_shared = [known is None or bool(np.isin(known, repeated).any()) for known in pages]
    return (
        [opener for opener, shared in zip(openers, is_shared, strict=True) if shared],
        [opener for opener, shared in zip(openers, is_shared, strict=True) if not shared],
    )


def _searched(files: Iterable[Opener], search: Callable[[LinkFile], Any]) -> list[Any]:
    """Returns the result of `search` for each file. Threads help, because reading needs no interpreter lock."""
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="links") as threads:
        return list(threads.map(lambda opener: search(opener()), files))


def _matching(
    file: LinkFile, groups: Iterable[int], column: str, values: Sequence[str], columns: Sequence[str]
) -> Any:
    """Returns columns of the rows whose `column` has one of `values`; reads other columns only after a match."""
    arrow = pyarrow()
    wanted, names = arrow.array(values, arrow.string()), list(columns)
    fields = [schema().field(name) for name in names]
    tables = [arrow.schema(fields).empty_table()]
    for group in groups:
        rows = file.rows(group, column, wanted)
        if arrow.compute.any(rows).as_py():
            tables.append(file.read(group, names).select(names).filter(rows))
    return arrow.concat_tables([table.cast(tables[0].schema) for table in tables])


def _latest(tables: list[Any], crawl: str | None) -> Any:
    """Returns the rows of the last reading of the last fetch of each page, by one crawl or by any.

    Tables have the columns `_FETCH`, and others.
    """
    table = _of_crawl(pyarrow().concat_tables(tables or [schema().empty_table()]), crawl)
    table = table.append_column("read", pyarrow().compute.coalesce(table["read_at"], table["time"]))
    return _last(_last(table, "time"), "read").drop_columns("read")


def _last(table: Any, column: str) -> Any:
    """Returns the rows with the largest value of a column among the rows of the same page."""
    last = table.group_by("from_url").aggregate([(column, "max")])
    right = ["from_url", f"{column}_max"]
    return table.join(last, ["from_url", column], right_keys=right, join_type="left semi")


def _of_crawl(table: Any, crawl: str | None) -> Any:
    return table if crawl is None else table.filter(pyarrow().compute.field("crawl") == crawl)


def _ascending(*columns: str) -> list[tuple[str, str]]:
    return [(column, "ascending") for column in columns]


_AT_ONCE = 1_000

GetRow = Callable[[str], dict[str, Any] | None]
"""Returns the row of a page, or None."""


class StoredLink(NamedTuple):
    """A link on a page to a URL, as in the columns of the link store. `time`: when the page was fetched."""

    url: str
    page: str
    text: str | None
    element: str
    time: datetime


def links_known(files: Sequence[Opener], urls: Sequence[str]) -> Iterator[StoredLink]:
    """Yields the links to URLs in the last stored fetch of each page, even if the page has lost a link since."""
    for start in range(0, len(urls), _AT_ONCE):
        table = links_to(files, urls[start : start + _AT_ONCE])
        for row in table.select(["to_url", "from_url", "text", "element", "time"]).to_pylist():
            yield StoredLink(row["to_url"], row["from_url"], row["text"], row["element"], row["time"])


def links_now(files: Sequence[Opener], urls: Sequence[str], get: GetRow) -> Iterator[StoredLink]:
    """Yields the links to URLs that the contents of pages have, grouped by page."""
    page, answered = "", None
    for link in links_known(files, urls):
        if link.page != page:
            row = get(link.page)
            page, answered = link.page, None if row is None else unchanged_since(row)
        if answered is not None and link.time >= answered:
            yield link
