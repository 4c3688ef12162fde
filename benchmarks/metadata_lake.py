"""Measures a table of Iceberg with the rows of table `pages`: for `benchmarks.metadata`."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import seconds_of

_FILE_ROWS = 1_000_000
_CHANGED = 500


def measure_lake(source: str, rows: int, host_pages: int, crawl: str) -> dict[str, float]:
    """Returns the figures. `source` selects the rows by DuckDB; files are sorted by URL, as the lake of a crawl is."""
    import duckdb
    import pyarrow.parquet
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo, In

    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, duckdb.connect() as database:
        folder = Path(name)
        database.execute("SET memory_limit = '2GB'; SET TimeZone = 'UTC'")

        def write(first: int) -> None:
            numbers = f"range({first}, {min(first + _FILE_ROWS, rows)}) AS numbers(n)"
            sql = source.format(
                crawl=crawl, host=f"n // {host_pages}", path=f"n % {host_pages}", numbers=numbers
            )
            file = folder / f"{first:012}.parquet"
            database.execute(f"COPY ({sql}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")

        figures["write s"] = sum(
            seconds_of(lambda first=first: write(first)) for first in range(0, rows, _FILE_ROWS)
        )  # type: ignore[misc]
        files = sorted(folder.glob("*.parquet"))
        figures["B/row"] = sum(file.stat().st_size for file in files) / rows
        catalogue = SqlCatalog(
            "bench", uri=f"sqlite:///{folder}/catalogue.db", warehouse=f"file://{folder}/lake"
        )
        catalogue.create_namespace("bench")
        made = catalogue.create_table("bench.pages", pyarrow.parquet.read_schema(files[0]))
        figures["commit all files s"] = seconds_of(lambda: made.add_files([str(file) for file in files]))

        def url(number: int) -> str:
            host, path = number // host_pages, number % host_pages
            return f"https://www.host{host:09}.example/a/section/page-{path:03}.html"

        some = [url(number * 7919 * 31 % rows) for number in range(_CHANGED)]

        def scanned(condition: Any, count: int) -> None:
            assert made.scan(row_filter=condition).to_arrow().num_rows == count

        looks = [seconds_of(lambda url=url: scanned(EqualTo("url", url), 1)) for url in some[:5]]  # type: ignore[misc]
        figures["look-up ms"] = 1e3 * statistics.median(looks)
        figures["500 look-ups ms"] = 1e3 * seconds_of(lambda: scanned(In("url", some), len(set(some))))
        due = f"SELECT url FROM read_parquet('{folder}/*.parquet') WHERE next_due IS NOT NULL"
        figures["1,000 due ms"] = 1e3 * seconds_of(
            lambda: database.execute(f"{due} ORDER BY next_due LIMIT 1000").fetchall()
        )
        first = pyarrow.parquet.read_table(files[0])
        figures["commit 500 new rows ms"] = 1e3 * seconds_of(lambda: made.append(first.slice(0, _CHANGED)))
        # a changed row replaces its file
        changed = folder / "changed.parquet"
        figures["rewrite a file s"] = seconds_of(
            lambda: pyarrow.parquet.write_table(
                pyarrow.parquet.read_table(files[0]), changed, compression="zstd"
            )
        )
        figures["files"] = len(files)
    return figures
