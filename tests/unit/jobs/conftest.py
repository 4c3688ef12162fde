"""A store of jobs in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from webcrawl.jobs.store import JobStore


@pytest.fixture
def store(uri: str) -> Iterator[JobStore]:
    with JobStore(uri) as store:
        yield store
