"""Entries of a link store, and what a program reads of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset

from webcrawl.documents.html.link_rows import LinkRows, pack_rows
from webcrawl.links.entry import StoredLinks

TIME = 1_770_000_000_123_456


def rows(*targets: str, text: str = "", rel: str = "") -> LinkRows:
    """Rows of <a> elements in one block."""
    made = LinkRows()
    for target in targets:
        made.targets.append(target)
        made.texts.append(text)
        made.rels.append(rel)
        made.elements.append(0)
        made.blocks.append(77)
    return made


def entry(url: str, *targets: str, text: str = "", rel: str = "", **fields: Any) -> StoredLinks:
    """The links of a page."""
    packed = pack_rows(rows(*targets, text=text, rel=rel))
    facts = {"crawl": "broad", "depth": 1, "time": TIME, "nofollow": False, "rows": (packed,), **fields}
    return StoredLinks(url=url, **facts)


def table(folder: Path) -> list[dict[str, Any]]:
    """All rows of a store, by page and place."""
    found: list[dict[str, Any]] = dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: (row["from_url"], row["time"], row["place"]))
