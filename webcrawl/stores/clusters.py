"""The clusters of duplicates in the table `pages`: a first page, and its copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata

_MOST_READ = 5_000
_MOST_COPIES = 100


@dataclass(slots=True)
class DuplicateCluster:
    """The copies of the page `first` in the rows that were read: their number, and the rows of the first hundred."""

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

    clusters: list[DuplicateCluster]
    read: int
    after: str


def clusters(
    metadata: Metadata,
    after: str = "",
    host: str | None = None,
    first: str | None = None,
    most: int = _MOST_READ,
) -> ClusterWindow:
    """Returns the clusters in the next `most` rows after a URL, of a host or all hosts, or only the copies of `first`.

    The rows are sorted by URL, so a cluster within a host is in one window or in adjacent windows. Raises StoreError.
    """
    by_first: dict[str, DuplicateCluster] = {}
    read, last = 0, ""
    for row in islice(metadata.scan(host, after=after), most):
        read, last = read + 1, row["url"]
        if row["duplicate_of"] is None or first not in (None, row["duplicate_of"]):
            continue
        cluster = by_first.setdefault(row["duplicate_of"], DuplicateCluster(row["duplicate_of"]))
        if row["duplicate_kind"] == "exact":
            cluster.exact += 1
        else:
            cluster.near += 1
        if len(cluster.copies) < _MOST_COPIES:
            cluster.copies.append(row)
    largest = sorted(by_first.values(), key=lambda cluster: (-cluster.size, cluster.first))
    return ClusterWindow(largest, read, last if read == most else "")
