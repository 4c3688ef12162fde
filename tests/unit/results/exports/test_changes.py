"""Pages that are new, changed or gone since a time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.metadata import NOW, row
from webcrawl.results.exports.changes import COLUMN, changed_since, marked
from webcrawl.stores.metadata import Metadata

SINCE = NOW + timedelta(days=10)
"""The fetches of a page: days after NOW, status and digest; and how it has changed since SINCE."""
PAGES: dict[str, tuple[list[tuple[int, int | None, str]], str | None]] = {
    "unchanged": ([(0, 200, "A"), (11, 200, "A")], None),
    "not fetched again": ([(0, 200, "A"), (5, 200, "B")], None),
    "confirmed": ([(0, 200, "A"), (11, 304, "A")], None),
    "new": ([(11, 200, "A")], "new"),
    "new and changed": ([(11, 200, "A"), (12, 200, "B")], "new"),
    "never there": ([(11, 404, "A")], None),
    "there and gone": ([(11, 200, "A"), (12, 404, "B")], None),
    "changed": ([(0, 200, "A"), (11, 200, "B")], "changed"),
    "changed, then confirmed": ([(0, 200, "A"), (11, 200, "B"), (12, 304, "B")], "changed"),
    "changed and back": ([(0, 200, "A"), (11, 200, "B"), (12, 200, "A")], None),
    "moved": ([(0, 200, "A"), (11, 301, "B")], "changed"),
    "gone": ([(0, 200, "A"), (11, 404, "B")], "gone"),
    "gone for good": ([(0, 200, "A"), (11, 410, "B"), (12, 410, "C")], "gone"),
    "gone before": ([(0, 200, "A"), (5, 404, "B"), (11, 404, "C")], None),
    "back": ([(0, 200, "A"), (5, 404, "B"), (11, 200, "A")], "new"),
    "broken": ([(0, 200, "A"), (11, 500, "B")], None),
    "broken before": ([(0, 200, "A"), (5, 503, "B"), (11, 200, "C")], "changed"),
    "silent": ([(0, 200, "A"), (11, None, "")], None),
}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Metadata:
    metadata = Metadata(f"sqlite:///{tmp_path_factory.mktemp('changes')}/metadata.db")
    for name, (fetches, _) in PAGES.items():
        for day, status, digest in fetches:
            facts = {"status": status, "digest": digest or None, "fetched_at": NOW + timedelta(days=day)}
            metadata.upsert([row(f"https://example.org/{name}", **facts)])
    return metadata


def test_pages_are_marked_with_their_change(metadata: Metadata) -> None:
    rows = metadata.scan(where=[changed_since(SINCE)])
    changes = {row["url"].rpartition("/")[2]: row[COLUMN] for row in marked(rows, SINCE, metadata.history)}
    assert changes == {name: change for name, (_, change) in PAGES.items() if change}


def test_a_page_that_became_an_error_page_is_gone(tmp_path: Path) -> None:
    with Metadata(f"sqlite:///{tmp_path}/metadata.db") as metadata:
        for day, soft_404 in ((0, False), (11, True)):
            fetched_at = NOW + timedelta(days=day)
            facts = {"status": 200, "digest": str(day), "fetched_at": fetched_at, "soft_404": soft_404}
            metadata.upsert([row(**facts)])
        rows = metadata.scan(where=[changed_since(SINCE)])
        assert [row[COLUMN] for row in marked(rows, SINCE, metadata.history)] == ["gone"]
