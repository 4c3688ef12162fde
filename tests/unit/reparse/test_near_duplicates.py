"""Near-duplicates are marked as a crawl in the order of fetching would."""

from __future__ import annotations

from hypothesis import given, strategies as st

from webcrawl.documents.simhash_blocks import distance
from webcrawl.reparse.near_duplicates import mark_again
from webcrawl.stores.reread_rows import ComparedText

MOST = 3
# few bits, so that many texts are near each other
simhashes = st.none() | st.integers(0, 63).map(lambda bits: bits * 0x0101_0101_0101_0101 & 0x3F3F)


class Table:
    """The rows of a crawl in memory."""

    def __init__(self, texts: dict[str, int | None]) -> None:
        self.simhashes = dict(texts)
        self.firsts: dict[str, str | None] = dict.fromkeys(texts)

    def texts(self) -> list[ComparedText]:
        return [
            ComparedText(url, simhash, self.firsts[url])
            for url, simhash in self.simhashes.items()
            if simhash is not None or self.firsts[url] is not None
        ]

    def mark(self, firsts: dict[str, str | None]) -> None:
        self.firsts |= firsts


def crawled(texts: dict[str, int | None]) -> Table:
    """A crawl: each page is compared with all earlier ones that are no near-duplicates."""
    table = Table(texts)
    originals: list[tuple[str, int]] = []
    for url, simhash in texts.items():
        if simhash is None:
            continue
        near = [(distance(simhash, other), place) for place, (_, other) in enumerate(originals)]
        best = min(near, default=(MOST + 1, 0))
        if best[0] <= MOST:
            table.firsts[url] = originals[best[1]][0]
        else:
            originals.append((url, simhash))
    return table


@given(st.lists(st.tuples(simhashes, simhashes), max_size=30), st.integers(0, 30))
def test_marks_are_those_of_a_crawl_of_the_new_texts(
    pairs: list[tuple[int | None, int | None]], kept: int
) -> None:
    before = {f"u{n}": old for n, (old, _) in enumerate(pairs)}
    after = {f"u{n}": old if n < kept else new for n, (old, new) in enumerate(pairs)}
    table, fresh = crawled(before), crawled(after)
    old = dict(table.firsts)
    table.simhashes = after
    changed = {url for url in before if before[url] != after[url]}
    number = mark_again(table, changed, MOST)
    assert number == sum(old[url] != table.firsts[url] for url in old)
    # of several that are equally near, a page keeps its own
    for url, first in table.firsts.items():
        other = fresh.firsts[url]
        assert (first is None) == (other is None)
        if first is not None and other is not None and first != other:
            assert first == old[url]


def test_nothing_is_read_if_no_text_has_changed() -> None:
    assert mark_again(None, set(), MOST) == 0  # type: ignore[arg-type]
