"""The rows of URLs are read with those to which they redirect, in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from tests.metadata import NOW, at, row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.redirect_chains import MOST_HOPS, TIMES, RedirectChains

URLS = [f"https://example.org/{number}" for number in range(8)]
TARGETS = st.lists(st.sampled_from([*URLS, "https://example.org/missing", None]), min_size=8, max_size=8)


@pytest.fixture
def metadata(uri: str) -> Iterator[Metadata]:
    with Metadata(uri) as metadata:
        yield metadata


def redirect(url: str, target: str) -> dict[str, object]:
    return row(url, final_url=target, status=302)


def test_a_chain_has_the_columns_of_its_rows(metadata: Metadata) -> None:
    details = {"modified": "2026-01-01", "names": ["é", "ü"]}
    page = row(
        URLS[1],
        status=200,
        title="Ünïcode",
        details=details,
        published_at=NOW,
        warc_file="a.warc.gz",
        warc_offset=7,
        warc_length=9,
    )
    metadata.upsert([redirect(URLS[0], URLS[1]), page])
    chains = RedirectChains(metadata.database).read([URLS[0], URLS[2]])
    assert list(chains) == [URLS[0]]
    first, last = chains[URLS[0]]
    assert (first.url, first.status, first.final_url) == (URLS[0], 302, URLS[1])
    stored = metadata.get(URLS[1])
    assert stored is not None
    for name, value in last._asdict().items():
        if name in TIMES:
            assert (datetime.fromisoformat(value) if value else None) == stored[name], name
        elif name != "details":
            assert value == stored[name], name
    assert last.details is not None and '"2026-01-01"' in last.details


def test_earlier_fetches_are_in_their_order(metadata: Metadata) -> None:
    for number in range(3):
        metadata.upsert([row(URLS[0], status=200, digest=f"{number}", fetched_at=at(number))])
    earlier = RedirectChains(metadata.database).earlier(URLS)
    assert [fetch.digest for fetch in earlier[URLS[0]]] == ["0", "1"]
    assert [datetime.fromisoformat(fetch.fetched_at) for fetch in earlier[URLS[0]]] == [NOW, at(1)]


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{tmp_path_factory.mktemp('chained')}/metadata.db") as metadata:
        yield metadata


@settings(max_examples=40)
@given(TARGETS)
def test_chains_are_those_of_following_each_hop(chained: Metadata, targets: list[str | None]) -> None:
    rows = [
        row(url, status=200) if target is None else redirect(url, target)
        for url, target in zip(URLS, targets, strict=True)
    ]
    chained.upsert(rows)
    following = dict(zip(URLS, targets, strict=True))
    chains = RedirectChains(chained.database).read(URLS)
    for url in URLS:
        expected, here = [url], following[url]
        while here in following and here != expected[-1] and len(expected) <= MOST_HOPS:
            expected.append(here)
            here = following[here]
        assert [each.url for each in chains[url]] == expected
