"""Rows of pages in a metadata database of SQLite, as many at a time as a busy worker stores."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.metadata import at, row
from webcrawl.stores.metadata import Metadata

ROWS = 500


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[Metadata]:
    with Metadata(f"sqlite:///{tmp_path}/metadata.db") as metadata:
        yield metadata


def rows(first: int, visit: int = 0) -> list[dict[str, Any]]:
    """Rows with the fields that most pages have."""
    about = {
        "mime_type": "text/html",
        "title": "An article",
        "description": "What an author says of it. " * 8,
    }
    stored = {"warc_file": "broad-20260101000000000-00001-4711.warc.gz", "warc_length": 12_345}
    return [
        row(
            f"https://www{n % 100}.example.org/articles/{n}/a-title.html",
            fetched_at=at(visit),
            digest=f"sha1:{n}-{visit}",
        )
        | {"status": 200, "etag": f"{n}-{visit}", "warc_offset": n, **about, **stored}
        for n in range(first, first + ROWS)
    ]


def test_rows_of_new_pages(benchmark: BenchmarkFixture, metadata: Metadata) -> None:
    """500 rows of pages that are fetched for the first time."""
    batches = count(step=ROWS)
    benchmark.pedantic(metadata.upsert, setup=lambda: ((rows(next(batches)),), {}), rounds=20)


def test_rows_of_known_pages(benchmark: BenchmarkFixture, metadata: Metadata) -> None:
    """500 rows of pages that are fetched again, the earlier fetch being kept as history."""
    visits = count()
    metadata.upsert(rows(0, next(visits)))
    benchmark.pedantic(metadata.upsert, setup=lambda: ((rows(0, next(visits)),), {}), rounds=20)


def test_reading_a_row(benchmark: BenchmarkFixture, metadata: Metadata) -> None:
    """A row of a page by its URL."""
    batch = rows(0)
    metadata.upsert(batch)
    stored = benchmark(lambda: metadata.get(batch[7]["url"]))
    assert stored is not None and stored["etag"] == "7-0"
