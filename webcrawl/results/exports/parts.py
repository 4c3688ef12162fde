"""The fields and files of an export: Parquet, JSON Lines or CSV, written in bounded memory; also fields of EXTRACT."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import BigInteger, Boolean, Float, Integer
from sqlalchemy.types import TypeEngine

from webcrawl.config.extraction import ExtractRule, field_types
from webcrawl.documents.values import harmless, plain
from webcrawl.errors import ConfigurationError
from webcrawl.stores.columns import Structure, Unsigned64, UtcTime, pages
from webcrawl.stores.tables.parquet import SpooledFile, parquet_writer, pyarrow
from webcrawl.urls.reversed_hosts import reversed_host

Row = Mapping[str, Any]

NOT_NULL = " not null"
"""The end of the type of a field that is never empty."""
_ORDER = ("host", "url")
_LARGE = ("text", "markdown")

_KINDS: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    # the first match counts, because a BigInteger is also an Integer
    (UtcTime, "time"),
    (Unsigned64, "int64"),
    (Structure, "json"),
    (BigInteger, "int64"),
    (Integer, "int32"),
    (Float, "double"),
    (Boolean, "boolean"),
)


def _kind(column_type: TypeEngine[Any], *, nullable: bool) -> str:
    kind = next((kind for known, kind in _KINDS if isinstance(column_type, known)), "string")
    return kind if nullable else kind + NOT_NULL


FIELDS: Mapping[str, str] = {
    column.name: _kind(column.type, nullable=bool(column.nullable)) for column in pages.columns
} | {"origin": "string" + NOT_NULL}
"""The columns of table `pages` and `origin`, with types that all formats share.

The types are string, int32, int64, double, boolean, time (UTC, microseconds) and json, with " not null" after those of
fields that are never empty. Fields of EXTRACT may also be strings, a list of texts. `host` is the reversed host as in
the tables of links, `origin` what table `pages` has as `host`.
"""
_UNSIGNED = tuple(column.name for column in pages.columns if isinstance(column.type, Unsigned64))


def exported_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields rows of table `pages` with the columns of an export.

    Hashes of 64 bits are in two's complement, because Spark and Iceberg have no unsigned integers.
    """
    for row in rows:
        hashes = {name: _signed(row[name]) for name in _UNSIGNED}
        yield {**row, **hashes, "host": reversed_host(row["host"]), "origin": row["host"]}


def _signed(number: int | None) -> int | None:
    return number if number is None or number < 1 << 63 else number - (1 << 64)


class ExportPart(ABC):
    """A file of an export; its name ends with `suffix`."""

    suffix: str

    def __init__(self, path: Path | TextIO, fields: Mapping[str, str] = FIELDS) -> None:
        """Creates the file `path`; text may go to an open file. `fields`: types by name, as in `FIELDS`."""
        self._fields = fields
        self._path = path

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Appends rows that have the fields."""

    def size(self) -> int:
        """Returns about how many bytes the file has."""
        return self._path.stat().st_size if isinstance(self._path, Path) else 0

    @abstractmethod
    def close(self) -> None:
        """Finishes the file."""


class ParquetPart(ExportPart):
    """A Parquet file, sorted by host and URL if the rows have them; see `SpooledFile`."""

    suffix = ".parquet"

    def __init__(self, path: Path, fields: Mapping[str, str] = FIELDS) -> None:
        super().__init__(path, fields)
        self._schema = arrow_schema(fields)
        order = [name for name in _ORDER if name in fields]
        self._file = SpooledFile(
            path, self._schema, order, lambda path: parquet_writer(path, self._schema, order, large=_LARGE)
        )

    def write(self, rows: Sequence[Row]) -> None:
        flat = [_flat(row, self._fields) for row in rows]
        self._file.write(pyarrow().Table.from_pylist(flat, schema=self._schema))

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


def arrow_schema(fields: Mapping[str, str]) -> Any:
    """Returns the Arrow schema of fields with types as in `FIELDS`."""
    arrow = pyarrow()
    types = {
        "string": arrow.string(),
        "binary": arrow.binary(),
        "int16": arrow.int16(),
        "int32": arrow.int32(),
        "int64": arrow.int64(),
        "double": arrow.float64(),
        "boolean": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "json": arrow.string(),
        "strings": arrow.list_(arrow.string()),
    }
    return arrow.schema(
        [
            arrow.field(name, types[kind.removesuffix(NOT_NULL)], nullable=not kind.endswith(NOT_NULL))
            for name, kind in fields.items()
        ]
    )


class JsonLinesPart(ExportPart):
    """One JSON object per line, without fields that are null."""

    suffix = ".jsonl"

    def __init__(self, path: Path | TextIO, fields: Mapping[str, str] = FIELDS) -> None:
        super().__init__(path, fields)
        self._file = path.open("w", encoding="utf-8") if isinstance(path, Path) else path

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            known = {name: value for name in self._fields if (value := row[name]) is not None}
            self._file.write(json.dumps(plain(known), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


class CsvPart(ExportPart):
    """RFC 4180 with a header line. A field may contain JSON; null is empty; see `harmless` for formulas."""

    suffix = ".csv"

    def __init__(self, path: Path | TextIO, fields: Mapping[str, str] = FIELDS) -> None:
        super().__init__(path, fields)
        self._file = path.open("w", encoding="utf-8", newline="") if isinstance(path, Path) else path
        self._writer = csv.writer(self._file)
        self._writer.writerow(fields)

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            flat = _flat(row, self._fields, as_json=("json", "strings"))
            self._writer.writerow([harmless(plain(flat[name])) for name in self._fields])

    def close(self) -> None:
        self._file.close()


FORMATS: Mapping[str, type[ExportPart]] = {"parquet": ParquetPart, "jsonl": JsonLinesPart, "csv": CsvPart}


def _flat(row: Row, fields: Mapping[str, str], as_json: Sequence[str] = ("json",)) -> dict[str, Any]:
    """Returns a row whose values of the kinds `as_json` are JSON text."""
    return {
        name: json.dumps(row[name], ensure_ascii=False)
        if kind in as_json and row[name] is not None
        else row[name]
        for name, kind in fields.items()
    }


_EXTRACTED_KINDS = {
    "str": "string",
    "int": "int64",
    "float": "double",
    "date": "time",
    "bool": "boolean",
    "list": "strings",
}
_TAKEN = frozenset([*FIELDS, "text", "markdown", "change", "contents_since", "contents_until"])
"""The columns that exports and tables of the lake may have."""
_EXTRACTED_TYPES = {"str": str, "int": int, "bool": bool, "list": list}


def extracted_fields(rules: Sequence[ExtractRule]) -> dict[str, str]:
    """Returns the kinds of the columns by name; raises ConfigurationError for the name of another column."""
    types = field_types(rules)
    if taken := sorted(types.keys() & _TAKEN):
        raise ConfigurationError(
            f"EXTRACT, field {taken[0]!r}: exports have a column of this name already; rename the field"
        )
    return {name: _EXTRACTED_KINDS[kind] for name, kind in types.items()}


def with_extracted(rows: Iterable[Row], rules: Sequence[ExtractRule]) -> Iterator[dict[str, Any]]:
    """Yields rows with their fields; None where a page has none, or had one of another type at its last reading."""
    types = field_types(rules)
    for row in rows:
        values = row["extracted"] or {}
        yield {**row, **{name: _value(values.get(name), kind) for name, kind in types.items()}}


def _value(value: Any, kind: str) -> Any:
    if kind == "date":
        with suppress(TypeError, ValueError):
            return datetime.fromisoformat(value)
        return None
    if kind == "float":
        return float(value) if type(value) in (int, float) else None
    return value if type(value) is _EXTRACTED_TYPES[kind] else None
