"""Existing stores for digests with 8 bytes of value, beside a sorted table of the project: size, speed, safety.

    python -m benchmarks.duplicate_stores --entries 2e6

Each store gets random digests of 8 bytes in batches of 10,000, which is what an index of payloads does; then batches of
1,000 look-ups, half of which it has. LMDB and rocksdict are no dependencies: pip install lmdb rocksdict.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from webcrawl.stores.sealed.tables import Numbers, NumberSorter, SortedTable, TableShape, TableWriter

_BATCH = 10_000
_ASKED = 1_000
Keys = Sequence[bytes]


class Lmdb:
    """A B+ tree in a mapped file; each batch is synced."""

    def __init__(self, folder: Path) -> None:
        import lmdb

        self._tree: Any = lmdb.open(str(folder), map_size=1 << 36)

    def put(self, keys: Keys) -> None:
        with self._tree.begin(write=True) as writing:
            writing.cursor().putmulti([(key, key) for key in keys])

    def count(self, keys: Keys) -> int:
        with self._tree.begin() as reading:
            return len(reading.cursor().getmulti(keys))

    def close(self) -> None:
        self._tree.close()


class RocksDb:
    """An LSM tree; each batch is synced in its log. Bloom filters of 10 bits."""

    def __init__(self, folder: Path) -> None:
        from rocksdict import BlockBasedOptions, Options, Rdict, WriteBatch, WriteOptions

        options, blocks = Options(raw_mode=True), BlockBasedOptions()
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        self._tree: Any = Rdict(str(folder), options)
        self._batch, self._options = WriteBatch, WriteOptions()
        self._options.sync = True

    def put(self, keys: Keys) -> None:
        batch = self._batch(raw_mode=True)
        for key in keys:
            batch.put(key, key)
        self._tree.write(batch, self._options)

    def count(self, keys: Keys) -> int:
        return sum(value is not None for value in self._tree[list(keys)])

    def close(self) -> None:
        self._tree.flush()
        self._tree.compact_range(None, None)
        self._tree.close()


class Sqlite:
    """A B tree; each batch is synced in its log."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "keys.db", isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE IF NOT EXISTS keys (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        )

    def put(self, keys: Keys) -> None:
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?)", ((key, key) for key in keys))
        self._database.execute("COMMIT")

    def count(self, keys: Keys) -> int:
        ask = "SELECT 1 FROM keys WHERE key = ?"
        return sum(self._database.execute(ask, (key,)).fetchone() is not None for key in keys)

    def close(self) -> None:
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()


class Sorted:
    """A table of the project with all 64 bits, without the names, which are a file of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sorter = NumberSorter(folder, "part")
        self._table: SortedTable | None = None
        self._count = 0

    def put(self, keys: Keys) -> None:
        self._sorter.add(_numbers(keys))
        self._count += len(keys)

    def count(self, keys: Keys) -> int:
        assert self._table
        starts, stops = self._table.ranges(_numbers(keys), 64)
        return int((starts < stops).sum())

    def close(self) -> None:
        writer = TableWriter(self._folder / "table", self._count)
        for numbers in self._sorter.sorted():
            writer.add(numbers)
        self._shape: TableShape = writer.close()
        self._table = SortedTable(self._folder / "table", self._shape)


_STORES: dict[str, Any] = {store.__name__: store for store in (Lmdb, RocksDb, Sqlite, Sorted)}


def _write_forever(store: Any) -> None:
    """Writes batches of keys, and prints the number of each after it was stored."""
    for batch in range(1_000_000):
        store.put(_batch_of(batch))
        print(batch, flush=True)


def _batch_of(batch: int) -> list[bytes]:
    return [(batch * _ASKED + number).to_bytes(8, "big")[::-1] for number in range(_ASKED)]


def _kill_writers() -> None:
    """Kills a writer of each store four times, and prints how many keys of finished batches are lost."""
    for name in ("Lmdb", "RocksDb", "Sqlite"):
        stored = lost = 0
        for seconds in (0.5, 0.8, 1.1, 1.4):
            folder = Path(tempfile.mkdtemp(prefix="stores-"))
            command = [sys.executable, "-m", "benchmarks.duplicate_stores", "--write", name, str(folder)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout
                lines = [writer.stdout.readline()]
                time.sleep(seconds)
                writer.kill()
                lines += writer.stdout.read().splitlines()
            opened = _STORES[name](folder)
            for batch in range(int(lines[-1]) + 1):
                keys = _batch_of(batch)
                stored, lost = stored + len(keys), lost + len(keys) - opened.count(keys)
            opened.close()
            shutil.rmtree(folder)
        print(f"{name}: {stored:,} keys acknowledged in four runs, {lost} lost after kill -9")


def _numbers(keys: Keys) -> Numbers:
    return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--entries", type=float, default=2e6)
    options.add_argument("--kill", action="store_true", help="kill writers instead, and count what is lost")
    options.add_argument("--write", nargs=2, metavar=("STORE", "FOLDER"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.write:
        return _write_forever(_STORES[chosen.write[0]](Path(chosen.write[1])))
    if chosen.kill:
        return _kill_writers()
    entries = int(chosen.entries)
    random = np.random.default_rng(1)
    keys = [key.tobytes() for key in random.integers(0, 2**64, entries, np.uint64, endpoint=False)]
    new = [key.tobytes() for key in random.integers(0, 2**64, 20_000, np.uint64, endpoint=False)]
    asked = [key for pair in zip(new, keys[:: len(keys) // 20_000], strict=False) for key in pair]
    print(
        "| store | bytes an entry | us of CPU to add | seconds to add | us of CPU to look up | look-ups a second |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for store in _STORES.values():
        folder = Path(tempfile.mkdtemp(prefix="stores-"))
        try:
            _measure(store, folder, keys, asked)
        finally:
            shutil.rmtree(folder)


def _measure(store: Any, folder: Path, keys: Keys, asked: Keys) -> None:
    opened, began, cpu = store(folder), time.perf_counter(), time.process_time()
    for batch in _batches(keys, _BATCH):
        opened.put(batch)
    opened.close()
    added, added_cpu = time.perf_counter() - began, time.process_time() - cpu
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if store is not Sorted:
        opened = store(folder)
    began, cpu = time.perf_counter(), time.process_time()
    having = sum(opened.count(batch) for batch in _batches(asked, _ASKED))
    spent, spent_cpu = time.perf_counter() - began, time.process_time() - cpu
    assert having == len(asked) // 2, having
    print(
        f"| {store.__name__} | {size / len(keys):.1f} | {added_cpu / len(keys) * 1e6:.2f} | {added:.0f} | "
        f"{spent_cpu / len(asked) * 1e6:.2f} | {len(asked) / spent:,.0f} |",
        flush=True,
    )


def _batches(items: Keys, size: int) -> Iterable[Keys]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


if __name__ == "__main__":
    main()
