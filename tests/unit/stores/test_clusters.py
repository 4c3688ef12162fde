"""Clusters of duplicates, read in stretches of the table."""

from __future__ import annotations

from tests.metadata import row
from webcrawl.stores.clusters import clusters
from webcrawl.stores.metadata import Metadata

FIRST, OTHER = "https://a.test/", "https://b.test/first"


def copy(url: str, first: str, kind: str = "exact") -> dict[str, object]:
    return row(url, duplicate_of=first, duplicate_kind=kind)


def test_clusters_are_counted_by_kind_the_largest_first(metadata: Metadata) -> None:
    assert clusters(metadata).clusters == []
    copies = [copy(f"https://a.test/{n}", FIRST, "near" if n % 3 else "exact") for n in range(9)]
    metadata.upsert([row(FIRST), *copies, row(OTHER), copy("https://c.test/", OTHER)])
    found = clusters(metadata)
    assert [(one.first, one.exact, one.near, one.size) for one in found.clusters] == [
        (FIRST, 3, 6, 9),
        (OTHER, 1, 0, 1),
    ]
    assert [one["url"] for one in found.clusters[1].copies] == ["https://c.test/"]
    assert (found.read, found.after) == (12, "")
    assert [one.first for one in clusters(metadata, host="https://a.test").clusters] == [FIRST]
    assert [one.size for one in clusters(metadata, first=OTHER).clusters] == [1]


def test_windows_follow_each_other_and_end(metadata: Metadata) -> None:
    metadata.upsert([copy(f"https://a.test/{n}", FIRST) for n in range(7)])
    sizes, after = [], ""
    while True:
        window = clusters(metadata, after, most=3)
        sizes.append((window.read, sum(one.size for one in window.clusters)))
        if not (after := window.after):
            break
    assert sizes == [(3, 3), (3, 3), (1, 1)]
