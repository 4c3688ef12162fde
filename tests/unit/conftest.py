"""Fixtures of metadata databases: SQLite files and databases on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from webcrawl.stores.metadata import Metadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "metadata.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request: pytest.FixtureRequest, path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def metadata(uri: str) -> Iterator[Metadata]:
    with Metadata(uri, history=3) as it:
        yield it


@pytest.fixture
def in_sqlite(path: Path) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{path}") as it:
        yield it
