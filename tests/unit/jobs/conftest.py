"""A store of jobs in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from webcrawl.jobs.store import JobStore


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture
def store(uri: str) -> Iterator[JobStore]:
    with JobStore(uri) as store:
        yield store
