"""Rows of the pages table for tests of the metadata database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from webcrawl.documents.page import Page

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)


def row(url: str = "https://example.org/", **values: Any) -> dict[str, Any]:
    host = "/".join(url.split("/")[:3])
    return Page(url=url, host=host, fetched_at=NOW).row() | values


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)
