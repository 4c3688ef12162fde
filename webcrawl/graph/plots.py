"""Two plots of a graph as SVG: the distribution of degrees, and the vertices with the highest PageRank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

_WIDTH = 760
_COLOURS = ("#00897b", "#c7742c")
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.s{fill:#57606a;font-size:12px}"
    ".g{stroke:#d8dee4}.l{fill:none;stroke-width:2}"
)
_POINTS = 200
_LONGEST_NAME = 48


def degrees(title: str, series: dict[str, npt.NDArray[Any]]) -> str:
    """Returns the curves of degree distributions with logarithmic axes.

    A curve shows for each k the number of vertices with at least k links. It needs no bins, and a power law is a
    straight line (A. Clauset, C. R. Shalizi and M. E. J. Newman, "Power-Law Distributions in Empirical Data", 2009).
    """
    left, top, right, bottom = 80, 62, _WIDTH - 120, 380
    curves = {name: _at_least(values) for name, values in series.items()}
    widest = _decades(max((float(x[-1]) for x, _ in curves.values() if len(x)), default=1))
    highest = _decades(max((float(y[0]) for _, y in curves.values() if len(y)), default=1))

    def across(x: float) -> float:
        return round(left + (right - left) * math.log10(x) / widest, 1)

    def up(y: float) -> float:
        return round(bottom - (bottom - top) * math.log10(y) / highest, 1)

    parts = []
    for power in range(highest + 1):
        y = up(10**power)
        parts.append(f'<line class="g" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(_text(left - 8, y + 4, f"{10**power:,}", "end"))
    for power in range(widest + 1):
        x = across(10**power)
        parts.append(f'<line class="g" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 20, f"{10**power:,}", "middle"))
    parts.append(_text((left + right) / 2, bottom + 42, "links or more", "middle"))
    for number, (name, (x_values, y_values)) in enumerate(curves.items()):
        points = " ".join(f"{across(x)},{up(y)}" for x, y in zip(x_values, y_values, strict=True))
        colour = _COLOURS[number]
        parts.append(f'<polyline class="l" stroke="{colour}" points="{points}"/>')
        parts.append(
            f'<rect x="{right + 16}" y="{top + 22 * number}" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(f'<text x="{right + 34}" y="{top + 11 + 22 * number}">{escape(name)}</text>')
    return _svg(title, bottom + 56, parts)


def top(title: str, values: Sequence[tuple[str, float]]) -> str:
    """Returns a chart with a horizontal bar for each name."""
    left, right = 330, 70
    most = max(value for _, value in values)
    parts = []
    for number, (name, value) in enumerate(values):
        y = 44 + 24 * number
        width = round((_WIDTH - left - right) * value / most, 1)
        shown = name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(shown)}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{width}" height="17" rx="2" fill="{_COLOURS[0]}"/>')
        parts.append(f'<text x="{left + width + 6}" y="{y + 13}">{100 * value:.3g}%</text>')
    return _svg(title, 44 + 24 * len(values) + 10, parts)


def _at_least(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns at most _POINTS degrees from 1, and the numbers of vertices with at least these degrees."""
    counts = np.bincount(values[values > 0], minlength=1)
    numbers = np.flatnonzero(counts)
    vertices = np.cumsum(counts[numbers][::-1])[::-1]
    chosen = np.unique(np.geomspace(1, max(len(numbers), 1), _POINTS).astype(int)) - 1
    chosen = chosen[chosen < len(numbers)]
    return numbers[chosen], vertices[chosen]


def _decades(value: float) -> int:
    """Returns the exponent of the least power of ten that is at least `value`; at least 1."""
    return max(1, math.ceil(math.log10(value)))


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="s" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" width="{_WIDTH}" role="img">'
    ground = f'<rect width="{_WIDTH}" height="{height:g}" fill="#fff"/>'
    words = f'<text class="t" x="12" y="26">{escape(title)}</text>'
    return "\n".join(
        [head, f"<title>{escape(title)}</title><style>{_STYLE}</style>{ground}", words, *parts, "</svg>", ""]
    )
