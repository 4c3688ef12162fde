"""The clusters of duplicates in the table `pages`: a first page, and the pages that were found to be like it."""

from __future__ import annotations

from dataclasses import dataclass, field

from webcrawl.stores.columns import pages
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata

_MOST_READ = 10_000
_MOST_COPIES = 100


@dataclass(slots=True)
class Cluster:
    """The copies of the page `first` in the rows that were read: how many, and the rows of the first hundred."""

    first: str
    exact: int = 0
    near: int = 0
    copies: list[Row] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.exact + self.near


@dataclass(frozen=True, slots=True)
class ClusterWindow:
    """The clusters in `read` rows, the largest first. `after`: the last row's URL; empty at the end of the table."""

    clusters: list[Cluster]
    read: int
    after: str


def clusters(
    metadata: Metadata,
    after: str = "",
    host: str | None = None,
    first: str | None = None,
    most: int = _MOST_READ,
) -> ClusterWindow:
    """Returns the clusters among the next `most` rows after a URL, of one host or all; or only the copies of `first`.

    The rows are sorted by URL, so a cluster within a host is in one window or in adjacent ones. Raises StoreError.
    """
    read, last = metadata.stretch(most, host, after=after)
    wanted = pages.c.duplicate_of.is_not(None) if first is None else pages.c.duplicate_of == first
    found: dict[str, Cluster] = {}
    for row in metadata.scan(host, after=after, where=[pages.c.url <= last, wanted]):
        cluster = found.setdefault(row["duplicate_of"], Cluster(row["duplicate_of"]))
        if row["duplicate_kind"] == "exact":
            cluster.exact += 1
        else:
            cluster.near += 1
        if len(cluster.copies) < _MOST_COPIES:
            cluster.copies.append(row)
    largest = sorted(found.values(), key=lambda one: (-one.size, one.first))
    return ClusterWindow(largest, read, last if read == most else "")
