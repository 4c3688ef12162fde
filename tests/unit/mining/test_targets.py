"""What pages are worth, by the name of a target."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.cases import cases
from tests.metadata import row
from tests.unit.links.rows import TIME, entry
from webcrawl.config import StoreConfig
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.links.sources import LinkFiles, link_files
from webcrawl.links.store import LinkStore
from webcrawl.mining.targets import Target
from webcrawl.mining.workspace import Workspace
from webcrawl.stores.chosen_columns import ChosenColumns
from webcrawl.stores.metadata import Metadata

A, B, C, D = (f"http://a.example/{name}" for name in "abcd")
GOOD: dict[str, Any] = {"status": 200, "duplicate_of": None, "soft_404": False}


@cases(
    ("name", "fields", "value"),
    [
        ("text", {"details": {"text_length": 12}}, 12.0),
        ("text", {"details": {"pages": 3}}, None),
        ("text", {"details": None}, None),
        ("text", {"details": {"text_length": 12}, "status": 404}, 0.0),
        ("text", {"details": {"text_length": 12}, "status": None}, None),
        ("text", {"details": None, "duplicate_of": A}, 0.0),
        ("text", {"details": {"text_length": 12}, "soft_404": True}, 0.0),
        ("links", {}, 1.0),
        ("links", {"status": 301}, 0.0),
        ("importance", {"importance": 1.5, "status": 404}, 1.5),
        ("importance", {"importance": None}, None),
        ("details.price", {"details": {"price": 3}}, 3.0),
        ("details.price", {"details": {"price": "3"}}, None),
        ("details.price", {"details": [3]}, None),
        ("wanted", {"wanted": True}, 1.0),
        ("wanted", {"wanted": Decimal("2.5")}, 2.5),
        ("wanted", {"wanted": float("nan")}, None),
        ("wanted", {"wanted": "yes"}, None),
    ],
)
def test_the_value_of_a_page(name: str, fields: dict[str, Any], value: float | None) -> None:
    assert Target.named(name).value({**GOOD, **fields}) == value


@pytest.fixture
def columns(uri: str, metadata: Metadata) -> Iterator[ChosenColumns]:
    metadata.upsert(
        [
            row(A, crawl="one", depth=1, referrer=B, status=200, details={"text_length": 50}),
            row(B, crawl="one", depth=0, status=200, importance=2.5),
            row(C, crawl="two", depth=3, status=404),
        ]
    )
    with create_engine(uri).begin() as connection:
        connection.execute(text('ALTER TABLE pages ADD COLUMN "my ""wish""" DOUBLE PRECISION'))
        connection.execute(text(f'UPDATE pages SET "my ""wish""" = 7.5 WHERE url = \'{A}\''))
    columns = ChosenColumns(uri)
    yield columns
    columns.close()


def loaded(columns: ChosenColumns, name: str, folder: Path, crawl: str | None = None) -> dict[str, Any]:
    with Workspace(folder) as workspace:
        workspace.load_links(LinkFiles([], 0, []))
        workspace.load_pages(columns, Target.named(name), crawl)
        return {url: rest for batch in workspace.rows("FROM pages") for url, *rest in batch}


def test_pages_are_loaded_with_their_values(columns: ChosenColumns, tmp_path: Path) -> None:
    rows = {A: [1, B, 50, True, 50.0], B: [0, None, None, True, None], C: [3, None, None, False, 0.0]}
    assert loaded(columns, "text", tmp_path) == rows
    assert loaded(columns, "text", tmp_path, crawl="two") == {C: rows[C]}
    assert [value for *_, value in loaded(columns, "importance", tmp_path).values()] == [None, 2.5, None]
    assert [value for *_, value in loaded(columns, 'my "wish"', tmp_path).values()] == [7.5, None, None]


def test_a_column_must_exist_and_have_numbers(columns: ChosenColumns) -> None:
    for name in ("depth", 'my "wish"', "soft_404"):
        columns.check_number(name)
    with pytest.raises(
        ConfigurationError, match="'titel' is no column of table pages; these columns have: att"
    ):
        columns.check_number("titel")
    with pytest.raises(ConfigurationError, match="'title' has no numbers"):
        columns.check_number("title")
    with pytest.raises(ConfigurationError, match="is no column"):
        columns.check_number("depth; DROP TABLE pages")
    assert len(list(columns.scan(["depth"]))) == 1, "nothing was dropped"


def test_new_links_are_those_that_no_page_had_before(columns: ChosenColumns, tmp_path: Path) -> None:
    store = LinkStore(tmp_path / "links", "one")
    store.write(
        [entry(B, A, C, A, B), entry(A, C, D, time=TIME + 1), entry(C, "http://b.example/", time=TIME + 2)]
    )
    store.close()
    files = link_files(StoreConfig("", "", tmp_path, links=(tmp_path / "links").as_uri()))
    with Workspace(tmp_path) as workspace:
        workspace.load_links(files)
        workspace.load_pages(columns, Target.named("links"))
        found = {
            url: value for batch in workspace.rows("SELECT url, value FROM pages") for url, value in batch
        }
    assert found == {A: 1.0, B: 2.0, C: 0.0}, "C is an error page"


def test_damaged_links_are_named(tmp_path: Path) -> None:
    store = LinkStore(tmp_path / "links", "one")
    store.write([entry(A, B)])
    store.close()
    (path,) = (tmp_path / "links").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    files = link_files(StoreConfig("", "", tmp_path, links=(tmp_path / "links").as_uri()))
    with Workspace(tmp_path) as workspace, pytest.raises(StoreError, match=path.name):
        workspace.load_links(files)
