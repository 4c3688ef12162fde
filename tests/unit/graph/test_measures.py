"""Measures equal those of networkx on small graphs, and estimates are as good as they say."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.graph import balls, digraph, measures
from webcrawl.graph.balls import harmonic
from webcrawl.graph.digraph import Digraph, EdgeWriter, folded
from webcrawl.graph.measures import Measures, measured

MEMORY = 1 << 26


def made(number: int, edges: set[tuple[int, int]], folder: Path) -> Digraph:
    """The graph of some edges, written in two parts that overlap."""
    keys = np.array([source << 32 | target for source, target in sorted(edges)], dtype=np.int64)
    writer = EdgeWriter(number, folder / "forward")
    half = len(keys) // 2
    writer.add(keys[: half + 1])
    writer.add(keys[half:])
    return writer.finished()


@st.composite
def graphs(draw: Any) -> tuple[int, set[tuple[int, int]]]:
    """The number of vertices, and edges between different ones."""
    number = draw(st.integers(1, 12))
    vertex = st.integers(0, number - 1)
    pairs = draw(st.sets(st.tuples(vertex, vertex), max_size=30))
    return number, {(source, target) for source, target in pairs if source != target}


def of_networkx(number: int, edges: set[tuple[int, int]]) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(number))
    graph.add_edges_from(edges)
    return graph


def parts(labels: Any, sizes: Any) -> set[frozenset[int]]:
    """The components as sets of vertices; checks their sizes."""
    found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels.tolist())}
    assert sizes.tolist() == [int(np.sum(labels == label)) for label in range(len(sizes))]
    assert sorted(sizes.tolist(), reverse=True) == sizes.tolist()
    return found


def agree(found: Measures, number: int, edges: set[tuple[int, int]]) -> None:
    graph = of_networkx(number, edges)
    assert found.in_degrees.tolist() == [degree for _, degree in graph.in_degree()]
    assert found.out_degrees.tolist() == [degree for _, degree in graph.out_degree()]
    ranks = networkx.pagerank(graph, alpha=0.85, tol=1e-13, max_iter=1_000)
    assert found.pagerank.ranks.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.pagerank.ranks, list(ranks.values()), rtol=0, atol=1e-7)
    central = networkx.harmonic_centrality(graph)
    np.testing.assert_allclose(found.harmonic.values, list(central.values()), rtol=1e-12)
    assert found.harmonic.error == 0
    weak, strong = networkx.weakly_connected_components, networkx.strongly_connected_components
    assert parts(found.weak.labels, found.weak.sizes) == set(map(frozenset, weak(graph)))
    assert parts(found.strong.labels, found.strong.sizes) == set(map(frozenset, strong(graph)))


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_measures_of_small_graphs_are_those_of_networkx(graph: tuple[int, set[tuple[int, int]]]) -> None:
    with TemporaryDirectory() as folder:
        agree(measured(made(*graph, Path(folder)), Path(folder), MEMORY), *graph)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> tuple[Digraph, Digraph, networkx.DiGraph]:
    """A graph with hubs and a long tail, turned round, and in networkx."""
    folder = tmp_path_factory.mktemp("web")
    source = networkx.scale_free_graph(1_500, seed=3)
    edges = {(one, other) for one, other in source.edges() if one != other}
    edges |= {(number, number + 1) for number in range(1_500, 1_600)}
    graph = made(1_601, edges, folder)
    return graph, graph.reversed(folder / "backward"), of_networkx(1_601, edges)


def test_blocks_chunks_and_hubs_change_no_result(
    web: tuple[Digraph, Digraph, networkx.DiGraph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits are so small here that all parts of a large graph are needed."""
    for module in (digraph, balls, measures):
        monkeypatch.setattr(module, "BLOCK_EDGES", 97)
    for name, value in {"_SOURCES": 64, "_CHUNK_BYTES": 400, "_HUB": 20}.items():
        monkeypatch.setattr(balls, name, value)
    forward, backward, graph = web
    assert len(list(forward.blocks())) > 20 and backward.degrees.max() > 97
    agree(measured(forward, tmp_path, MEMORY), forward.vertices, set(graph.edges()))


def test_estimates_have_the_error_that_they_state(
    web: tuple[Digraph, Digraph, networkx.DiGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, backward, graph = web
    exact = np.array(list(networkx.harmonic_centrality(graph).values()))
    monkeypatch.setattr(balls, "EXACT_COST", 0)
    found = harmonic(forward, backward, 1 << 30)
    assert found.registers == balls.MOST_REGISTERS and found.error == pytest.approx(1.04 / 16)
    known = exact > 0
    # single counters share registers, so their errors depend on each other
    off = (found.values[known] - exact[known]) / exact[known]
    assert np.sqrt(np.mean(off**2)) < 2 * found.error
    np.testing.assert_allclose(found.values[~known], 0)
    order = np.argsort(-found.values)[:10]
    assert set(order) & set(np.argsort(-exact)[:3])
    small = harmonic(forward, backward, 2 * forward.vertices * 64)
    assert small.registers == 64


def test_counters_estimate_sizes_without_bias() -> None:
    """Of 200 sets of each size; sizes below, around and above the number of registers."""
    registers = 64
    for size in (1, 2, 5, 40, 160, 320, 2_000):
        rows = balls.singletons(200 * size, registers).reshape(200, size, registers).max(axis=1)
        found = balls.estimated_sizes(rows)
        assert found.mean() == pytest.approx(size, rel=4 * balls.relative_error(registers) / np.sqrt(200))
        assert found.std() / size < 1.3 * balls.relative_error(registers)


@settings(deadline=None, max_examples=40)
@given(graphs(), st.data())
def test_a_graph_of_groups_has_the_edges_between_them(
    graph: tuple[int, set[tuple[int, int]]], data: st.DataObject
) -> None:
    number, edges = graph
    groups = data.draw(st.lists(st.integers(0, 4), min_size=number, max_size=number))
    with TemporaryDirectory() as folder:
        forward = made(number, edges, Path(folder))
        found = folded(forward, np.array(groups, dtype=np.int32), 5, Path(folder) / "folded")
        sources, targets = found.block(0, 5)
        pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert pairs == sorted({(groups[a], groups[b]) for a, b in edges if groups[a] != groups[b]})
