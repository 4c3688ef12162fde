"""Stores the text of pages as a table; docs/guide/texts.md lists the columns.

Each entry of its journal is an Arrow record batch of a few pages. A row group of the Parquet file has many of these,
sorted by host and URL.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_intdigest

from webcrawl.config import StoreConfig
from webcrawl.documents.page import Page
from webcrawl.documents.payload import StoredRows
from webcrawl.documents.values import clean
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.tables.journal import JournalReader, finish_journals
from webcrawl.stores.tables.merges import ReplacedFiles, finish_merges, merged_names
from webcrawl.stores.tables.parquet import ascending, parquet_writer, pyarrow
from webcrawl.stores.tables.store import TableFile, TableFormat, TableStore, parquet_files, table_location
from webcrawl.stores.warc.files import prefix_of
from webcrawl.urls.reversed_hosts import reversed_host

logger = logging.getLogger(__name__)

ROLL_BYTES = 40_000_000
"""The size in bytes at which a journal becomes a Parquet file."""
GROUP_BYTES = 8_000_000
"""The bytes of a row group, which is in memory while the file is made."""
_BATCH_CHARACTERS = 500_000
"""The characters of text after which an entry of the journal takes no further page."""

_TEXTS = ("url", "title", "author", "language", "mime_type", "digest", "warc_file")
_NUMBERS = ("status", "warc_offset", "warc_length")
_TIMES = ("fetched_at", "published_at", "read_at")
_PARTS = (("text", "markdown"), ("page_text", "page_markdown"))
"""The columns of the texts of `StoreConfig.text_parts`; the last two are empty unless both parts are stored."""
_REPEATED = ("host", "origin", "author", "language", "mime_type", "warc_file", "crawl", "status", *_TIMES[1:])
"""The columns with few different values, each of which is written once."""
LARGE = (*_PARTS[0], *_PARTS[1], "signals")
"""The columns whose values are too long for statistics."""
_NEVER_EMPTY = ("url", "host", "fetched_at", "text", "origin")
ORDER = ("host", "url", "fetched_at")
"""The columns by which the rows of a row group are sorted."""
_FIRST_COLUMNS = 17
"""The columns of the first version. Later versions have added columns at the end."""


class TextTable:
    """Writes the text of archived pages; see `TableStore`."""

    def __init__(
        self,
        folder: Path,
        crawl: str,
        *,
        parts: Sequence[str] = ("main",),
        with_signals: bool = False,
        roll_bytes: int = ROLL_BYTES,
        **options: Any,
    ) -> None:
        """`parts`: see `StoreConfig.text_parts`. `with_signals`: column `signals` is filled."""
        pyarrow()
        self._crawl = prefix_of(crawl)
        self._parts = parts
        self._with_signals = with_signals
        self._table = TableStore(
            folder, crawl, TableFormat("texts", make_table), roll_bytes=roll_bytes, **options
        )

    def write(self, pages: Sequence[Page]) -> list[StoredRows]:
        """Appends the texts of all pages that have text, or no text; returns where each is stored.

        A text of the same payload that an earlier fetch has stored is not stored again. Raises StoreError, or
        StoreUnavailable when there is no room.
        """
        digests = [_digest(page, self._parts) for page in pages]
        stored = [self._stored(page, digest) for page, digest in zip(pages, digests, strict=True)]
        new = [page for page, text in zip(pages, stored, strict=True) if text is None]
        options = self._crawl, self._parts, self._with_signals
        packed = [_packed(batch, *options) for batch in _batches(new, self._parts)]
        file = self._table.write([batch for batch in packed if batch is not None]) if new else ""
        return [
            text or StoredRows(page.fetched_at, file, digest)
            for page, text, digest in zip(pages, stored, digests, strict=True)
        ]

    def _stored(self, page: Page, digest: str) -> StoredRows | None:
        """Returns the text of an earlier fetch with the payload of a page, if it is the same; None if there is none."""
        text, payload = page.archived.stored_text, page.archived.payload
        if text is None or payload is None or payload.url != page.url or page.archived.read_at is not None:
            return None
        return text if text.digest == digest and self._table.has(text.file) else None

    def close(self) -> None:
        """See `TableStore.close`."""
        self._table.close()


def open_text_table(config: StoreConfig, crawl: str) -> TextTable:
    """Returns the table of a crawl; raises StoreError when it cannot be used, LibraryMissing without pyarrow."""
    pyarrow()
    folder, options = table_location(config, config.tables)
    roll_bytes = min(config.roll_bytes, ROLL_BYTES)
    options |= {"parts": config.text_parts, "with_signals": config.has_signals}
    store = open_store(config.tables, "STORE_URI", config.object_stores)
    return TextTable(folder, crawl, roll_bytes=roll_bytes, replaced=ReplacedFiles(store), **options)


def text_files(config: StoreConfig) -> list[Callable[[], TableFile]]:
    """Returns functions that open the finished files of texts, by name; finishes those of killed processes first.

    Raises StoreError, or LibraryMissing without pyarrow if there are files.
    """
    store = open_store(config.tables, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.tables)
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        finish_journals(folder, make_table)
        if store.folder is not None:
            finish_merges(store)
    return parquet_files(store, leave_out=merged_names(store))


def make_table(journal: Path, path: Path) -> bool:
    """Makes a Parquet file from a journal; returns False if the journal has no rows. Raises OSError."""
    has_rows = False
    with table_writer(path) as writer:
        for group in _groups(journal):
            writer.write_table(group.sort_by(ascending(ORDER)), len(group))
            has_rows = True
    if not has_rows:
        path.unlink()
    return has_rows


def table_writer(path: Path) -> Any:
    """Returns a pyarrow ParquetWriter of a table of texts; row groups must be sorted by ORDER."""
    # the other columns have a different value for each page
    return parquet_writer(path, schema(), ORDER, large=LARGE, use_dictionary=list(_REPEATED))


@cache
def schema() -> Any:
    """Returns the schema of all files. A new column comes last, so that earlier journals can be read."""
    arrow = pyarrow()
    text, time = arrow.string(), arrow.timestamp("us", tz="UTC")
    kinds = (
        dict.fromkeys(("url", "host", *_TEXTS[1:], "crawl"), text)
        | dict.fromkeys(_NUMBERS, arrow.int64())
        | dict.fromkeys(_TIMES, time)
        | dict.fromkeys((*_PARTS[0], "origin", *_PARTS[1]), text)
        | {"signals": arrow.struct(_signal_types())}
    )
    return arrow.schema(
        [arrow.field(name, kind, nullable=name not in _NEVER_EMPTY) for name, kind in kinds.items()]
    )


def with_all_columns(rows: Any) -> Any:
    """Returns rows of a file of any version, an Arrow table, with the columns of `schema`; new columns are null.

    Until version 0.1 `host` was what `origin` is now.
    """
    arrow, values = pyarrow(), {name: rows[name] for name in rows.column_names}
    if "origin" not in values:
        coded = rows["host"].combine_chunks().dictionary_encode()
        hosts = arrow.array(map(reversed_host, coded.dictionary.to_pylist()), arrow.string())
        values |= {"host": hosts.take(coded.indices), "origin": rows["host"]}
    columns = [
        values[field.name].cast(field.type) if field.name in values else arrow.nulls(len(rows), field.type)
        for field in schema()
    ]
    return arrow.Table.from_arrays(columns, schema=schema())


def _digest(page: Page, parts: Sequence[str]) -> str:
    """Returns the XXH3 of what the table has of the text of a page, 64 bits in hexadecimal digits."""
    texts = "\0".join(_texts(page, parts))
    return f"{xxh3_64_intdigest(texts.encode(errors='surrogatepass')):016x}"


def _texts(page: Page, parts: Sequence[str]) -> list[str]:
    reading = page.reading
    return [text or "" for part in parts for text in (reading.text_of(part), reading.markdown_of(part))]


def _batches(pages: Sequence[Page], parts: Sequence[str]) -> Iterator[list[Page]]:
    """Yields pages in lists with at most about _BATCH_CHARACTERS of text."""
    batch: list[Page] = []
    characters = 0
    for page in pages:
        batch.append(page)
        characters += sum(map(len, _texts(page, parts)))
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _packed(pages: list[Page], crawl: str, parts: Sequence[str], with_signals: bool) -> bytes | None:
    """Returns the rows of the pages that have text as an Arrow record batch; None if no page has text.

    Raises ValueError, which names the column, for a value that does not fit.
    """
    from webcrawl.documents.many_lines import lines_of_many  # NumPy is large, and TEXT is off by default

    lines = lines_of_many([page.reading.text_of(parts[0]) for page in pages])
    pages, texts = [page for page, text in zip(pages, lines, strict=True) if text], [*filter(None, lines)]
    if not pages:
        return None
    values: dict[str, list[Any]] = {"read_at": [page.archived.read_at for page in pages]}
    for name in {*_NUMBERS, *_TIMES} - {"read_at"}:
        values[name] = [getattr(page, name) for page in pages]
    for name in _TEXTS:
        values[name] = [clean(str(text)) if (text := getattr(page, name)) else None for page in pages]
    values["host"] = [reversed_host(page.host) for page in pages]
    values["origin"] = [clean(page.host) for page in pages]
    values["crawl"] = [crawl] * len(pages)
    values |= dict.fromkeys(_PARTS[1], [None] * len(pages))
    for part, (text, markdown) in zip(parts, _PARTS, strict=False):
        values[text] = (
            texts if part == parts[0] else lines_of_many([page.reading.text_of(part) for page in pages])
        )
        values[markdown] = [page.reading.markdown_of(part) or None for page in pages]
    values["signals"] = [*map(_signals, pages, texts)] if with_signals else [None] * len(pages)
    columns = [_column(field.name, values[field.name], field.type) for field in schema()]
    return bytes(pyarrow().record_batch(columns, schema=schema()).serialize())


def _signal_types() -> dict[str, Any]:
    from webcrawl.documents.text_signals import COUNTS, OF_PAGE, SHARES

    arrow = pyarrow()
    return dict.fromkeys(COUNTS, arrow.int64()) | dict.fromkeys((*SHARES, *OF_PAGE), arrow.float64())


def _signals(page: Page, text: bytes) -> dict[str, float | None]:
    """Returns the signals of a page and its text, which are empty where they are not known."""
    from webcrawl.documents.text_signals import OF_PAGE, text_signals

    shares = page.reading.shares
    of_page = (*(shares or (None, None)), page.reading.language_score)
    return {**text_signals(text.decode()), **dict(zip(OF_PAGE, of_page, strict=True))}


def _column(name: str, values: list[Any], kind: Any) -> Any:
    arrow = pyarrow()
    try:
        return arrow.array(values, kind)
    except UnicodeEncodeError:  # lone surrogates
        encoded = [None if text is None else text.encode("utf-8", "replace") for text in values]
        return arrow.array(encoded, kind)
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"a value of {name} does not fit the table of texts: {error}") from error


def _groups(journal: Path) -> Iterator[Any]:
    """Yields the rows of a journal as Arrow tables, a row group at a time."""
    arrow, damaged = pyarrow(), 0
    group, size = list[Any](), 0
    with journal.open("rb") as file:
        reading = JournalReader(file)
        for data in reading:
            try:
                group.append(_entry(data))
            except (arrow.ArrowException, OSError):
                damaged += 1
                continue
            size += len(data)
            if size >= GROUP_BYTES:
                yield arrow.concat_tables(group)
                group, size = [], 0
    if damaged := damaged + reading.damaged:
        logger.warning("%s is damaged: the texts of %d pages or more in it are lost", journal, damaged)
    if group:
        yield arrow.concat_tables(group)


def _entry(data: bytes) -> Any:
    """Returns the rows of an entry as an Arrow table; raises ArrowException or OSError if it is damaged.

    An entry does not say how many columns it has, and earlier versions had fewer. Reading too many is an error.
    """
    arrow, fields = pyarrow(), list(schema())
    for most in range(len(fields), _FIRST_COLUMNS - 1, -1):
        try:
            batch = arrow.ipc.read_record_batch(arrow.py_buffer(data), arrow.schema(fields[:most]))
            break
        except (arrow.ArrowException, OSError):
            if most == _FIRST_COLUMNS:
                raise
    return with_all_columns(arrow.Table.from_batches([batch]))
