"""Degrees, PageRank and weak components of a graph in Spark, equal to those of `webcrawl.graph.measures`.

PageRank is the same power iteration with the same end. Components are found by alternating large-star and small-star
steps: R. Kiveris, S. Lattanzi, V. Mirrokni, V. Rastogi and S. Vassilvitskii, "Connected Components in MapReduce and
Beyond" (2014). The number of steps grows with the logarithm of the number of vertices, not with the longest path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webcrawl.graph.measures import DAMPING, TOLERANCE
from webcrawl.graph.spark.tables import SparkTables, Table

_DEGREES = """
    SELECT vertex.id, coalesce(ins.degree, 0) AS in_degree, coalesce(outs.degree, 0) AS out_degree
    FROM {vertices} AS vertex
    LEFT JOIN (SELECT target AS id, count(*) AS degree FROM {edges} GROUP BY target) AS ins ON ins.id = vertex.id
    LEFT JOIN (SELECT source AS id, count(*) AS degree FROM {edges} GROUP BY source) AS outs ON outs.id = vertex.id
"""
_JOINED = (
    "SELECT degrees.*, ranks.rank AS pagerank FROM {degrees} AS degrees JOIN {ranks} AS ranks USING (id)"
)
_FIRST = "SELECT id, out_degree, 1 / {number} AS rank, 0.0D AS before FROM {{degrees}}"
_NEXT = """
    SELECT ranks.id, ranks.out_degree, {damping}D * coalesce(gained.rank, 0) + {base!r}D AS rank, ranks.rank AS before
    FROM {{ranks}} AS ranks LEFT JOIN (
        SELECT edge.target AS id, sum(ranks.rank / ranks.out_degree) AS rank
        FROM {{edges}} AS edge JOIN {{ranks}} AS ranks ON ranks.id = edge.source GROUP BY edge.target
    ) AS gained ON gained.id = ranks.id
"""
_SUMS = """
    SELECT sum(rank), coalesce(sum(rank) FILTER (WHERE out_degree = 0), 0), sum(abs(rank - before)) FROM {ranks}
"""
# an edge joins a vertex to a smaller one
_UNDIRECTED = """
    SELECT DISTINCT greatest(source, target) AS larger, least(source, target) AS smaller FROM {edges}
"""
# joins each larger neighbour of a vertex to the least of all neighbours and the vertex itself
_LARGE_STAR = """
    WITH neighbour AS (
        SELECT larger AS id, smaller AS other FROM {edges} UNION ALL SELECT smaller, larger FROM {edges}
    ), lowest AS (SELECT id, least(id, min(other)) AS centre FROM neighbour GROUP BY id)
    SELECT DISTINCT neighbour.other AS larger, lowest.centre AS smaller FROM neighbour
    JOIN lowest ON lowest.id = neighbour.id
    WHERE neighbour.other > neighbour.id
"""
# joins a vertex and its smaller neighbours to the least of them
_SMALL_STAR = """
    WITH lowest AS (SELECT larger AS id, min(smaller) AS centre FROM {edges} GROUP BY larger)
    SELECT DISTINCT larger, smaller FROM (
        SELECT edge.smaller AS larger, lowest.centre AS smaller FROM {edges} AS edge
        JOIN lowest ON lowest.id = edge.larger WHERE edge.smaller <> lowest.centre
        UNION ALL SELECT id, centre FROM lowest
    )
"""
_STATE = "SELECT count(*), coalesce(sum(CAST(smaller AS DECIMAL(38, 0))), 0) FROM {edges}"
_LABELS = """
    SELECT vertex.id, coalesce(star.smaller, vertex.id) AS label FROM {vertices} AS vertex
    LEFT JOIN {stars} AS star ON star.larger = vertex.id
"""
_SIZES = "SELECT label, count(*) AS component_size FROM {labels} GROUP BY label"
_NUMBERED = "SELECT id, component, component_size FROM {labels} AS labels JOIN {sizes} AS sizes USING (label)"


@dataclass(frozen=True)
class SparkMeasures:
    """Tables by id: the degrees and rank of each vertex, its component; and figures of the whole graph."""

    ranks: Table
    components: Table
    iterations: int


def measured(space: SparkTables, vertices: Table, edges: Table, name: str) -> SparkMeasures:
    """Returns the measures of a graph with at least one vertex. `name`: of the graph, for the folder of tables."""
    degrees = space.written(space.sql(_DEGREES, vertices=vertices, edges=edges), f"{name}-degrees")
    ranks, iterations = _pagerank(space, degrees, edges, name)
    table = space.sql(_JOINED, degrees=degrees, ranks=ranks)
    ranked = space.numbered(table, "pagerank DESC, id", f"{name}-ranked", "pagerank_position", first=1)
    return SparkMeasures(ranked, _components(space, vertices, edges, name), iterations)


def _pagerank(space: SparkTables, degrees: Table, edges: Table, name: str) -> tuple[Table, int]:
    """Returns the rank of each vertex (id, rank), and the number of iterations."""
    number = degrees.count()
    edges = edges.repartition("source").persist()
    ranks = space.sql(_FIRST.format(number=number), degrees=degrees).repartition("id").checkpoint()
    (_, lost, _), change, iterations = space.sql(_SUMS, ranks=ranks).first(), 1.0, 0
    while change >= TOLERANCE:
        query = _NEXT.format(damping=DAMPING, base=(DAMPING * lost + 1 - DAMPING) / number)
        # without a checkpoint, the plan of the query would grow with each iteration
        ranks = space.sql(query, ranks=ranks, edges=edges).checkpoint()
        total, lost, change = space.sql(_SUMS, ranks=ranks).first()
        iterations += 1
    edges.unpersist()
    final = space.sql(f"SELECT id, rank / {total!r}D AS rank FROM {{ranks}}", ranks=ranks)
    return space.written(final, f"{name}-pagerank"), iterations


def _components(space: SparkTables, vertices: Table, edges: Table, name: str) -> Table:
    """Returns the component of each vertex (id, component, component_size), numbered from 0 by decreasing size.

    Components of the same size are in the order of their first vertices.
    """
    labels = component_labels(space, vertices, edges, name)
    sizes = space.sql(_SIZES, labels=labels)
    sizes = space.numbered(sizes, "component_size DESC, label", f"{name}-components", "component")
    return space.sql(_NUMBERED, labels=labels, sizes=sizes)


def component_labels(space: SparkTables, vertices: Table, edges: Table, name: str) -> Table:
    """Returns for each vertex (id) the first vertex (label) that edges (source, target) connect it with."""
    stars: Any = space.sql(_UNDIRECTED, edges=edges).checkpoint()
    state, before = tuple(space.sql(_STATE, edges=stars).first()), None
    while state != before:
        large = space.sql(_LARGE_STAR, edges=stars).checkpoint()
        stars = space.sql(_SMALL_STAR, edges=large).checkpoint()
        state, before = tuple(space.sql(_STATE, edges=stars).first()), state
    return space.written(space.sql(_LABELS, vertices=vertices, stars=stars), f"{name}-labels")
