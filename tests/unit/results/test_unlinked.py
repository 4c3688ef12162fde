"""Pages that no page links to any more: random sites of which some pages lose links, fail, or are not fetched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.unit.links.rows import entry
from tests.unit.links.test_questions import config
from webcrawl.documents.payload import PAYLOAD, StoredPayload
from webcrawl.links.questions import Opener
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore
from webcrawl.results.monitor import MonitorRun, unlinked
from webcrawl.stores.metadata import StoredFetch

BEFORE, NOW = datetime(2026, 2, 3, tzinfo=UTC), datetime(2026, 2, 4, tzinfo=UTC)
EPOCH = datetime.fromtimestamp(0, UTC)
URLS = [f"https://a.test/{number}" for number in range(7)]
links = st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=7, max_size=7)


def payload(url: str) -> dict[str, Any]:
    return StoredPayload(url, BEFORE, "first.warc.gz", 0, 10).facts()


@dataclass
class Site:
    """Two runs over a site: who links to whom in each; pages of `failing` could not be fetched in the second."""

    before: list[set[int]]
    now: list[set[int]]
    failing: set[int]

    def __post_init__(self) -> None:
        self.known = reached(self.before)
        self.tried = reached([set() if n in self.failing else links for n, links in enumerate(self.now)])

    @property
    def unchanged(self) -> set[int]:
        """The pages that the second run fetched with the contents of the first, whose links it did not store again."""
        same = {number for number in self.known if self.before[number] == self.now[number]}
        return same & self.tried - self.failing

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table `pages` after the second run."""
        for number in sorted(self.known | self.tried):
            failed, tried = number in self.failing, number in self.tried
            # some answered, but with an error
            answered = NOW if tried and not (failed and number % 2) else BEFORE
            yield {
                "url": URLS[number],
                "final_url": URLS[number],
                "state": ("broken", "failed")[number % 2] if failed and tried else "fetched",
                "fetched_at": answered,
                "tried_at": NOW if tried else BEFORE,
                "first_fetched_at": BEFORE if number in self.known else NOW,
                "mime_type": "text/html",
                "details": None if number not in self.unchanged else {PAYLOAD: payload(URLS[number])},
            }

    def answers(self, url: str, until: datetime) -> list[StoredFetch]:
        return [StoredFetch(BEFORE, 200, False, None, None, None, None, None, None, None)]

    def stored_links(self, folder: Path) -> list[Opener]:
        store = LinkStore(folder / "links", "monitor")
        for moment, run, pages in ((BEFORE, self.before, self.known), (NOW, self.now, self.tried)):
            for number in pages if moment is BEFORE else pages - self.failing - self.unchanged:
                targets = [URLS[to] for to in sorted(run[number])]
                if targets:
                    time = (moment - EPOCH) // timedelta(microseconds=1)
                    store.write([entry(URLS[number], *targets, time=time)])
        store.close()
        return link_files(config(folder)).openers

    def expected(self) -> set[str]:
        """What nothing leads to by the links that each page had when it answered last."""
        fetched = self.tried - self.failing
        last = [
            self.now[n] if n in fetched else self.before[n] if n in self.known else set() for n in range(7)
        ]
        leads = reached(last, self.tried)
        lost = {n for n in self.tried & self.failing & self.known if not self.before[n]}
        return {URLS[n] for n in self.known - self.tried - leads} if not lost else set()


def reached(links: list[set[int]], starts: set[int] = frozenset({0})) -> set[int]:  # type: ignore[assignment]
    found, todo = set(starts), list(starts)
    while todo:
        new = links[todo.pop()] - found
        found |= new
        todo += new
    return found


@settings(max_examples=25, deadline=None)
@given(links, links, st.sets(st.integers(1, 6), max_size=2))
def test_pages_are_unlinked_if_nothing_leads_to_them(
    before: list[set[int]], now: list[set[int]], failing: set[int]
) -> None:
    site = Site([{1}, *before[1:]], [{2}, *now[1:]], failing)
    run = MonitorRun(NOW, lambda _: True)
    with tempfile.TemporaryDirectory() as folder:
        files = site.stored_links(Path(folder))
        found = unlinked(site, run, files)  # type: ignore[arg-type]
        assert set(found) == site.expected()
        for url, referrers in found.items():
            number = URLS.index(url)
            assert referrers == [URLS[n] for n in sorted(site.known) if number in site.before[n]]
        assert unlinked(site, run._replace(lost=None), files) == {}  # type: ignore[arg-type]
        assert unlinked(site, run._replace(differing=["seeds"]), files) == {}  # type: ignore[arg-type]
