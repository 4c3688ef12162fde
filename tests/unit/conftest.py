"""Fixtures of metadata databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from webcrawl.stores.metadata import Metadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The SQLite file of `uri`."""
    return tmp_path / "folder" / "metadata.db"


@pytest.fixture
def metadata(uri: str) -> Iterator[Metadata]:
    with Metadata(uri, history=3) as it:
        yield it


@pytest.fixture
def in_sqlite(path: Path) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{path}") as it:
        yield it


@pytest.fixture(params=["sqlite", "postgresql"])
def new_uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Returns the URI of a new empty database."""
    if request.param == "sqlite":
        numbers = iter(range(100))
        yield lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with ExitStack() as stack:
            yield lambda: stack.enter_context(server.database())
