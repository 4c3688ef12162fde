"""Pictures of graphs: well-formed, with every name and the whole distribution."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import lxml.etree as etree
import numpy as np
import pytest

from tests.cases import cases
from webcrawl.graph.plots import _at_least, degrees, top

NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


def tree(picture: str) -> Any:
    return etree.fromstring(picture.encode())


def points(picture: str) -> list[list[tuple[float, float]]]:
    """The points of each curve."""
    found = tree(picture).xpath("//svg:polyline/@points", namespaces=NAMESPACE)
    return [[tuple(map(float, one.split(","))) for one in line.split()] for line in found]


def test_a_power_law_is_a_straight_line() -> None:
    """Of 2^16 vertices, half have two links or more, a quarter four, an eighth eight ..."""
    values = np.concatenate([np.full(2 ** (15 - power), 2**power) for power in [*range(15), 14]])
    (line,) = points(degrees("x", {"links": values}))
    assert len(line) == 15
    slopes = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(line)]
    assert slopes == pytest.approx([slopes[0]] * 14, abs=0.02)


def test_a_curve_has_the_numbers_of_vertices_with_so_many_links() -> None:
    values = np.random.default_rng(1).zipf(1.6, 5_000)
    values[:10] = 0
    numbers, vertices = _at_least(values)
    assert len(numbers) <= 200 and numbers[0] == 1
    assert vertices.tolist() == [int(np.sum(values >= number)) for number in numbers]


@cases("values", [[], [0, 0], [1], [7, 7, 7]])
def test_few_vertices_are_drawn_too(values: list[int]) -> None:
    degrees_of = np.array(values, dtype=np.int32)
    lines = points(degrees("x", {"to": degrees_of, "on": degrees_of}))
    assert [len(line) for line in lines] == [1 if any(values) else 0] * 2


def test_names_are_escaped_and_cut() -> None:
    picture = top("<Pages>", [("http://a.example/?x=<&>", 0.25), (f"http://b.example/{'x' * 99}", 0.125)])
    names = [text.text for text in tree(picture).iterfind("svg:text", NAMESPACE)]
    assert names[:3] == ["<Pages>", "http://a.example/?x=<&>", "25%"]
    assert re.fullmatch(r"\.\.\.x{45}", names[3]) and names[4] == "12.5%"
