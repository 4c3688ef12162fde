"""Learning what URLs are worth."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pytest

from tests.unit.links.rows import TIME, entry
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links.sources import LinkFiles, link_files
from webcrawl.links.store import LinkStore
from webcrawl.mining.training import Examples, learn
from webcrawl.mining.workspace import Workspace
from webcrawl.policies.learned_value import BITS, ValueModel, features

HOST = "http://a.example"
PAGES = [
    *(("url", pyarrow.string()), ("depth", pyarrow.int32()), ("referrer", pyarrow.string())),
    ("sound", pyarrow.bool_()),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as workspace:
        workspace.load_links(LinkFiles([], 0, []))
        yield workspace
    assert list(tmp_path.iterdir()) == []


def add(workspace: Workspace, values: dict[str, float | None], referrer: str | None = None) -> None:
    page = {"depth": 2, "referrer": referrer, "sound": True}
    rows = [{**page, "url": url, "value": value} for url, value in values.items()]
    workspace.add(
        "pages", pyarrow.Table.from_pylist(rows, pyarrow.schema([*PAGES, ("value", pyarrow.float64())]))
    )


def level(value: ValueModel, path: str, text: str = "") -> float:
    return value.levels(features(HOST, path, 2, "", text))


def test_sections_are_told_apart(workspace: Workspace) -> None:
    dice = random.Random(1)
    values = {f"{HOST}/articles/{number}/": dice.uniform(500, 3000) for number in range(100)}
    values |= {f"{HOST}/users/{number}/": dice.uniform(0, 100) for number in range(100)}
    add(workspace, {**values, f"{HOST}/unknown": None, "no URL": 5.0})
    lesson = learn(workspace, "text")
    assert (lesson.pages, lesson.value.target) == (200, "text")
    assert lesson.explained is not None and lesson.explained > 0.7
    assert level(lesson.value, "/articles/7777/") > 1 > 0 > -1 > level(lesson.value, "/users/7777/")


def test_few_pages_are_enough_for_what_is_clear(workspace: Workspace) -> None:
    values = {f"{HOST}/articles/{number}/": 1_000.0 * (1 + number % 3) for number in range(56)}
    values |= {f"{HOST}/users/{number}/": 50.0 + number for number in range(3)}
    add(workspace, values)
    value = learn(workspace, "text").value
    # almost four standard deviations below the mean
    assert value.score(features(HOST, "/users/7777/", 2, "", "")) < -3


def test_noise_changes_no_level(workspace: Workspace) -> None:
    """What cannot be predicted is not: a model must not prefer pages at random."""
    dice = random.Random(1)
    add(workspace, {f"{HOST}/page/{number}": dice.uniform(0, 3000) for number in range(400)})
    lesson = learn(workspace, "text")
    assert lesson.explained is not None and lesson.explained < 0.1
    assert abs(level(lesson.value, "/page/7777")) < 0.5


def test_the_text_of_the_first_link_counts(workspace: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    store, values = LinkStore(folder, "broad"), {}
    for number in range(60):
        for one, (kind, value) in enumerate((("review", 900.0), ("advertisement", 1.0))):
            url = f"{HOST}/p/{2 * number + one}"
            values[url] = value
            # what links later, and what a page says of itself, does not count
            store.write([entry(f"{HOST}/late", url, text="other", time=TIME + 9)])
            store.write([entry(url, url, text="other", time=TIME - 9)])
            store.write([entry(f"{HOST}/first{number}", url, text=kind)])
    store.close()
    config = StoreConfig("", "", tmp_path, links=folder.as_uri())
    workspace.load_links(link_files(config))
    add(workspace, values, referrer=f"{HOST}/other")
    lesson = learn(workspace, "text")
    assert level(lesson.value, "/p/99", "a review") > 1 > -1 > level(lesson.value, "/p/99", "Advertisement!")
    workspace.run("DELETE FROM links")
    workspace.load_links(link_files(config), crawl="another")
    assert workspace.run("SELECT count(*) FROM first_links").fetchone() == (0,)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_workers_compute_what_was_learned() -> None:
    """The rows of the matrix are the features that workers add up: both sides hash alike."""
    dice, examples = random.Random(3), Examples()
    table = array("f", [dice.gauss(0, 1) for _ in range(1 << BITS)])
    urls = [(f"/a{number}/b-c-d.html?x=1&x=2", number, f"word {number} wörd wörd") for number in range(20)]
    for path, depth, text in urls:
        examples.add(HOST + path, depth, f"{HOST}/from", text, 1.0, is_sound=True)
    learned = examples.matrix() @ np.array(table) + 0.5
    value = ValueModel("text", 0.5, table)
    found = [value.score(features(HOST, path, depth, f"{HOST}/from", text)) for path, depth, text in urls]
    assert found == pytest.approx(list(learned), abs=1e-4)


@pytest.mark.parametrize(
    ("number", "value", "why"),
    [
        (0, 1.0, "0 pages have a value 'text', and 50 are needed"),
        (49, 1.0, "49 pages"),
        (60, 7.0, "'text' is the same for all 60 pages"),
    ],
)
def test_nothing_to_learn_is_an_error(workspace: Workspace, number: int, value: float, why: str) -> None:
    add(workspace, {f"{HOST}/{one}": value for one in range(number)})
    with pytest.raises(StoreError, match=why):
        learn(workspace, "text")
