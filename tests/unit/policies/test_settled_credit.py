"""The settled state of credit: that of PageRank, whatever the links."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.policies import settled_credit
from webcrawl.policies.importance import LAMBDA_PART
from webcrawl.policies.settled_credit import settled


@st.composite
def webs(draw: st.DrawFn) -> list[list[int]]:
    """The targets of each page, without itself."""
    pages = draw(st.integers(1, 12))
    targets = st.sets(st.integers(0, pages - 1))
    return [sorted(draw(targets) - {page}) for page in range(pages)]


def importance_of(web: list[list[int]]) -> list[float]:
    first = np.cumsum([0, *map(len, web)])
    return settled(first, np.array([one for links in web for one in links], np.int32)).tolist()


@settings(max_examples=50)
@given(webs())
def test_it_is_pagerank_times_pages_without_the_part_that_all_get(web: list[list[int]]) -> None:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(web)))
    graph.add_edges_from((page, target) for page, links in enumerate(web) for target in links)
    rank = networkx.pagerank(graph, alpha=1 - 1 / LAMBDA_PART, tol=1e-10, max_iter=1000)
    brought = [
        sum(
            rank[page] * (1 - 1 / LAMBDA_PART) / len(links)
            for page, links in enumerate(web)
            if target in links
        )
        for target in range(len(web))
    ]
    assert importance_of(web) == pytest.approx([one * len(web) for one in brought], abs=2e-3 * len(web))


@given(webs(), st.integers(1, 5))
def test_it_is_the_same_in_blocks_of_any_size(web: list[list[int]], size: int) -> None:
    whole = importance_of(web)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settled_credit, "_BLOCK", size)
        assert importance_of(web) == pytest.approx(whole)


def test_a_page_to_which_nothing_links_has_none() -> None:
    assert importance_of([[1], [2], [1]])[0] == 0.0


def test_no_pages_are_no_error() -> None:
    assert importance_of([]) == []


def test_a_page_behind_an_important_one_is_important() -> None:
    """What credit at the time of the fetch cannot tell: all leaves link to the hub, and the hub to one page."""
    leaves = range(2, 20)
    web = [[*leaves], [20], *([1] for _ in leaves), []]
    found = importance_of(web)
    assert found[20] == pytest.approx(0.9 * (found[1] + 1 - sum(found) / len(web)), rel=0.01)
    assert sorted(range(len(web)), key=found.__getitem__)[-2:] == [20, 1]
