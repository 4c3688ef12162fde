"""Reads exports with other programs only, and prints their figures beside what was stored.

    make bench-layout

Pages, links and texts of hosts with a known number of rows are stored, exported in shards, and put into clusters by the
commands. DuckDB, Polars, pyarrow and, if it is installed, Spark then answer the same questions.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.dataset
import pyarrow.parquet

from benchmarks.command import command_line, scrapy, table
from webcrawl.documents.html.link_rows import LinkRows, pack_rows
from webcrawl.documents.page import Page
from webcrawl.links.entry import StoredLinks, microseconds
from webcrawl.links.store import LinkStore
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.tables.texts import TextTable

QUESTIONS = {
    "pages": "SELECT count(*) FROM pages",
    "texts": "SELECT count(*) FROM texts",
    "links": "SELECT count(*) FROM links",
    "links whose page is joined by its host": (
        "SELECT count(*) FROM (SELECT DISTINCT host FROM pages) AS hosts JOIN links ON host = from_host"
    ),
    "texts of the domain a.example": (
        "SELECT count(*) FROM texts WHERE host LIKE 'example.a:%' OR host LIKE 'example.a.%'"
    ),
    "hosts in more than one shard": (
        "SELECT count(*) FROM (SELECT host FROM (SELECT host, shard FROM pages UNION ALL SELECT host, shard FROM texts "
        "UNION ALL SELECT from_host, shard FROM links) AS hosts GROUP BY host HAVING min(shard) <> max(shard)) AS wrong"
    ),
    "sum of SimHashes, signed": "SELECT sum(CAST(simhash AS DECIMAL(38, 0))) FROM pages",
    "pages in clusters": "SELECT count(*) FROM clusters WHERE size > 1",
}
_NOW = datetime(2026, 2, 3, tzinfo=UTC)


def store(folder: Path, hosts: int, pages: int) -> dict[str, int]:
    """Stores pages of hosts; returns the answers to the questions."""
    dice = random.Random(1)
    words = [f"word{number}" for number in range(3_000)]
    links, texts = LinkStore(folder / "links", "layout"), TextTable(folder / "texts", "layout")
    simhashes = 0
    with Metadata(f"sqlite:///{folder}/metadata.db") as metadata:
        for number in range(hosts):
            name = "a" if number < 10 else f"h{number}"
            host = f"https://{'www.' if number % 2 else ''}{name}.example:{9000 + number}"
            made = []
            for page in range(pages):
                url, time = f"{host}/{page}", _NOW + timedelta(hours=page)
                stored = Page(url=url, host=host, fetched_at=time, status=200, simhash=dice.getrandbits(64))
                # pages 2n and 2n + 1 have texts that differ in one word of a hundred
                text = random.Random(f"{host} {page // 2}").choices(words, k=200)
                text[page % 2] = text[100 + page % 2] = f"only{page}"
                stored.main_text = " ".join(text)
                simhash = int(stored.simhash or 0)
                simhashes += simhash - (1 << 64 if simhash >= 1 << 63 else 0)
                targets = [f"{host}/{other}" for other in range(page % 5)]
                if targets:
                    links.write([_links(url, time, targets)])
                made.append(stored)
            metadata.upsert([{**page.row(), "crawl": "layout"} for page in made])
            texts.write(made)
    links.close()
    texts.close()
    total = hosts * pages
    return {
        "pages": total,
        "texts": total,
        "links": hosts * sum(page % 5 for page in range(pages)),
        "links whose page is joined by its host": hosts * sum(page % 5 for page in range(pages)),
        "texts of the domain a.example": 10 * pages,
        "hosts in more than one shard": 0,
        "sum of SimHashes, signed": simhashes,
        "pages in clusters": total - total % 2,
    }


def _links(url: str, time: datetime, targets: list[str]) -> StoredLinks:
    rows = LinkRows()
    rows.add_plain(targets, "text")
    return StoredLinks(url, "layout", 0, microseconds(time), False, (pack_rows(rows),))


def export(folder: Path) -> dict[str, Path]:
    """Writes the tables by the commands; returns their folders by name."""
    commands = {
        "pages": ["export", "--format", "parquet", "--partition", "shard"],
        "texts": ["export", "--format", "texts", "--partition", "shard"],
        "links": ["export", "--format", "links", "--partition", "shard"],
        "clusters": ["copies", "--clusters"],
    }
    for name, words in commands.items():
        command = scrapy(*words, "-o", folder / "out" / name, DATA_DIR=folder)
        subprocess.run(command, check=True, timeout=600)
    return {name: folder / "out" / name for name in commands}


def by_duckdb(folders: Mapping[str, Path]) -> Iterator[Any]:
    connection = duckdb.connect()
    for name, folder in folders.items():
        connection.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).create_view(name)
    for question in QUESTIONS.values():
        yield connection.sql(question).fetchall()[0][0]


def by_polars(folders: Mapping[str, Path]) -> Iterator[Any]:
    frames = {
        name: polars.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=name != "clusters")
        for name, folder in folders.items()
    }
    context = polars.SQLContext(frames)
    for question in QUESTIONS.values():
        yield context.execute(question, eager=True).item()


def by_pyarrow(folders: Mapping[str, Path]) -> Iterator[Any]:
    """Answers the questions that need no SQL."""
    compute = pyarrow.compute
    tables = {
        name: pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
        for name, folder in folders.items()
    }
    hosts = tables["pages"].select(["host"]).group_by("host").aggregate([])
    known = tables["links"].select(["from_host"]).join(hosts, "from_host", "host", join_type="inner")
    texts = tables["texts"]["host"]
    domain = compute.or_(compute.starts_with(texts, "example.a:"), compute.starts_with(texts, "example.a."))
    yield from (len(tables[name]) for name in ("pages", "texts", "links"))
    yield len(known)
    yield compute.sum(domain).as_py()
    shards = {
        (host, shard)
        for name, column in (("pages", "host"), ("texts", "host"), ("links", "from_host"))
        for host, shard in zip(*(tables[name][key].to_pylist() for key in (column, "shard")), strict=True)
    }
    yield len(shards) - len({host for host, _ in shards})
    yield sum(tables["pages"]["simhash"].to_pylist())
    yield compute.sum(compute.greater(tables["clusters"]["size"], 1)).as_py()


def by_spark(folders: Mapping[str, Path]) -> Iterator[Any]:
    """Answers by Spark in local mode; raises ImportError without pyspark."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = session.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        for name, folder in folders.items():
            spark.read.parquet(str(folder)).createOrReplaceTempView(name)
        types = dict(spark.table("pages").dtypes)
        print(
            f"Spark: simhash is {types['simhash']}, fetched_at {types['fetched_at']}, fetches {types['fetches']}"
        )
        for question in QUESTIONS.values():
            yield spark.sql(question).collect()[0][0]
    finally:
        spark.stop()


READERS: Mapping[str, Callable[[Mapping[str, Path]], Iterator[Any]]] = {
    "DuckDB": by_duckdb,
    "Polars": by_polars,
    "pyarrow": by_pyarrow,
    "Spark": by_spark,
}


def report(hosts: int, pages: int) -> int:
    """Prints the table; returns the number of wrong answers."""
    with tempfile.TemporaryDirectory() as name:
        truth = store(Path(name), hosts, pages)
        folders = export(Path(name))
        answers: dict[str, list[Any]] = {}
        for reader, read in READERS.items():
            try:
                answers[reader] = list(read(folders))
            except ImportError as error:
                print(f"{reader} is left out: {error}")
        _print_footers(folders)
    rows = [
        (question, truth[question], *(int(values[number]) for values in answers.values()))
        for number, question in enumerate(QUESTIONS)
    ]
    shown = [(question, *(f"{number:,}" for number in numbers)) for question, *numbers in rows]
    print("\n" + table("| stored:" + "".join(f"| {reader}:" for reader in answers), shown))
    return sum(number != stored for _, stored, *numbers in rows for number in numbers)


def _print_footers(folders: Mapping[str, Path]) -> None:
    for name, folder in folders.items():
        files = sorted(folder.rglob("*.parquet"))
        footer, schema = pyarrow.parquet.read_metadata(files[0]), pyarrow.parquet.read_schema(files[0])
        order = [schema.names[column.column_index] for column in footer.row_group(0).sorting_columns]
        required = sum(not field.nullable for field in schema)
        print(f"{name}: {len(files)} files, sorted by {', '.join(order)}; {required} columns are never empty")


def main() -> None:
    pages = 100, "pages of each host, by default 100"
    options = command_line(__doc__, hosts=100, pages=pages).parse_args()
    sys.exit(1 if report(options.hosts, options.pages) else 0)


if __name__ == "__main__":
    main()
