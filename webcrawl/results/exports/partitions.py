"""The folders of an export: partitions by crawl, day or shard, whose names Hive, Spark and DuckDB read as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import xxhash

from webcrawl.results.exports.parts import Row
from webcrawl.stores.tables.journal import SUFFIX
from webcrawl.stores.tables.parquet import SpooledFile, pyarrow

Partition = Literal["date", "crawl", "shard", "host", "none", "cc-index"]
OPEN_FILES = 64
FILE_BYTES = 500_000_000
SHARDS = 64
_HOST_PARTS = 16
# the name of Hive for a partition without a value
_NONE = "__HIVE_DEFAULT_PARTITION__"


class PartitionColumns(NamedTuple):
    """The columns of a table that its partitions are computed from: the reversed host of a page, and a time."""

    host: str
    time: str


def crawl_folder(crawl: str | None) -> str:
    return f"crawl={quote(crawl or _NONE, safe='')}"


def shard_folder(host: str) -> str:
    """Returns the folder of a reversed host, which is the same in all tables."""
    return f"shard={xxhash.xxh3_64_intdigest(host.encode()) % SHARDS:02}"


PARTITIONS: Mapping[str, Callable[[Row], str]] = {
    "date": lambda row: f"date={row['fetched_at']:%Y-%m-%d}",
    "crawl": lambda row: crawl_folder(row["crawl"]),
    "shard": lambda row: shard_folder(row["host"]),
    "host": lambda row: f"part={xxhash.xxh3_64_intdigest(row['host'].encode()) % _HOST_PARTS:02}",
    "none": lambda row: "",
    "cc-index": lambda row: f"{crawl_folder(row['crawl'])}/subset={row['subset']}",
}
"""The folder of a row of pages by the name of the partition.

By the day (UTC) of the fetch, by crawl, by host into `SHARDS` folders or into 16 of another name, none, or as in Common
Crawl.
"""


def folders(rows: Any, partition: str, columns: PartitionColumns) -> Any:
    """Returns for each row of an Arrow table the folder of its partition, dictionary-encoded.

    `partition`: "date", "crawl", "shard" or "none".
    """
    arrow = pyarrow()
    if partition == "none":
        return arrow.array([""] * len(rows)).dictionary_encode()
    if partition == "date":
        days = arrow.compute.strftime(rows[columns.time], format="date=%Y-%m-%d")
        return days.combine_chunks().dictionary_encode()
    name, folder = (columns.host, shard_folder) if partition == "shard" else ("crawl", crawl_folder)
    coded = rows[name].fill_null("").combine_chunks().dictionary_encode()
    names = arrow.array([folder(value) for value in coded.dictionary.to_pylist()], arrow.string())
    return names.take(coded.indices).dictionary_encode()


def write_partitions(
    tables: Iterable[Any],
    folder: Path,
    stem: str,
    split: Callable[[Any], Any],
    opened: Callable[[Path], SpooledFile],
) -> dict[str, int]:
    """Writes Arrow tables to files in the folders of their partitions; returns their numbers of rows by name.

    `split` returns for each row its folder, as `folders` does. `opened` makes a file, of which OPEN_FILES are open at
    most. Names begin with `stem`.
    """
    counts: dict[str, int] = {}
    files: dict[str, tuple[str, SpooledFile]] = {}
    for rows in tables:
        coded = split(rows)
        for code, key in enumerate(coded.dictionary.to_pylist()):
            if key not in files and len(files) >= OPEN_FILES:
                files.pop(next(iter(files)))[1].close()
            # moves the file to the end, so that the first file is the least recently written
            if key in files:
                name, file = files.pop(key)
            else:
                name, file = _begun(folder, key, f"{stem}-{len(counts):05}", opened)
            files[key] = name, file
            chosen = rows.filter(pyarrow().compute.equal(coded.indices, code))
            file.write(chosen)
            counts[name] = counts.get(name, 0) + len(chosen)
            if file.size() >= FILE_BYTES:
                files.pop(key)[1].close()
    for _, file in files.values():
        file.close()
    return counts


def _begun(
    folder: Path, key: str, stem: str, opened: Callable[[Path], SpooledFile]
) -> tuple[str, SpooledFile]:
    name = f"{key}/{stem}{SUFFIX}" if key else stem + SUFFIX
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return name, opened(folder / name)
