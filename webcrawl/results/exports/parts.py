"""The fields and files of an export: Parquet, JSON Lines or CSV, written in bounded memory."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import BigInteger, Boolean, Float, Integer
from sqlalchemy.types import TypeEngine

from webcrawl.config.libraries import optional
from webcrawl.documents.values import harmless, plain
from webcrawl.stores.columns import Structure, Unsigned64, UtcTime, pages

Row = Mapping[str, Any]


_KINDS: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    # the first match counts, because a BigInteger is also an Integer
    (UtcTime, "time"),
    (Unsigned64, "uint64"),
    (Structure, "json"),
    (BigInteger, "int64"),
    (Integer, "int32"),
    (Float, "double"),
    (Boolean, "boolean"),
)


def _kind(column_type: TypeEngine[Any]) -> str:
    return next((kind for known, kind in _KINDS if isinstance(column_type, known)), "string")


FIELDS: Mapping[str, str] = {column.name: _kind(column.type) for column in pages.columns}
"""The columns of table `pages`, with types that all formats share.

The types are string, int32, int64, uint64, double, boolean, time (UTC, microseconds) and json.
"""


class ExportPart(ABC):
    """A file of an export; its name ends with `suffix`."""

    suffix: str

    def __init__(self, path: Path | TextIO, fields: Mapping[str, str] = FIELDS) -> None:
        """Creates the file `path`; text may go to an open file. `fields`: types by name, as in `FIELDS`."""
        self._fields = fields

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Appends rows that have the fields."""

    @abstractmethod
    def close(self) -> None:
        """Finishes the file."""


class ParquetPart(ExportPart):
    """A Parquet file with a row group for each `write`, compressed by Zstandard."""

    suffix = ".parquet"

    def __init__(self, path: Path, fields: Mapping[str, str] = FIELDS) -> None:
        super().__init__(path, fields)
        pyarrow = optional("Parquet", "pyarrow", "parquet", "pyarrow", "pyarrow.parquet")
        types = {
            "string": pyarrow.string(),
            "binary": pyarrow.binary(),
            "int16": pyarrow.int16(),
            "int32": pyarrow.int32(),
            "int64": pyarrow.int64(),
            "uint64": pyarrow.uint64(),
            "double": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", tz="UTC"),
            "json": pyarrow.string(),
        }
        self._arrow = pyarrow
        self._schema = pyarrow.schema([(name, types[kind]) for name, kind in fields.items()])
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        flat = [_flat(row, self._fields) for row in rows]
        self._writer.write_table(self._arrow.Table.from_pylist(flat, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


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
            flat = _flat(row, self._fields)
            self._writer.writerow([harmless(plain(flat[name])) for name in self._fields])

    def close(self) -> None:
        self._file.close()


FORMATS: Mapping[str, type[ExportPart]] = {"parquet": ParquetPart, "jsonl": JsonLinesPart, "csv": CsvPart}


def _flat(row: Row, fields: Mapping[str, str]) -> dict[str, Any]:
    """Returns a row with JSON values as text."""
    return {
        name: json.dumps(row[name], ensure_ascii=False)
        if kind == "json" and row[name] is not None
        else row[name]
        for name, kind in fields.items()
    }
