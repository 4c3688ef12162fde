"""Exports to a bucket of a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.s3server import Line, weed_binary
from tests.stores.buckets import NOW
from webcrawl.errors import StoreError
from webcrawl.results.exports.export import MANIFEST, export
from webcrawl.results.exports.parts import JsonLinesPart
from webcrawl.stores.objects.store import open_store

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

FIELDS = {"url": "string", "fetched_at": "time"}
ROWS = [{"url": f"https://a/{n}", "fetched_at": NOW} for n in range(5)]


def exported(where: str, rows: list[dict[str, Any]], *, force: bool = False) -> dict[str, Any]:
    return export(
        rows,
        open_store(where, "--output"),
        JsonLinesPart,
        "date",
        source="the test",
        fields=FIELDS,
        force=force,
    )


def test_an_export_is_written_and_replaced_only_with_force(
    line: Line, bucket: Callable[[], dict[str, bytes]]
) -> None:
    first = exported("s3://pages/a/b", ROWS)
    assert set(bucket()) == {f"a/b/{MANIFEST}", *(f"a/b/{file['name']}" for file in first["files"])}
    with pytest.raises(StoreError, match="s3://pages/a/b has an export of 5 rows"):
        exported("s3://pages/a/b", ROWS[:1])
    second = exported("s3://pages/a/b", ROWS[:1], force=True)
    (name,) = [file["name"] for file in second["files"]]
    found = bucket()
    assert set(found) == {f"a/b/{MANIFEST}", f"a/b/{name}"}
    assert json.loads(found[f"a/b/{name}"]) == {"url": "https://a/0", "fetched_at": NOW.isoformat()}
    assert json.loads(found[f"a/b/{MANIFEST}"]) == second


def test_errors_name_a_missing_or_unreachable_bucket(
    line: Line, bucket: Callable[[], dict[str, bytes]]
) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        exported("s3://no-such-bucket/x", ROWS)
    store = open_store("s3://pages/x", "--output")
    line.cut()
    with pytest.raises(StoreError, match="s3://pages/x"):
        export(ROWS, store, JsonLinesPart, "none", source="the test", fields=FIELDS)
