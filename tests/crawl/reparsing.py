"""Runs `scrapy reparse`, and compares the rows of pages before and after."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.crawls import CHECKOUT, NO_NAMES, scrapy
from webcrawl.stores.reread_rows import READ_FIELDS


def reparse(
    data_dir: Path, *words: str, spider: str = "broad", cwd: Path = CHECKOUT, code: int = 0
) -> subprocess.CompletedProcess[str]:
    options = ("-s", f"DATA_DIR={data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}", "-s", "PROGRESS=off")
    done = scrapy("reparse", spider, *words, *options, cwd=cwd, timeout=120, status=code)
    return done


def summary(data_dir: Path, *words: str, **options: Any) -> dict[str, Any]:
    return dict(json.loads(reparse(data_dir, *words, "--json", **options).stdout))


def rows(data_dir: Path) -> dict[str, dict[str, Any]]:
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        database.row_factory = sqlite3.Row
        return {row["url"]: without_files(dict(row)) for row in database.execute("SELECT * FROM pages")}


def without_files(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row without the files of its text and links: reparse writes these to files of its own."""
    file = r'("stored_(?:text|links)": \{[^}]*)"file": "[^"]*", '
    return row | {"details": row["details"] and re.sub(file, r"\1", row["details"])}


def execute(data_dir: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        database.execute(statement, values)
        database.commit()


def forget_reading(data_dir: Path) -> None:
    """Overwrites all that was read in bodies, except what stays unknown: sitemaps, and whether a read failed."""
    values = {**dict.fromkeys(READ_FIELDS, "old"), "simhash": 7, "length": 1, "published_at": None}
    values |= dict.fromkeys(("extracted", "structured_data"), '{"old": 1}')
    del values["details"], values["processing_error"]
    failed = "processing_error = CASE WHEN processing_error IS NOT NULL THEN 'old' END"
    columns = ", ".join([failed, *(f"{name} = ?" for name in values)])
    execute(data_dir, f"UPDATE pages SET {columns} WHERE warc_file IS NOT NULL", *values.values())


def differences(first: dict[str, Any], second: dict[str, Any], without: Iterable[str] = ()) -> list[Any]:
    assert first.keys() == second.keys()
    return [
        (url, name, value, second[url][name])
        for url, row in first.items()
        for name, value in row.items()
        if name not in without and value != second[url][name]
    ]
