"""The pages look as the pictures in the documentation show them, whatever the fonts of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CHECKOUT

PICTURES = CHECKOUT / "docs" / "pictures"
MOST_APART = 48
"""Pixels by which the left edge and the width of a part may differ."""
MOST_HEIGHT = 0.3
"""The share by which the height of a part may differ, besides two lines of text."""
BLOCK = 16
"""Pixels; finer differences are those of fonts and figures."""
MOST_GREY = 24.0
"""The mean difference in grey, of 255, of the blocks of a part."""
LEAST_CONTRAST = 0.5
"""The least share of the contrast of a part, which what is written in it makes."""

Part = dict[str, Any]


@cache
def drawn() -> dict[str, list[Part]]:
    """The parts of the pages in the documentation."""
    layout: dict[str, list[Part]] = json.loads((PICTURES / "dashboard.json").read_text())
    return layout


def differences(path: Path, parts: Sequence[Part], name: str) -> list[str]:
    """How a picture differs from that of the documentation."""
    from PIL import Image

    names, known = [part["name"] for part in parts], [part["name"] for part in drawn()[name]]
    if names != known:
        return [f"gone: {sorted(set(known) - set(names))}, new: {sorted(set(names) - set(known))}"]
    with Image.open(path) as taken, Image.open(PICTURES / f"{name}.png") as shown:
        pictures = taken.convert("L"), shown.convert("L")
    told = []
    for part, other in zip(parts, drawn()[name], strict=True):
        (x, _, width, height), (left, _, wide, high) = part["box"], other["box"]
        if abs(x - left) > MOST_APART or abs(width - wide) > MOST_APART:
            told.append(f"{part['name']}: at {x}, {width} wide instead of at {left}, {wide} wide")
        elif abs(height - high) > MOST_HEIGHT * high + 2 * 24:
            told.append(f"{part['name']}: {height} high instead of {high}")
        elif looks_otherwise(pictures, (part["box"], other["box"])):
            told.append(f"{part['name']}: looks otherwise")
    return told


def looks_otherwise(pictures: Sequence[Any], boxes: Sequence[Sequence[int]]) -> bool:
    """Whether two pictures of a part differ by more than fonts and figures."""
    from PIL import Image, ImageChops, ImageStat

    cut = [
        picture.crop((x, y, x + width, y + height))
        for picture, (x, y, width, height) in zip(pictures, boxes, strict=True)
    ]
    size = max(1, boxes[1][2] // BLOCK), max(1, boxes[1][3] // BLOCK)
    blocks = [part.resize(size, Image.Resampling.BOX) for part in cut]
    grey = ImageStat.Stat(ImageChops.difference(*blocks)).mean[0]
    taken, shown = (ImageStat.Stat(part).stddev[0] for part in cut)
    return bool(grey > MOST_GREY or taken < LEAST_CONTRAST * shown)


@pytest.fixture
def taken(
    chromium: Any, screenshots: Any, scene: Any, tmp_path: Path
) -> Callable[..., tuple[Path, list[Part]]]:
    """Takes a picture again: its file and parts."""

    def take(name: str, style: str = "") -> tuple[Path, list[Part]]:
        [(path, colours, width)] = [shot[1:] for shot in screenshots.SHOTS if shot[0] == name]
        picture = tmp_path / "picture.png"
        return picture, screenshots.shoot(chromium, scene.address(path), colours, width, picture, style)

    return take


@pytest.mark.slow
def test_the_pages_look_as_in_the_documentation(screenshots: Any, taken: Any) -> None:
    assert [name for name, *_ in screenshots.SHOTS] == list(drawn())
    told = {name: differences(*taken(name), name) for name in drawn()}
    assert not any(told.values()), {name: lines for name, lines in told.items() if lines}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("style", "told"),
    [
        ("", ""),
        ("* { font-family: serif !important }", ""),
        ("#breakdown .card:first-child { display: none }", "'section Responses by status'], new: []"),
        (".columns { grid-template-columns: 1fr 1fr !important }", "section Responses by status: at"),
        (".data tbody { visibility: hidden }", "looks otherwise"),
        (":root { --surface: #555 !important }", "looks otherwise"),
    ],
)
def test_another_font_is_no_difference_but_a_lost_card_is(taken: Any, style: str, told: str) -> None:
    found = differences(*taken("dashboard", style), "dashboard")
    assert any(told in line for line in found) if told else not found, found
