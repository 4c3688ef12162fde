"""What a fetch is for: five classes, and their shares of a crawl."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgpack

COVERAGE_GET, FRESHNESS_GET = "coverage-get", "freshness-get"
COVERAGE_CHK, FRESHNESS_CHK, UPDATE_CHK = "coverage-chk", "freshness-chk", "update-chk"

CLASSES = (COVERAGE_GET, FRESHNESS_GET, COVERAGE_CHK, FRESHNESS_CHK, UPDATE_CHK)
"""A queue entry has the number of its class in this tuple, which is a part of the frontier's format.

coverage-get     a page that is new to the crawl
freshness-get    a new page whose link is new on a page that was fetched again, such as a hub, feed or sitemap
coverage-chk     a page that was gone, which may exist again
freshness-chk    a hub, feed or sitemap, which may name new pages
update-chk       any other known page, which may have changed
"""

CHECKS = (COVERAGE_CHK, FRESHNESS_CHK, UPDATE_CHK)
"""The classes of the fetches of known pages."""

LIST_TYPES = frozenset(
    {
        *("application/rss+xml", "application/atom+xml", "application/feed+json"),
        *("application/xml", "text/xml"),
    }
)
"""The types of feeds and sitemaps."""


def class_of_visit(mime_type: str | None, *, is_alive: bool) -> str:
    """Returns the class of the next fetch of a page that was just visited.

    Which other pages are hubs, only the plan of a recrawl knows (webcrawl.stores.due_pages).
    """
    if not is_alive:
        return COVERAGE_CHK
    return FRESHNESS_CHK if mime_type in LIST_TYPES else UPDATE_CHK


def class_of_link(source_class: str | None) -> str:
    """Returns the class of the fetch of a new page that was named by a page whose fetch had this class."""
    return FRESHNESS_GET if source_class in (FRESHNESS_CHK, UPDATE_CHK) else COVERAGE_GET


_RECENT = 2_000.0
"""A class makes up for what it did not use of its share of so many fetches of the crawl. The rest is for the others."""

_HEARD_TIMES = 2.0
"""If that is more: of so many times the fetches that a worker hears of at once, for each worker.

If one worker alone has URLs of a class, it makes up for its part of what is missing, so this has to be large enough."""

_HEARD_KEPT = 0.9
"""How much of the most fetches that were heard of at once counts the next time."""

_LAST = 1e9
"""What a fetch of a class without a share counts, so that the class comes after all others."""


class ClassCounts(NamedTuple):
    """Fetches of a class.

    fetched     by the crawl so far
    wanted      that its share gave it, since this worker counts fetches
    missing     that it did not have by its share and makes up for; below 0 if it had more
    """

    fetched: int
    wanted: float
    missing: float


class ClassShares:
    """Lets each class have its share of the fetches of a crawl, as one worker sees it.

    The class that had the fewest fetches by its share comes first (stride scheduling, Waldspurger and Weihl 1995). They
    are those of all workers, and the URLs that this worker has leased. What a class does not use goes to the others by
    their shares. The class makes up for it up to a limit (as in deficit round robin, Shreedhar and Varghese 1995): it
    counts as having had what is beyond. Nothing else is forgotten. Otherwise a class that few workers have would miss
    its share for good, because these do more for it only while something is missing.

    `weights`: class -> its part, of any sum; other classes have none.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        whole = sum(weights.values())
        shares = [weights.get(name, 0.0) / whole for name in CLASSES]
        self.strides = {
            name: 1 / share if share else _LAST for name, share in zip(CLASSES, shares, strict=True)
        }
        self.checks = sum(weights.get(name, 0.0) for name in CHECKS) / whole
        """The share of the fetches of known pages in all."""
        self.of_known = {
            name: weights.get(name, 0.0) / whole / self.checks if name in CHECKS and self.checks else 0.0
            for name in CLASSES
        }
        """The share of each of their classes in the fetches of known pages."""
        self.all_fetches = 0
        """The fetches that this worker has heard of."""
        self._had = dict.fromkeys(CLASSES, 0.0)
        """What the classes had of the crawl: fetches, and what they did not use too long ago."""
        self._heard = 0.0
        """The most fetches that this worker has heard of at once; fewer with each time."""
        self._started = Counter[str]()
        """Fetches of this worker since the last `update`."""
        self._leased = Counter[str]()
        """URLs that are leased and not fetched yet."""
        self._totals: Mapping[str, int] | None = None
        self._workers = 1

    def lease(self, classes: Iterable[str]) -> None:
        """Counts URLs that were leased."""
        self._leased.update(classes)

    def start(self, name: str) -> None:
        """Counts a fetch of a leased URL."""
        self._started[name] += 1
        self._leased[name] -= 1

    def update(self, totals: Mapping[str, int], workers: int, leased: Iterable[str]) -> None:
        """Takes the fetches of the crawl by class, the number of its workers, and the classes of the leased URLs."""
        before = totals if self._totals is None else self._totals
        self._totals, self._workers = dict(totals), workers
        fetched = {name: max(0, totals.get(name, 0) - before.get(name, 0)) for name in CLASSES}
        self.all_fetches += sum(fetched.values())
        self._heard = max(self._heard * _HEARD_KEPT, sum(fetched.values()))
        self._had = {name: had + fetched[name] for name, had in self._had.items()}
        least = self._whole - max(_RECENT, _HEARD_TIMES * self._heard * workers)
        self._had = {name: max(had, least / self.strides[name]) for name, had in self._had.items()}
        self._started.clear()
        self._leased = Counter(leased)

    def counts(self, name: str) -> ClassCounts:
        """Returns the fetches of a class by the crawl, and those that it should have had."""
        missing = self._whole / self.strides[name] - self._had[name]
        fetched = (self._totals or {}).get(name, 0)
        return ClassCounts(fetched, self.all_fetches / self.strides[name], missing)

    def passed(self, name: str) -> float:
        """Returns what a class had, for each worker, by its share: the lowest has the next fetch."""
        return (self._had[name] / self._workers + self._started[name] + 1) * self.strides[name]

    @property
    def _whole(self) -> float:
        """What all classes with a share had."""
        return sum(had for name, had in self._had.items() if self.strides[name] < _LAST)

    def passed_with_leased(self, name: str) -> float:
        """Returns the same with the URLs that are leased: the lowest has the next lease."""
        return self.passed(name) + self._leased[name] * self.strides[name]


class Traffic:
    """The shares of the classes in a crawl (TRAFFIC), and those of sites with a table of their own.

    `table`: class -> part, and domain -> {class -> part} for a site.
    """

    def __init__(self, table: Mapping[str, float | Mapping[str, float]]) -> None:
        weights: dict[str, dict[str, float]] = {"": {}}
        for name, value in table.items():
            if isinstance(value, Mapping):
                weights[name] = dict(value)
            else:
                weights[""][name] = value
        self._shares = {site: ClassShares(parts) for site, parts in weights.items()}

    def site_of(self, host: str) -> str:
        """Returns the longest domain of a host that has a table of its own; "" for other hosts."""
        if len(self._shares) == 1:
            return ""  # the usual case
        name = host.partition("://")[2]
        name = name if name.endswith("]") else name.partition(":")[0]
        while name and name not in self._shares:
            name = name.partition(".")[2]
        return name

    def of_site(self, site: str) -> ClassShares:
        """Returns the shares of a domain; those of the hosts without a table of their own for ""."""
        return self._shares[site]

    @property
    def all_fetches(self) -> int:
        """The fetches of the crawl that this worker has heard of."""
        return sum(shares.all_fetches for shares in self._shares.values())

    @property
    def wanted_checks(self) -> float:
        """How many of the fetches should have been of known pages, since this worker counts them."""
        return sum(shares.checks * shares.all_fetches for shares in self._shares.values())

    @property
    def most_of_known(self) -> dict[str, float]:
        """The share of each class in the fetches of known pages, the largest of all tables."""
        return {name: max(shares.of_known[name] for shares in self._shares.values()) for name in CHECKS}

    def counts(self, name: str) -> ClassCounts:
        """Returns the fetches of a class by the crawl, and those that it should have had by all tables."""
        each = [shares.counts(name) for shares in self._shares.values()]
        return ClassCounts(*(sum(numbers) for numbers in zip(*each, strict=True)))

    def of(self, host: str) -> ClassShares:
        """Returns the shares that apply to a host."""
        return self._shares[self.site_of(host)]

    def update(
        self,
        totals: Mapping[str, Mapping[str, int]],
        workers: int,
        leased: Mapping[str, Iterable[str]],
    ) -> None:
        """Takes the fetches of the crawl, and the classes of the URLs that this worker has leased, by site."""
        for site, shares in self._shares.items():
            shares.update(totals.get(site, {}), workers, leased.get(site, ()))

    def packed(self, together: int, enough_of: Collection[str] = ()) -> bytes:
        """Returns the turns of the classes for common/turns.lua, with `together` calls that do not know each other.

        The classes of which there are enough have no turn.
        """
        packed: bytes = msgpack.packb(
            {
                site: (
                    [math.inf if name in enough_of else shares.passed_with_leased(name) for name in CLASSES],
                    [together * shares.strides[name] for name in CLASSES],
                )
                for site, shares in self._shares.items()
            }
        )
        return packed
