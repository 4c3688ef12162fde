"""Stores the links of pages in a folder, or in an object store by way of a spool folder.

Journals become Parquet files. Their rows are sorted by target: by reversed host, then URL, then time. So a query for
the links to a URL reads one row group of a file. A worker writes all links of a page into the same file, and the footer
of a file has the hashes of all its pages. So a query for the links on a page reads one file.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from webcrawl.config import StoreConfig
from webcrawl.documents.html.link_rows import ELEMENTS
from webcrawl.links.arrow import GROUP_ROWS, footer_of, pyarrow, schema, writer
from webcrawl.links.entry import StoredLinks, pack_entry, unpack_entry
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.journal import JournalReader
from webcrawl.stores.tables.merges import ReplacedFiles
from webcrawl.stores.tables.store import TableFormat, TableStore, table_location
from webcrawl.urls.canonical import as_requested
from webcrawl.urls.reversed_hosts import reversed_host

ROLL_BYTES = 50_000_000
"""The size in bytes at which a journal becomes a Parquet file: about 500,000 links, 5 MB in a Parquet file."""
_LINE_END = ord("\n")
_PART_BYTES = 2_000_000
"""The bytes of a column that are reduced to distinct texts at a time: about 30,000 targets."""
_REQUESTED_OTHERWISE = r"[\[\]\\^`{|}]|\?$"
"""Matches the normalised URLs that Scrapy requests with further escapes, or without an empty query."""

Codes: TypeAlias = NDArray[np.integer[Any]]
"""The number of each row's value among the distinct values."""
Column: TypeAlias = Callable[[int, int], Any]
"""Makes the Arrow array of the rows from the first number up to, and without, the second."""

logger = logging.getLogger(__name__)


class JournalRows:
    """The rows of many pages in memory: 21 bytes each, and distinct targets and texts once for 30,000 rows."""

    def __init__(self) -> None:
        self._entries: list[StoredLinks] = []
        self._lengths = array("i")
        self._blocks, self._elements = bytearray(), bytearray()
        self._targets, self._texts, self._rels = _Words(), _Words(), _Words()

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, entry: StoredLinks) -> None:
        """Adds the rows of a page, and removes them from the entry; raises ValueError if they are damaged."""
        parts = entry.unpacked()
        entry.rows = ()
        self._entries.append(entry)
        self._lengths.append(sum([part.number for part in parts]))
        for part in parts:
            self._blocks += part.blocks
            self._elements += part.elements
            self._targets.add(part.targets)
            self._texts.add(part.texts)
            self._rels.add(part.rels)

    def write(self, path: Path) -> None:
        """Writes the Parquet file; raises OSError."""
        arrow = pyarrow()
        columns = self._columns()
        kinds = [column(0, 0).type for column in columns]
        written = arrow.schema([field.with_type(kind) for field, kind in zip(schema(), kinds, strict=True)])
        with writer(path, written) as made:
            for start in range(0, len(self), GROUP_ROWS):
                arrays = [column(start, start + GROUP_ROWS) for column in columns]
                made.write_table(arrow.Table.from_arrays(arrays, schema=written), GROUP_ROWS)
            made.add_key_value_metadata(
                footer_of((entry.url for entry in self._entries), fetches=len(self._entries))
            )

    def _columns(self) -> list[Column]:
        """Returns the columns of the schema, in the order of the file."""
        arrow, lengths, pages = pyarrow(), np.frombuffer(self._lengths, dtype=np.int32), self._entries
        urls, hosts, ranks = _sorted_targets(*_requested(*self._targets.encoded()))
        order = np.argsort(ranks, kind="stable")
        page = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
        starts = (np.cumsum(lengths) - lengths)[page]
        (texts, text), (rels, rel) = self._texts.encoded(), self._rels.encoded()
        text, rel = text[order], rel[order]
        forbids = np.array(["nofollow" in word.split() for word in rels.to_pylist()], dtype=bool)[rel]
        forbids |= np.array([entry.nofollow for entry in pages], dtype=bool)[page]
        blocks = np.frombuffer(self._blocks, dtype=np.int64)[order]
        elements = np.frombuffer(self._elements, dtype=np.uint8)[order]
        return [
            _few((reversed_host(entry.url) for entry in pages), page),
            _coded(_texts(entry.url for entry in pages), page),
            _ranked(hosts.dictionary, hosts.indices.to_numpy()[ranks[order]]),
            _ranked(urls, ranks[order]),
            _taken(_without_empty(texts), text),
            _taken(_without_empty(rels), rel),
            _coded(_texts(ELEMENTS), elements),
            _sliced(arrow.array(blocks, mask=blocks == 0)),
            _sliced(arrow.array((order - starts).astype(np.int32))),
            _sliced(arrow.array(forbids)),
            _taken(arrow.array([entry.depth for entry in pages], arrow.int32()), page),
            _few((entry.crawl for entry in pages), page),
            _taken(_times(entry.time for entry in pages), page),
            _taken(_times(entry.read_at for entry in pages), page),
        ]


class _Words:
    """A column of texts, each with a line end: the distinct texts of a part of the rows, and their numbers.

    The menus of a site are on each of its pages, so most texts repeat.
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size = 0
        self._parts: list[Any] = []

    def add(self, lines: bytes) -> None:
        """Adds the texts of some rows."""
        self._waiting.append(lines)
        self._size += len(lines)
        if self._size >= _PART_BYTES:
            self._encode()

    def encoded(self) -> tuple[Any, Codes]:
        """Returns the distinct texts as an Arrow array, and for each row the number of its text; frees both."""
        self._encode()
        whole = pyarrow().chunked_array(self._parts).unify_dictionaries()
        self._parts = []
        codes = [part.indices.to_numpy() for part in whole.chunks]
        return whole.chunk(0).dictionary, np.concatenate(codes)

    def _encode(self) -> None:
        lines, self._waiting, self._size = b"".join(self._waiting), [], 0
        ends = np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == _LINE_END)
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        # the texts lose the line ends before each offset
        offsets[1:] = ends - np.arange(len(ends))
        buffers = pyarrow().py_buffer(offsets), pyarrow().py_buffer(lines.replace(b"\n", b""))
        self._parts.append(pyarrow().StringArray.from_buffers(len(ends), *buffers).dictionary_encode())


def _requested(words: Any, codes: Codes) -> tuple[Any, Codes]:
    """Returns distinct targets as they are requested, as in table `pages`, and for each row the number of its target.

    So a link to `?a[]=1` and the page `?a%5B%5D=1`, which are the same URL, are joined.
    """
    arrow = pyarrow()
    rare = arrow.compute.match_substring_regex(words, _REQUESTED_OTHERWISE)
    if not arrow.compute.any(rare).as_py():
        return words, codes
    urls = words.to_pylist()
    for number in np.flatnonzero(rare.to_numpy(zero_copy_only=False)):
        # the process that has read the page may have been taken over by it
        with suppress(ValueError):
            urls[number] = as_requested(urls[number])
    encoded = _texts(urls).dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy()[codes]


def _sorted_targets(words: Any, codes: Codes) -> tuple[Any, Any, Codes]:
    """Returns the sorted distinct targets, their encoded hosts, and the rank of each row's target."""
    arrow = pyarrow()
    hosts = _texts(map(reversed_host, words.to_pylist()))
    table = arrow.table({"host": hosts, "url": words})
    order = arrow.compute.sort_indices(table, [("host", "ascending"), ("url", "ascending")])
    ranks = np.empty(len(words), dtype=np.int32)
    ranks[order.to_numpy()] = np.arange(len(words), dtype=np.int32)
    table = table.take(order).combine_chunks()
    return table["url"].chunk(0), table["host"].chunk(0).dictionary_encode(), ranks[codes]


def _few(texts: Iterable[str], rows: Codes) -> Column:
    """Returns a column of few distinct texts; `rows` has for each row the number of its text."""
    encoded = _texts(texts).dictionary_encode()
    return _coded(encoded.dictionary, encoded.indices.to_numpy()[rows])


def _coded(values: Any, codes: Codes) -> Column:
    """Returns a column of few distinct values, all of which are written in each row group."""

    def rows(start: int, end: int) -> Any:
        return pyarrow().DictionaryArray.from_arrays(codes[start:end], values)

    return rows


def _ranked(values: Any, ranks: Codes) -> Column:
    """Returns a sorted column; `ranks` are the positions of its values in ascending order."""

    def rows(start: int, end: int) -> Any:
        group_ranks = ranks[start:end]
        first, last = (int(group_ranks[0]), int(group_ranks[-1])) if len(group_ranks) else (0, -1)
        kept = values.slice(first, last - first + 1)
        return pyarrow().DictionaryArray.from_arrays(group_ranks - first, kept)

    return rows


def _taken(values: Any, codes: Codes) -> Column:
    return lambda start, end: values.take(pyarrow().array(codes[start:end]))


def _sliced(values: Any) -> Column:
    return lambda start, end: values.slice(start, end - start)


def _texts(texts: Iterable[str]) -> Any:
    return pyarrow().array(list(texts), pyarrow().string())


def _times(microseconds: Iterable[int | None]) -> Any:
    arrow = pyarrow()
    return arrow.array(list(microseconds), arrow.int64()).cast(arrow.timestamp("us", tz="UTC"))


def _without_empty(texts: Any) -> Any:
    """Returns the texts with null for each empty text."""
    arrow = pyarrow()
    return arrow.compute.if_else(arrow.compute.equal(texts, ""), None, texts)


def make_table(journal: Path, path: Path) -> bool:
    """Makes a Parquet file from a journal; returns False if the journal has no rows. Raises OSError."""
    rows, damaged = JournalRows(), 0
    with journal.open("rb") as file:
        reading = JournalReader(file)
        for data in reading:
            try:
                rows.add(unpack_entry(data))
            except ValueError:
                damaged += 1
    if damaged := damaged + reading.damaged:
        logger.warning("%s is damaged: the links of %d pages or more in it are lost", journal, damaged)
    if len(rows):
        rows.write(path)
    return len(rows) > 0


_LINKS = TableFormat("links", make_table)


class LinkStore:
    """Writes the links of pages; see `TableStore`."""

    def __init__(self, folder: Path, crawl: str, *, roll_bytes: int = ROLL_BYTES, **options: Any) -> None:
        pyarrow()
        self._table = TableStore(folder, crawl, _LINKS, roll_bytes=roll_bytes, **options)

    def write(self, entries: Sequence[StoredLinks]) -> str:
        """Appends all links of pages or none; returns the name of their file, without suffix.

        Raises StoreError, or StoreUnavailable when there is no room.
        """
        return self._table.write([pack_entry(entry) for entry in entries])

    def has(self, name: str) -> bool:
        """See `TableStore.has`."""
        return self._table.has(name)

    def close(self) -> None:
        """See `TableStore.close`."""
        self._table.close()


def open_link_store(config: StoreConfig, crawl: str) -> LinkStore:
    """Returns the link store of a crawl; raises StoreError when it cannot be used, LibraryMissing without pyarrow."""
    pyarrow()
    folder, options = table_location(config, config.links)
    store = open_store(config.links, "STORE_URI", config.object_stores)
    return LinkStore(folder, crawl, replaced=ReplacedFiles(store), **options)
