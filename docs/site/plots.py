"""Draws the plots of the documentation from the results in benchmarks/results: `make pictures`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "benchmarks" / "results"
PICTURES = CHECKOUT / "docs" / "pictures"

OURS, OTHERS, SECOND = "#00897b", "#9aa5ac", "#c7742c"
FURTHER = ("#8250df", "#9aa5ac", "#0969da", "#bf3989")
WIDTH, LEFT, RIGHT = 760, 215, 70
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.s{fill:#57606a;font-size:12px}"
    ".g{stroke:#d8dee4}.l{fill:none;stroke-width:2.5}"
)

Series = Sequence[tuple[float, float]]


def plots() -> dict[str, str]:
    """Returns name of the file -> SVG, for all plots."""
    side = _results("side-by-side")
    long = _results("long")
    http, http_on = side["webs"]["http"], side.get("when", {}).get("http", side)
    return {
        "pages-a-second.svg": bars(
            "Pages a second, HTTP, a host for each site",
            _machine(http_on),
            [(one["title"], one["pages_per_second"]) for one in http],
        ),
        "cpu-a-page.svg": bars(
            "CPU of crawler and Valkey a page, in milliseconds",
            _machine(http_on),
            [(one["title"], round(one["crawler_ms"] + one["engine_ms"], 1)) for one in http],
        ),
        **_of_a_long_crawl(long),
        "pagerank-fetched.svg": _pagerank(_results("importance")),
        "freshness-of-recrawls.svg": _freshness(_results("recrawl")),
        "importance-caught.svg": _caught(_results("simulate")["order"], _results("simulate")),
    }


def _of_a_long_crawl(long: dict[str, Any]) -> dict[str, str]:
    """The plots of memory and pace."""
    points = long["points"]
    return {
        "memory-of-a-long-crawl.svg": lines(
            "Memory in MB during a crawl of 100,000 pages",
            _machine(long),
            {
                "worker": [(point["pages"], point["worker"]) for point in points],
                "engine": [(point["pages"], point["engine"]) for point in points],
            },
        ),
        "pace-of-a-long-crawl.svg": lines(
            "Pages a second during a crawl of 100,000 pages",
            _machine(long),
            {"pages a second": [(point["pages"], point["pages_per_second"]) for point in points]},
        ),
    }


def _pagerank(importance: dict[str, Any]) -> str:
    """The plot of how early important pages are fetched."""
    return lines(
        f"Part of the PageRank that was fetched, of {importance['pages']:,} pages of documentation",
        _machine(importance),
        {
            name: [
                (round(importance["pages"] * (place + 1) / len(curve)), part)
                for place, part in enumerate(curve[: len(curve) // 2])
            ]
            for name, curve in importance["curves"]["all"].items()
        },
    )


def _caught(order: dict[str, Any], about: dict[str, Any]) -> str:
    """The plot of how early a simulated crawl fetches important pages, without curves that are close to others."""
    fetched = 100 * order["fetches"] / order["urls"]
    return lines(
        f"Percent of all importance that was fetched, of {order['urls']:,} simulated pages",
        _machine(about),
        {
            name: [
                (round(fetched * (number + 1) / len(curve), 3), 100 * part)
                for number, part in enumerate(curve)
            ]
            for name, curve in order["curves"].items()
            if name not in ("by levels of credit", "best")
        },
        "percent of the pages",
    )


def _freshness(recrawl: dict[str, Any]) -> str:
    """The plot of the freshness of a crawl's pages by several policies of fetching them again."""
    names = {
        "webcrawl, with announcements": "with signals",
        "webcrawl": "webcrawl",
        "optimum": "optimum",
        "Nutch, AdaptiveFetchSchedule": "Nutch",
        "uniform": "uniform",
        "proportional to changes": "proportional",
    }
    return lines(
        f"Freshness by weight, a fetch of each of {recrawl['pages']:,} pages in {recrawl['cycle']:g} days on average",
        "a simulation: make bench-recrawl",
        {label: list(enumerate(recrawl["freshness"][name], 1)) for name, label in names.items()},
        "days after the first fetches",
    )


def bars(title: str, note: str, values: Sequence[tuple[str, float]]) -> str:
    """Returns a chart of horizontal bars; those of this project have a colour of their own."""
    most = max(value for _, value in values)
    room = WIDTH - LEFT - RIGHT
    parts = []
    for place, (name, value) in enumerate(values):
        y = 62 + 30 * place
        width = round(room * value / most, 1)
        colour = OURS if name.startswith("webcrawl") else OTHERS
        parts.append(f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{width}" height="21" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + width + 7}" y="{y + 15}">{value:,g}</text>')
    return _svg(title, note, 62 + 30 * len(values) + 10, parts)


def lines(title: str, note: str, series: dict[str, Series], axis: str = "pages") -> str:
    """Returns a chart of lines from 0, over what the axis names."""
    left, top, right, bottom = 60, 62, WIDTH - 130, 320
    last = max(x for points in series.values() for x, _ in points)
    most = max(y for points in series.values() for _, y in points)
    step = next(step for step in _steps() if most <= 5 * step)
    highest = 5 * step

    def at(x: float, y: float) -> tuple[float, float]:
        return round(left + (right - left) * x / last, 1), round(bottom - (bottom - top) * y / highest, 1)

    parts = []
    for number in range(6):
        _, y = at(0, number * step)
        parts.append(f'<line class="g" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text class="s" x="{left - 8}" y="{y + 4}" text-anchor="end">{number * step:,g}</text>'
        )
    apart = next(step for step in _steps() if last <= 5 * step)
    for number in range(int(last / apart) + 1):
        x, _ = at(number * apart, 0)
        parts.append(
            f'<text class="s" x="{x}" y="{bottom + 20}" text-anchor="middle">{number * apart:,g}</text>'
        )
    parts.append(
        f'<text class="s" x="{(left + right) / 2}" y="{bottom + 40}" text-anchor="middle">{axis}</text>'
    )
    ends = _apart({name: at(*points[-1])[1] for name, points in series.items()})
    for (name, points), colour in zip(series.items(), (OURS, SECOND, *FURTHER), strict=False):
        path = " ".join(f"{x},{y}" for x, y in (at(*point) for point in points))
        x, _ = at(*points[-1])
        parts.append(f'<polyline class="l" stroke="{colour}" points="{path}"/>')
        parts.append(f'<text x="{x + 8}" y="{ends[name] + 4}">{escape(name)}</text>')
    return _svg(title, note, bottom + 55, parts)


def _apart(places: dict[str, float]) -> dict[str, float]:
    """Moves labels down that would touch the one above."""
    lowest = float("-inf")
    for name in sorted(places, key=places.__getitem__):
        lowest = places[name] = max(places[name], lowest + 15)
    return places


def _steps() -> Iterator[float]:
    """Yields the distances of a scale: 1, 2, 5, 10, 20, 50 ..."""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _svg(title: str, note: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img">'
    ground = f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>'
    words = f'<text class="t" x="12" y="24">{escape(title)}</text><text class="s" x="12" y="44">{escape(note)}</text>'
    return "\n".join(
        [head, f"<title>{escape(title)}</title><style>{_STYLE}</style>{ground}", words, *parts, "</svg>", ""]
    )


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return f"{results['date']}: {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}"


def _results(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, picture in plots().items():
        (PICTURES / name).write_text(picture)
